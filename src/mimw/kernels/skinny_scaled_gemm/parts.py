"""One tile of 64 weights a program, or a part of its K, where such tiles keep the multiprocessors busy.

Input: the pipe of chunks, of which each is one consumer's, and a program's `Part`. Output: C is written. For example:

    load(inputs.writer(), x_desc, w_desc, work, part)           the producer
    compute(inputs.reader(consumer(me)), out, work, part, halves, me)       each of two consumers, with every second chunk

A chunk takes one consumer longer than its bytes take: the product, the wait for it and the scaling follow each other. Two that
take turns by chunks keep up with the memory. Then each hands the other its sums of half of X's rows, through shared memory, and
adds up the other half. Programs that share a tile do likewise through `room`: each adds up what all of them have of its slice of
rows, in the order of parts. It waits for all of them, so the programs of a tile, whose numbers follow each other, have to run at
the same time.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..gemm.product import columns

BLOCK = tl.constexpr(128)       # of K, and of weights, that share a scale


@tle.struct
class Part:
    """The tile of a program, and its chunks from number `first` of the tile up to `end`."""
    tile: Any
    first: Any
    end: Any


@tle.struct
class Halves:
    """Sums of each consumer's half of X's rows that the other one has, and a barrier for each that says that they are there."""
    sums: Any
    ready: Any


@mimw.jit
def part_of(program, work):
    """The part of a program: parts of a tile follow each other."""
    PARTS: tl.constexpr = work.tiles.PARTS
    steps, number = tl.cdiv(work.problem.K, BLOCK), program % PARTS
    return Part(program // PARTS, number * steps // PARTS, (number + 1) * steps // PARTS)


@mimw.jit
def load(inputs, x_desc, w_desc, work, part):
    """Chunks of weights, of X's rows and of their scales."""
    HINT: tl.constexpr = "evict_first" if work.tiles.STREAMED else ""
    for step in range(part.first, part.end):
        slot = inputs.acquire(step - part.first)
        tle.gpu.copy(w_desc, slot.w, w_desc.block_shape, [part.tile * 64, step * BLOCK], eviction_policy=HINT)
        tle.gpu.copy(x_desc, slot.x, x_desc.block_shape, [0, step * BLOCK])
        work.scales.copy(slot, step, 0)
        inputs.commit(step - part.first)


@mimw.jit
def half_of_both(acc, halves, me: tl.constexpr):
    """Both consumers' sums of half number `me` of X's rows."""
    tlx.local_store(halves.sums[1 - me], columns(acc, 1 - me, 2))
    tlx.barrier_arrive(halves.ready[1 - me])
    tlx.barrier_wait(halves.ready[me], 0)
    return columns(acc, me, 2) + tlx.local_load(halves.sums[me])


@mimw.jit
def store(out, sums, row, first, problem):
    """Sums of 64 weights, whose numbers are `row`, by X's rows from number `first` on, to C."""
    m = first + tl.arange(0, sums.shape[1])[None, :]
    tl.store(out.c + m.to(tl.int64) * out.row + row, sums.to(out.c.dtype.element_ty), mask=(m < problem.M) & (row < problem.N))


@mimw.jit
def slice_of_all(sums, out, part, me: tl.constexpr, PARTS: tl.constexpr):
    """(sums of all programs of a tile, the first row of X) of this program's slice of the consumer's rows. Each leaves its sums in
    `room`, of one row of X behind the other, and counts itself in a flag of the tile, for which all wait; a second flag counts who
    has seen it."""
    HALF: tl.constexpr = sums.shape[1]
    SLICE: tl.constexpr = HALF // PARTS
    first, row = part.tile * PARTS, tl.arange(0, 64)[:, None]
    place = tl.program_id(0) * 2 + me
    tl.store(out.room + place * (64 * HALF) + tl.arange(0, HALF)[None, :] * 64 + row, sums)
    here = out.flags + (part.tile * 2 + me) * 2
    tl.atomic_add(here, 1, sem="release", scope="gpu")
    tl.atomic_poll(here, PARTS, sem="acquire", scope="gpu")
    begin = (tl.program_id(0) - first) * SLICE
    inside = (begin + tl.arange(0, SLICE)[None, :]) * 64 + row
    total = tl.zeros((64, SLICE), tl.float32)
    for other in tl.static_range(PARTS):
        total += tl.load(out.room + ((first + other) * 2 + me) * (64 * HALF) + inside, cache_modifier=".cg")
    if tl.atomic_add(here + 1, 1, sem="relaxed", scope="gpu") == PARTS - 1:     # the last one clears both for the next launch
        tl.atomic_store(here, 0, sem="relaxed", scope="gpu")
        tl.atomic_store(here + 1, 0, sem="relaxed", scope="gpu")
    return total, begin


@mimw.jit
def compute(inputs, out, work, part, halves, me: tl.constexpr):
    """The consumer's half of X's rows: every second chunk, both consumers' sums, all programs' sums of its slice, C."""
    tiles = work.tiles
    HALF: tl.constexpr = tiles.TM // 2
    acc = work.scales.multiply(inputs, me, part.end - part.first, 2, 0, tiles, part.tile, part.first + me)
    sums = half_of_both(acc, halves, me)
    row = part.tile * 64 + tl.arange(0, 64)[:, None]
    if tiles.PARTS > 1:
        sums, begin = slice_of_all(sums, out, part, me, tiles.PARTS)
        store(out, sums, row, me * HALF + begin, work.problem)
    else:
        store(out, sums, row, me * HALF, work.problem)
