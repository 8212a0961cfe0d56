"""The products of few_rows.py in fp8, with a scale for each 1 x 128 of rows and each 128 x 128 of the experts' weights.

Input: descriptors of A, its scales and all experts' weights, pointers to C and to the weights' scales, what moe_align says of the
blocks, and sizes. Output: C is written. For example:

    _, grid, args, meta = scaled_product(a, scale_a, b, scale_b, c, experts, total, n, programs, bm, gated=True, swapped=1)
    few_rows_scaled_gemm[grid](*args, **meta)

C^T = B[expert] A^T, with weights as the rows of wgmma. Sums leave the tensor cores every 128 of K: 64 weights have one scale, a row
of A, which is a column here, has another. A block has few rows, so their sums are few, and waiting for each product costs little.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.epilogue import activated
from ..stolen import load_stolen
from .blocks import BlockTiles, ExpertOperands, blocks
from .few_rows import HEIGHT, store
from .scaled import BLOCK, Loader, ScalesAt, Weights

LEAST = tl.constexpr(32)        # scales of a slot: TMA starts at multiples of 128 bytes


@mimw.jit
def product(slot, row: tl.constexpr):
    """64 weights, from number `row` of the tile on, times A^T for one chunk, started and not waited for."""
    return tlx.async_dot(tlx.local_slice(slot.b, [row, 0], [HEIGHT, BLOCK]), tlx.local_trans(slot.a))


@mimw.jit
def multiply(inputs, scales_at, first, steps, me: tl.constexpr, BM: tl.constexpr, CONSUMERS: tl.constexpr):
    """Consumer `me`'s weights of both halves of a tile times A^T, scaled: `steps` chunks from number `first` on; scales are read a
    chunk ahead."""
    of_low, of_high = scales_at.left, scales_at.right
    low, high = tl.zeros((HEIGHT, BM), tl.float32), tl.zeros((HEIGHT, BM), tl.float32)
    low_ahead, high_ahead = tl.load(of_low), tl.load(of_high)
    for step in range(steps):
        low_scale, high_scale, at = low_ahead, high_ahead, min(step + 1, steps - 1) * scales_at.next_step
        low_ahead, high_ahead = tl.load(of_low + at), tl.load(of_high + at)
        slot = inputs.wait(first + step).slot
        part, more = product(slot, HEIGHT * me), product(slot, HEIGHT * (CONSUMERS + me))
        scales = tlx.local_load(tlx.local_slice(slot.scales, [0], [BM]))
        part, more = tlx.async_dot_wait(0, part), tlx.async_dot_wait(0, more)
        inputs.release(first + step)
        low += part * (scales * low_scale)[None, :]
        high += more * (scales * high_scale)[None, :]
    return low, high


@mimw.jit
def compute(inputs, c, source, weights, me: tl.constexpr, CONSUMERS: tl.constexpr):
    """Consumer `me`'s weights of each output tile of this program."""
    BM: tl.constexpr = source.tiles.BM
    steps = source.steps()
    chunk = 0
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        at = source.at(tile)
        mine, other = at.n + HEIGHT * me, at.n + HEIGHT * (CONSUMERS + me)
        scales = weights.scales + tl.load(weights.experts + at.m // BM).to(tl.int64) * weights.steps.expert
        of_low = scales + mine // BLOCK * weights.steps.row
        if weights.GATED:
            of_high = of_low + source.problem.N // BLOCK * weights.steps.row
        else:
            of_high = scales + min(other, source.problem.N - 1) // BLOCK * weights.steps.row
        low, high = multiply(inputs, ScalesAt(of_low, of_high, weights.steps.chunk), chunk, steps, me, BM, CONSUMERS)
        if weights.GATED:
            store(c, activated(low, "silu") * high, at.m, mine, source.problem.N)
        else:
            store(c, low, at.m, mine, source.problem.N)
            store(c, high, at.m, other, source.problem.N)
        chunk += steps


@mimw.jit
def few_rows_scaled_gemm(a_desc, scales_desc, b_desc, c, scale_b, steps, experts_ptr, total_ptr, N, K, FORM: tl.constexpr):
    """C[rows, N] = A B[expert]^T of rows in blocks, or, GATED, silu(A gate^T) (A up^T) of the halves of B[expert], with B as
    (experts, N or 2 N, K), A's scales as (cdiv(K, 128), rows), and B's as `steps` say."""
    BM: tl.constexpr = FORM.BM
    STAGES: tl.constexpr = FORM.STAGES
    CONSUMERS: tl.constexpr = FORM.CONSUMERS
    WIDTH: tl.constexpr = HEIGHT * CONSUMERS * (1 if FORM.GATED else 2)
    inputs = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BLOCK], tlx.dtype_of(a_desc)),
                      scales=tle.gpu.alloc([STAGES, max(BM, LEAST)], tl.float32),
                      b=tle.gpu.alloc([STAGES, 2 * HEIGHT * CONSUMERS, BLOCK], tlx.dtype_of(b_desc)))
    tl.extra.cuda.gdc_wait()                    # for all that the launches ahead have written
    tl.extra.cuda.gdc_launch_dependents()

    tiles, operands = BlockTiles(BM, WIDTH, FORM.GROUP_M, BLOCK), ExpertOperands(a_desc, b_desc, experts_ptr, N, FORM.GATED)
    weights = Weights(scale_b, steps, experts_ptr, FORM.GATED, HEIGHT)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), c, blocks(total_ptr, N, K, tiles), weights, me, CONSUMERS)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            source = blocks(total_ptr, N, K, tiles)
            load_stolen(Loader(inputs.writer(), operands, scales_desc, source), source, None, None)
