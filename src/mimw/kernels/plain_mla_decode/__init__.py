"""MLA decoding that takes any number of heads, columns and page sizes and runs on any GPU, in bf16, fp16 and fp32, on caches of the
same type, of e4m3 with one scale, or in FlashMLA's layout of 656 bytes a row.

Input: q (batch, queries, heads, width), the cache (pages, page_size, 1, width), lengths (batch). Output: out = softmax(scale q k^T)
v, where v are the first columns of the cache's rows, and the logarithms of the softmax's denominators. For example:

    arguments(q, cache, lengths, out, lse, room, page_table)        [(kernel, grid, args, meta), ...], numpy or torch
"""

from __future__ import annotations

from ..attention.changes import scale_of
from ..contract import Contract
from ..contract.memory import strides
from ..mla_decode.caches import PACKED, RULES, arrays_of, kind_of, lines, places_of, views
from ..plain_attention_decode import plain_combine
from ..plain_attention_decode.configs import splits_for as splits_of_tiles
from ..plain_attention_decode.nouns import CombineForm, Steps
from ..powers import SMALLEST, tile
from .kernel import plain_mla_decode as kernel
from .nouns import Form, Problem

WIDE, NARROW = 64, 32       # rows and keys at a time: with the shared memory of an sm_90, and without
LONGEST = 640               # columns of a row, in both tiles, of which so many fit

CONTRACT = Contract(*lines("float"), *RULES, "splits >= 1 -- it must be 1 or more")

__all__ = ["CONTRACT", "arguments", "kernel", "plain_combine", "room_for", "splits_for"]


def _form(rows: int, value_dim: int, width: int, in_bytes: int, wide: bool) -> Form:
    """The tiles: few rows and keys at a time, since rows are long, or where there is room as many as products take."""
    columns, others = tile(value_dim), tile(width - value_dim)
    wide = wide and in_bytes == 2 and rows > SMALLEST and columns + others <= LONGEST
    return Form(min(WIDE, tile(rows)) if wide else SMALLEST, WIDE if wide else NARROW if in_bytes == 2 else SMALLEST, value_dim,
                width - value_dim, columns, others, 1, True, False)


def splits_for(q, capacity: int, multiprocessors: int, wide: bool = True) -> int:
    """The parts into which keys are cut so that all multiprocessors have something to read."""
    rows = q.shape[1] * q.shape[2]
    form = _form(rows, 1, 2, q.dtype.itemsize, wide)
    return splits_of_tiles(-(-rows // form.BM.value) * q.shape[0], capacity, multiprocessors)


def room_for(q, value_dim: int, splits: int) -> int:
    """The fp32 numbers of room that so many splits need."""
    batch, queries, heads, _ = q.shape
    return splits * batch * queries * heads * (value_dim + 2) if splits > 1 else 0


def arguments(q, cache, lengths, out, lse, room, page_table=None, scale: float | None = None, causal: bool = True, splits: int = 1,
              exact: bool = False, wide: bool = False, k_scale=None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...], one or two launches in turn, that compute out = softmax(scale q k^T) v and lse.

    args:      q, lengths, out, lse, causal   as `mimw.kernels.mla_decode.arguments` has them, in bf16, fp16 or fp32, of any widths
               cache     (pages, page_size, 1, width) of q's type, of e4m3 with k_scale, or packed in e4m3 without; rows contiguous
               room      fp32, as many numbers as `room_for` says, or None for one split
               page_table   (batch, most pages) int32, or None for (batch, length, 1, width)
               scale     of the scores, any number; by default width ** -0.5
               splits    how many parts the keys are cut into
               exact     fp32 products as fp32 has them; else as tf32
               wide      the chip is sm_90 or has as much shared memory
               k_scale   (1) fp32, what keys and values of e4m3 are multiplied by
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of = CONTRACT.check(q=q, cache=cache, lengths=lengths, out=out, lse=lse, room=room, page_table=page_table, k_scale=k_scale,
                        splits=splits)
    batch, queries, heads, width, dv, page = of.batch, of.queries, of.heads, of.width, of.value_dim, of.page_size
    form = _form(queries * heads, dv, width, q.dtype.itemsize, wide)
    form = Form(form.BM, form.BN, dv, width - dv, form.DV_TILE, form.DT_TILE, splits, causal, exact and q.dtype.itemsize == 4)
    parts = views(cache, q, lse, dv, kind_of(cache, k_scale) == PACKED)
    capacity, row = (page, 0) if page_table is None else (page * page_table.shape[1], strides(page_table)[0])
    args = (q, arrays_of(parts), page_table, lengths, out, lse, room, k_scale, float(scale_of(scale, width)),
            Problem(queries, heads, page, capacity, row), places_of(parts))
    meta = dict(FORM=form, num_warps=8 if form.DV_TILE.value > 256 else 4, num_stages=1)
    launches = [(kernel, (splits, -(-queries * heads // form.BM.value) * batch), args, meta)]
    if splits > 1:
        together = max(2, min(1 << (splits - 1).bit_length(), 4096 // form.DV_TILE.value))
        launches.append((plain_combine, (batch * heads * queries, ), (out, lse, room, None, queries, heads, Steps(*strides(out))),
                         dict(FORM=CombineForm(dv, form.DV_TILE, splits, together), num_warps=4)))
    return launches
