"""`C = X W^T` of few rows in fp8, with scales of blocks, for Hopper: weights are read once by all SMs, at memory's speed.

Input: descriptors of X (M, K), W (N, K) and X's scales, W's scales and C as pointers, room and sizes. Output: C is written:

    grid, args, meta = arguments(x, w, c, x_scales, w_scales, room, flags, programs)
    skinny_scaled_gemm[grid](*args, **meta)

Roles, shares and the order of sums are those of ../skinny_gemm, whose chunk of 128 bytes is here one block of scales: the product
of each is multiplied by the scales of its 64 weights and of X's rows, and added up in fp32. X's rows are the columns of a product,
so that as few as 8 cost no more than they are; while one consumer scales, another one multiplies. The launch may begin before the
one ahead has ended; it waits for all that is written there before it reads what counts. Where tiles of 64 weights, or parts of
their K, keep the multiprocessors busy, each program has one of them instead of a share (parts.py).
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, one_of_consumers
from ..gemm.tiles import Problem
from ..skinny_gemm.kernel import Output, Work, compute, first_chunk, load
from .parts import BLOCK, Halves, part_of
from .parts import compute as compute_part
from .parts import load as load_part


@tle.struct
class Scales:
    """The descriptor of X's scales (chunks, M), whose block is as wide as a power of two; W's, whose strides from one block of
    weights and from one chunk to the next are `row` and `chunk`, and their last block of weights."""
    x_desc: Any
    w: Any
    row: Any
    chunk: Any
    last: Any

    @mimw.jit
    def copy(self, slot, step, m):
        """X's scales of a chunk."""
        tle.gpu.copy(self.x_desc, slot.scales, self.x_desc.block_shape, [step, m])

    @mimw.jit
    def multiply(self, inputs, first, end, EVERY: tl.constexpr, row: tl.constexpr, tiles, tile, step):
        """64 weights, from number `row` of tile number `tile` of weights on, times TM rows of X: the scaled sum over each EVERY-th
        chunk from `first`, which is number `step` of the tile, up to `end`."""
        block = tl.minimum((tile * tiles.WN + row) // BLOCK, self.last)      # a tile's last weights may be none
        at = self.w + block * self.row + step * self.chunk
        acc = tl.zeros((64, tiles.TM), tl.float32)
        for chunk in range(first, end, EVERY):
            slot = inputs.wait(chunk).slot
            of_w = tl.load(at)
            part = tlx.async_dot(tlx.local_slice(slot.w, [row, 0], [64, BLOCK]), tlx.local_trans(slot.x))
            of_x = tlx.local_load(tlx.local_slice(slot.scales, [0], [tiles.TM]))
            part = tlx.async_dot_wait(0, part)
            inputs.release(chunk)
            acc += part * (of_x * of_w)[None, :]
            at += EVERY * self.chunk
        return acc


@mimw.jit
def hint(w_desc, n, first, end, COUNT: tl.constexpr):
    """The first COUNT of a tile's chunks `first` to `end`, whose weights begin at number n, to L2, before the launch ahead has
    ended: what is in L2 is what the memory holds, whoever writes it."""
    for step in range(first, tl.minimum(first + COUNT, end)):
        tlx.async_descriptor_prefetch_tensor(w_desc, [n, step * BLOCK])


@mimw.jit
def hint_of_shares(w_desc, work, COUNT: tl.constexpr):
    """The first chunks of a program's share, those of its last tile."""
    steps, tiles_m = tl.cdiv(work.problem.K, BLOCK), tl.cdiv(work.problem.M, work.tiles.TM)
    first, end = first_chunk(tl.program_id(0), work.chunks), first_chunk(tl.program_id(0) + 1, work.chunks)
    if end > first:
        tile = (end - 1) // steps
        hint(w_desc, tile // tiles_m * work.tiles.WN, max(first - tile * steps, 0), end - tile * steps, COUNT)


@mimw.jit
def skinny_scaled_gemm(x_desc, w_desc, scales_desc, w_scales, c, room, flags, sizes, TILES: tl.constexpr):
    """C (M, N), whose rows are `sizes.c_row` elements apart. `room` and `flags` are as those of `skinny_gemm`. With parts STAGES
    are even, so that a slot is always the same consumer's: a phase that it waits for is then never two ahead."""
    STAGES: tl.constexpr = TILES.STAGES
    CONSUMERS: tl.constexpr = TILES.CONSUMERS
    PARTS: tl.constexpr = TILES.PARTS
    tl.static_assert(TILES.WN == 64 and STAGES % CONSUMERS == 0 if PARTS else TILES.WN == 64 * CONSUMERS)
    READERS: tl.constexpr = one_of_consumers(CONSUMERS) if PARTS else consumers(CONSUMERS)
    inputs = tle.pipe(capacity=STAGES, readers=READERS, name="inputs",
                      w=tle.gpu.alloc([STAGES, TILES.WN, BLOCK], tlx.dtype_of(w_desc)),
                      x=tle.gpu.alloc([STAGES, TILES.TM, BLOCK], tlx.dtype_of(x_desc)),
                      scales=tle.gpu.alloc([STAGES, scales_desc.block_shape[1]], tl.float32))
    halves = Halves(tlx.local_alloc((64, TILES.TM // 2), tl.float32, 2), tlx.alloc_barriers(2)) if PARTS else None
    scales = Scales(scales_desc, w_scales, sizes.row, sizes.chunk, (sizes.N - 1) // BLOCK)
    work = Work(Problem(sizes.M, sizes.N, sizes.K), sizes.chunks, TILES, scales)
    part = part_of(tl.program_id(0), work) if PARTS else None
    tl.extra.cuda.gdc_launch_dependents()
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=160 if CONSUMERS == 3 else 240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            out = Output(c, sizes.c_row, room, flags)
            tl.extra.cuda.gdc_wait()
            if PARTS:
                compute_part(inputs.reader(consumer(me)), out, work, part, halves, me)
            else:
                compute(inputs.reader(consumer(me)), out, work, me)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            if PARTS:
                hint(w_desc, 64 * part.tile, part.first, part.end, STAGES)
                tl.extra.cuda.gdc_wait()        # for all that the launches ahead have written
                load_part(inputs.writer(), x_desc, w_desc, work, part)
            else:
                hint_of_shares(w_desc, work, STAGES)
                tl.extra.cuda.gdc_wait()
                load(inputs.writer(), x_desc, w_desc, work)
