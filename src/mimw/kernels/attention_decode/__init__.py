"""Attention with a cache of keys and values for Hopper, as in decoding: bf16 and fp16, head dims up to 256, a few new
queries of each sequence, caches in one piece or in pages, lengths that only the device knows, grouped queries, sliding window,
soft cap, sinks.

Input: q (batch, queries, heads, dim), caches (batch, length, kv_heads, dim) or (pages, page_size, kv_heads, dim), lengths
(batch). Output: o = softmax(scale q k^T) v, and the logarithms of the softmax's denominators. For example:

    arguments(q, k_cache, v_cache, lengths, o, lse, room, programs)   [(kernel, grid, args, meta), ...]

The new queries are the last ones of their sequence, and a query sees the keys up to its own: query i of a sequence of n keys
those up to i + n - queries. A sequence without keys gives zeros, and -inf as logarithm, or its head's sink.
"""

from __future__ import annotations

from dataclasses import replace
from math import e, log2

import mimw

from ..attention.changes import SCALE, capped, scale_of
from ..checks import PROGRAMS, enough
from ..contract import Contract
from ..contract.memory import strides
from .combine.kernel import combine
from .configs import (
    FEW_DIM,
    FEW_KEYS,
    FEW_ROWS,
    HEAD_DIMS,
    MOST_UNITS,
    PAGES,
    ROWS,
    Configuration,
    columns_of,
    combine_tile,
    configuration,
    tall_of,
    tile_of,
)
from .contract_lines import CACHES, Q, caches
from .few_rows.kernel import attention_decode_few_rows as few_kernel
from .few_rows_epilogue.kernel import attention_decode_few_rows_epilogue as finished_kernel
from .nouns import CombineForm, OfResults, Split
from .split_kv.kernel import attention_decode as kernel
from .splits import PIECES
from .units import MUCH

CONTRACT = Contract(
    Q.format(types="bf16|fp16", memory=" rows"), *caches(" tma"), *CACHES, "room: fp32 (numbers)", "flags?: i32 (words)",
    f"dim <= {HEAD_DIMS[-1]} -- the head dim may be up to {HEAD_DIMS[-1]}", "value_dim == dim -- values must be as wide as keys",
    f"page_table is None or page_size in {PAGES} -- pages may have {', '.join(map(str, PAGES))} keys", SCALE,
    "left >= 0 -- it must be 0 or more keys, or None for no bound", "splits >= 1 -- it must be 1 or more, or None", PROGRAMS)

__all__ = ["CONTRACT", "Configuration", "arguments", "combine", "configuration", "configuration_of", "few_kernel",
           "finished_kernel", "flags_for", "kernel", "room_for"]


def configuration_of(q, k_cache, page_table=None) -> Configuration:
    """The measured configuration for arrays as `arguments` takes them."""
    kv_heads, capacity = k_cache.shape[2], k_cache.shape[1] * (1 if page_table is None else page_table.shape[1])
    return configuration(q.shape[3], q.shape[1] * q.shape[2] // kv_heads, most_blocks(q.shape[0] * kv_heads, capacity),
                         k_cache.dtype.itemsize)


def room_for(q, kv_heads: int, programs: int, chosen: Configuration | None = None) -> int:
    """The fp32 numbers of room that a launch of so many programs needs."""
    batch, queries, heads, dim = q.shape
    rows = queries * heads // kv_heads
    chosen = chosen or configuration(dim, rows)
    if chosen.few:
        return slots_for(programs, chosen) * tall_of(rows) * (tile_of(dim) + 2)
    most = 2 // chosen.streams * ROWS
    return slots_for(programs, chosen) * min(rows, most) * (tile_of(dim) + 2) + 4 * batch * kv_heads * -(-rows // most)


def slots_for(programs: int, chosen: Configuration) -> int:
    """The number of parts of tiles that there may be: two of each worker, and two of each split that is drawn."""
    workers = programs if chosen.few else chosen.streams * programs
    return 2 * workers * ((1 + PIECES.value if chosen.few else 2) if chosen.drawn else 1)


def most_blocks(tiles: int, capacity: int) -> int:
    """The blocks, of the smallest that forms of few rows take, of so many tiles, each of up to `capacity` keys."""
    return tiles * max(1, -(-capacity // FEW_KEYS))


def flags_for(programs: int, chosen: Configuration) -> int:
    """The flags that a launch of so many programs needs: a counter, and with `few` one for each split."""
    return 1 + (slots_for(programs, chosen) // 2 if chosen.few else 0)


def arguments(q, k_cache, v_cache, lengths, o, lse, room, programs: int, page_table=None, scale: float | None = None,
              left: int | None = None, softcap: float | None = None, sinks=None, splits: int | None = None,
              chosen: Configuration | None = None, flags=None, k_scale=None, v_scale=None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...], one or two launches in turn, that compute o = softmax(scale q k^T) v and the
    logarithms of the softmax's denominators.

    args:      q          (batch, queries, heads, dim) of bf16 or fp16, dim up to 256, contiguous along dim
               k_cache, v_cache   (batch, length, kv_heads, dim), or, with a page table, (pages, page_size, kv_heads, dim) with
                          pages of 16, 32, 64, 128 or 256; kv_heads divides heads, and head h reads kv head h * kv_heads //
                          heads; contiguous along dim, the other strides are multiples of 16 bytes
                          e4m3 for up to 16 rows and head dims up to 128, with scales, else of q's type
               lengths    (batch) int32, contiguous: how many keys of each sequence count, those of the new queries among them
               o          like q
               lse        (batch, heads, queries) fp32, contiguous
               room       fp32, as many numbers as `room_for` says; what is in it does not matter
               programs   how many persistent programs: one per SM
               page_table (batch, most pages of a sequence) int32, contiguous along the last: page j of a sequence has its keys
                          from j * page_size on. Entries behind a sequence's keys, or in front of its window, are not looked
                          at; entries that are no page count as zeros
               scale      of the scores, more than 0; by default 1 / sqrt(dim)
               left       how many keys before its own position a query sees; None for all
               softcap    more than 0: scores become softcap tanh(score / softcap), by tanh.approx on the chip
               sinks      (heads) fp32, contiguous: a logit of each head that joins the denominators
               splits     into so many parts at most the keys of a sequence are cut; None for equal splits of all workers. With
                          1 the result of a sequence does not depend on the others, and there is one launch
               chosen     by default the measured configuration
               flags      int32, as many as `flags_for` says, 0 before and after a launch, for one launch at a time; up to 16
                          rows then take one launch, and the last keys may be drawn, not shared out. None for neither
               k_scale, v_scale   of caches of e4m3: (kv_heads) or (1) fp32, contiguous, more than 0, what the head's keys and
                          values are multiplied by
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    of = CONTRACT.check(q=q, k_cache=k_cache, v_cache=v_cache, lengths=lengths, o=o, lse=lse, room=room, page_table=page_table,
                        sinks=sinks, softcap=softcap, k_scale=k_scale, v_scale=v_scale, flags=flags, scale=scale, left=left,
                        splits=splits, programs=programs)
    batch, queries, heads, dim, count, page_size, kv_heads = (of.batch, of.queries, of.heads, of.dim, of.pages, of.page_size,
                                                              of.kv_heads)
    scale = scale_of(scale, dim)
    rows = queries * heads // kv_heads
    capacity = page_size if page_table is None else page_size * page_table.shape[1]
    chosen = chosen or configuration_of(q, k_cache, page_table)
    few = chosen.few
    if k_scale is not None and not few:
        raise ValueError(f"the caches are {k_cache.dtype}, and a tile has {rows} rows of {dim}; e4m3 is read for up to {FEW_ROWS} "
                         f"rows and {FEW_DIM} columns, by a configuration with `few`")
    if few and (flags is None or rows > FEW_ROWS):
        raise ValueError(f"a tile has {rows} rows and flags are {'None' if flags is None else 'there'}; with `few` it may have up "
                         f"to {FEW_ROWS}, and flags are needed")
    if few and (chosen.bn < FEW_KEYS or most_blocks(batch * kv_heads, capacity) >= MOST_UNITS):
        raise ValueError(f"blocks have {chosen.bn} keys, and there may be {most_blocks(batch * kv_heads, capacity)} of {FEW_KEYS}; "
                         f"with `few` they must have {FEW_KEYS} or more, 16 for each of four warps, and be fewer than {MOST_UNITS}")
    tall = 2 // chosen.streams
    row_tiles = -(-rows // (ROWS * tall))
    enough(room=(room, room_for(q, kv_heads, programs, chosen)))
    if flags is not None:
        enough(flags=(flags, flags_for(programs, chosen)))
    inner, scale = capped(scale, softcap)
    page = 0 if page_table is None else page_size
    box = [1, 1, min(page or chosen.bn, chosen.bn), min(tile_of(dim), 128 // k_cache.dtype.itemsize)]
    workers = programs if few else programs * chosen.streams
    most = batch * kv_heads * row_tiles * -(-capacity // chosen.bn)     # blocks that there may be
    if not (chosen.drawn and flags is not None and splits is None and most >= MUCH.value * workers):
        chosen = replace(chosen, drawn=0)
    meta = chosen.meta(dim, page, batch, rows)
    steps, row = (*strides(q)[:3], *strides(o)[:3]), 0 if page_table is None else strides(page_table)[0]
    front = q, _described(k_cache, box), _described(v_cache, box), page_table, lengths, o, lse, room
    sizes = scale * log2(e), inner, splits, left, batch, queries, heads, heads // kv_heads
    if few:
        columns, per = columns_of(kv_heads, programs)
        scales = k_scale, v_scale, 0 if k_scale is None else int(k_scale.shape[0] > 1)
        args = (*front, flags, sinks, *scales, *sizes, capacity, count, slots_for(programs, chosen), per, columns, row, *steps)
        return [(few_kernel if few == 1 else finished_kernel, (per * columns, ), args, meta)]
    args = *front, flags if chosen.drawn else None, sinks, *sizes, row_tiles, capacity, count, row, *steps
    launches = [(kernel, (programs, ), args, meta)]
    if splits != 1:
        tiles = batch * kv_heads * row_tiles
        most = min(rows, ROWS * tall)
        form = CombineForm(tile_of(dim), dim, tall, *combine_tile(tile_of(dim), most, tiles), True)
        split = Split(queries, heads, heads // kv_heads, row_tiles, slots_for(programs, chosen))
        launches.append((combine, (tiles, -(-most // form.ROWS.value)), (o, lse, room, sinks, split, OfResults(*strides(o)[:3])),
                         dict(FORM=form, launch_pdl=True, num_warps=4)))
    return launches


def _described(cache, box: list[int]) -> mimw.TensorDescriptor:
    """(pages, kv_heads, page_size, dim). The stride of an extent of 1 says nothing, may be what TMA refuses, and gets another."""
    shape, steps = list(map(int, cache.shape)), strides(cache)
    order = (0, 2, 1)
    steps = [steps[at] if shape[at] > 1 else shape[3] for at in order]
    return mimw.TensorDescriptor(cache, [*(shape[at] for at in order), shape[3]], [*steps, 1], box)
