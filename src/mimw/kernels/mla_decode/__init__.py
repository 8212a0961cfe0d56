"""MLA decoding (DeepSeek's multi-head latent attention) for Hopper, in bf16 and fp16: a few new queries of each sequence, whose
heads all share one latent cache, in one piece or in pages, with lengths that only the device knows.

Input: q (batch, queries, heads, DV + DT), the cache (pages, page_size, 1, DV + DT), lengths (batch). Output: out = softmax(scale q
k^T) v, where v are the first DV columns of the cache's rows, and the logarithms of the softmax's denominators. For example:

    arguments(q, cache, lengths, out, lse, room, programs, page_table)       [(kernel, grid, args, meta), ...]
"""

from __future__ import annotations

from math import e, log2

import mimw

from ..attention.changes import SCALE, scale_of
from ..attention_decode.combine.kernel import combine
from ..attention_decode.configs import MOST_LENGTHS, MOST_UNITS, combine_tile
from ..attention_decode.nouns import CombineForm, OfResults, Split
from ..checks import PROGRAMS, enough, lie
from ..contract import Contract
from ..contract.memory import strides
from .caches import OWN, PACKED, RULES, kind_of, lines, unit_of, views, words_of
from .kernel import mla_decode as of_pages
from .kernel import mla_decode_bytes as of_bytes
from .nouns import Form, Sizes, Steps

ROWS, BLOCK = 64, 64        # of a program, queries times heads; of keys
VALUES, OTHERS = (512, 256, 128), 64        # columns of a row
LEAST = 2                   # blocks of a group of programs, if there are so many

CONTRACT = Contract(
    *lines("bf16|fp16"), *RULES, "room is not None -- parts of sequences need it",
    f"value_dim in {VALUES} and width == value_dim + {OTHERS} -- rows are 512 columns of values (or 256, or 128) and 64 more",
    "page_table is None or fp8(cache) or page_size in (16, 32) or page_size % 64 == 0 -- pages may have 16 or 32 keys, or a "
    "multiple of 64", SCALE,
    "splits >= 1 -- it must be 1 or more, or None", PROGRAMS)

__all__ = ["CONTRACT", "MOST_UNITS", "arguments", "combine", "of_bytes", "of_pages", "room_for", "sums_of", "words_of"]


def slots_for(rows: int, programs: int) -> int:
    """The parts of sequences that there may be: two of each group of programs."""
    return 2 * (programs // -(-rows // ROWS) or 1)


def room_for(q, value_dim: int, programs: int) -> int:
    """The fp32 numbers of room that a launch of so many programs needs."""
    batch, queries, heads, _ = q.shape
    return 4 * batch + slots_for(queries * heads, programs) * queries * heads * (value_dim + 2)


def sums_of(room, batch: int, rows: int, value_dim: int, programs: int):
    """The part of room in which sums of p V stand, (parts, rows, DV)."""
    slots = slots_for(rows, programs)
    first = 4 * batch + 2 * slots * rows
    return room[first:first + slots * rows * value_dim].reshape(slots, rows, value_dim)


def arguments(q, cache, lengths, out, lse, room, programs: int, page_table=None, scale: float | None = None, causal: bool = True,
              splits: int | None = None, k_scale=None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...], one or two launches in turn, that compute out = softmax(scale q k^T) v and the logarithms
    of the softmax's denominators.

    args:      q          (batch, queries, heads, DV + DT) of bf16 or fp16, contiguous; DV is 512, 256 or 128, DT 64
               cache      (pages, page_size, 1, DV + DT) of q's type, with pages of 16, 32 or a multiple of 64 keys, or without a
                          page table (batch, length, 1, DV + DT); contiguous rows, other strides are multiples of 16 bytes. Or of
                          e4m3 with k_scale, or packed in e4m3 without (caches.py), with any pages
               lengths    (batch) int32: how many keys of each sequence count, those of the new queries among them
               out        (batch, queries, heads, DV) of q's type, contiguous
               lse        (batch, heads, queries) fp32, contiguous; -inf for queries that see no key
               room       fp32, as many numbers as `room_for` says; what is in it does not matter
               programs   how many persistent programs: one per SM, and no fewer than a sequence has 64s of rows
               page_table (batch, most pages) int32: page j of a sequence has its keys from j * page_size on; entries behind its
                          keys are not looked at, entries that are no page count as zeros
               scale      of the scores, more than 0; by default (DV + DT) ** -0.5
               causal     query i sees keys up to i + length - queries; else all
               splits     into so many parts at most the keys of a sequence are cut; with 1 there is one launch
               k_scale    (1) fp32, what keys and values of e4m3 are multiplied by
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    of = CONTRACT.check(q=q, cache=cache, lengths=lengths, out=out, lse=lse, room=room, page_table=page_table, k_scale=k_scale,
                        scale=scale, splits=splits, programs=programs)
    batch, queries, heads, width, dv, page_size = of.batch, of.queries, of.heads, of.width, of.value_dim, of.page_size
    rows, paged, kind = queries * heads, page_table is not None, kind_of(cache, k_scale)
    tiles = -(-rows // ROWS)
    capacity = page_size * page_table.shape[1] if paged else page_size
    if tiles > programs or batch * -(-capacity // BLOCK) >= MOST_UNITS:
        raise ValueError(f"a sequence has {tiles} tiles of {ROWS} rows for {programs} programs, and all have up to "
                         f"{batch * -(-capacity // BLOCK)} blocks of {BLOCK} keys; there must be a program for each tile, and "
                         f"fewer than {MOST_UNITS} blocks")
    enough(room=(room, room_for(q, dv, programs)))
    describe = mimw.TensorDescriptor.from_tensor
    slots, groups = slots_for(rows, programs), programs // tiles
    if kind == PACKED:
        views(cache, q, lse, dv, True)      # refuses what has none
    unit = 1 if kind == OWN else unit_of(cache)
    form = Form(dv, width - dv, BLOCK, page_size if paged else 0, tiles, causal,
                min(MOST_LENGTHS, max(16, 1 << (batch - 1).bit_length())), LEAST, kind, unit)
    sizes = Sizes(scale_of(scale, width) * log2(e), splits, batch, queries, heads, capacity, of.pages, slots,
                  strides(page_table)[0] if paged else 0)
    back = (page_table, lengths, describe(out.reshape(batch, rows, dv), [1, ROWS, 64]), lse, room,
            describe(sums_of(room, batch, rows, dv, programs), [1, ROWS, 32]))
    front = describe(q.reshape(batch, rows, width), [1, ROWS, 64])
    if kind == OWN:
        kernel, args = of_pages, (front, _described(cache, of, min(page_size, BLOCK) if paged else BLOCK), *back, sizes)
    else:
        steps = Steps(*(step // unit for step in strides(cache)[:2]))
        kernel, args = of_bytes, (front, words_of(cache, lengths), *back, k_scale, steps, sizes)
    launches = [(kernel, (groups * tiles, ), args, dict(FORM=form, num_warps=4))]
    if splits != 1:
        each = CombineForm(dv, dv, tiles, *combine_tile(dv, rows, batch), True)
        launches.append((combine, (batch, -(-rows // each.ROWS.value)),
                         (out, lse, room, None, Split(queries, heads, heads, 1, slots), OfResults(*strides(out)[:3])),
                         dict(FORM=each, launch_pdl=True, num_warps=4)))
    return launches


def _described(cache, of, box: int) -> mimw.TensorDescriptor:
    """(pages, page_size, width). The stride of an extent of 1 says nothing, may be what TMA refuses, and gets another."""
    lie("tma", cache=cache)
    shape = of.pages, of.page_size, of.width
    steps = [step if extent > 1 else of.width for step, extent in zip(strides(cache), shape[:2])]
    return mimw.TensorDescriptor(cache, list(shape), [*steps, 1], [1, box, 64])
