"""The products of a mixture of experts for blocks of few rows, as in decoding: weights are the rows of wgmma, tokens its columns.

Input: descriptors of A and of all experts' weights, a pointer to C, what moe_align says of the blocks, and sizes. Output: C is
written. For example:

    _, grid, args, meta = product(a, b, c, tokens, experts, total, k, n, rows, programs, chosen, True, False)   chosen.swapped
    few_rows_gemm[grid](*args, **meta)

wgmma has 64 rows at least and 8 columns. In kernel.py a block of 16 rows is a quarter of a tile whose other rows are zeros that
take shared memory; here C^T = B[expert] A^T, so the ring holds weights and hardly anything else. Blocks, the order of tiles, GATED
and the tiles along K are those of kernel.py. Each consumer has 64 weights of a tile, or two times 64: of the gate and of up, where
GATED.

With a `counter` tiles are stolen: SMs do not get equal shares of the memory's bandwidth, and with equal shares of the tiles the
slowest would end last. A producer steals its next tile when it begins one, and sends its consumers which it is by the pipe `order`
(stolen.py).
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.epilogue import activated
from ..gemm.sources import OneMatrix
from ..stolen import first_tile, load_stolen, next_tile, order_pipe
from .blocks import AHEAD_BYTES, BlockTiles, ExpertOperands, ask_ahead, blocks, load_block

HEIGHT = tl.constexpr(64)       # weights of a product


@tle.struct
class Loader:
    """Tiles of A's rows and of the expert's weights along K."""
    inputs: tle.pipe_writer
    operands: ExpertOperands
    source: OneMatrix

    @mimw.jit
    def load(self, chunk, at):
        return load_block(self.inputs, chunk, self.operands, self.source, at)


@mimw.jit
def started(slot, row: tl.constexpr, acc):
    """acc += 64 weights, from number `row` of the tile on, times A^T, started and not waited for."""
    weights = tlx.local_slice(slot.b, [row, 0], [HEIGHT, slot.b.shape[1]])
    return tlx.async_dot(weights, tlx.local_trans(slot.a), acc)


@mimw.jit
def multiply(inputs, first, steps, me: tl.constexpr, BM: tl.constexpr, HALVES: tl.constexpr, CONSUMERS: tl.constexpr):
    """Consumer `me`'s weights of either half of a tile times A^T, for `steps` chunks from number `first` on; with one half the
    other sums are zeros. The products of one chunk are always under way."""
    low, high = tl.zeros((HEIGHT, BM), tl.float32), tl.zeros((HEIGHT, BM), tl.float32)
    for chunk in range(first, first + steps):
        slot = inputs.wait(chunk).slot
        low = started(slot, HEIGHT * me, low)
        if HALVES == 2:
            high = started(slot, HEIGHT * (CONSUMERS + me), high)
        low, high = tlx.async_dot_wait(HALVES, low), tlx.async_dot_wait(HALVES, high)
        inputs.release(chunk - 1, pred=chunk > first)
    low, high = tlx.async_dot_wait(0, low), tlx.async_dot_wait(0, high)
    inputs.release(first + steps - 1)
    return low, high


@mimw.jit
def store(c, sums, m, n, N):
    """C[m .., n ..] = sums^T."""
    row, column = m + tl.arange(0, sums.shape[1]), n + tl.arange(0, HEIGHT)
    at = c + row.to(tl.int64)[None, :] * N + column[:, None]
    tl.store(at, sums.to(c.dtype.element_ty), mask=(column < N)[:, None])


@mimw.jit
def compute(inputs, order, c, source, me: tl.constexpr, HALVES: tl.constexpr, CONSUMERS: tl.constexpr, GATED: tl.constexpr):
    """Consumer `me`'s weights of each output tile of this program."""
    steps = source.steps()
    turn = 0
    tile = first_tile(order)
    while tile < source.count():
        low, high = multiply(inputs, turn * steps, steps, me, source.tiles.BM, HALVES, CONSUMERS)
        at = source.at(tile)
        if GATED:
            store(c, activated(low, "silu") * high, at.m, at.n + HEIGHT * me, source.problem.N)
        else:
            store(c, low, at.m, at.n + HEIGHT * me, source.problem.N)
            if HALVES == 2:
                store(c, high, at.m, at.n + HEIGHT * (CONSUMERS + me), source.problem.N)
        turn += 1
        tile = next_tile(tile, order, turn)


@mimw.jit
def few_rows_gemm(a_desc, b_desc, c, experts_ptr, total_ptr, counter, N, K, FORM: tl.constexpr):
    """C[rows, N] = A B[expert]^T of rows in blocks, or, GATED, silu(A gate^T) (A up^T) of the halves of B[expert], with B as
    (experts, N or 2 N, K). C's rows follow each other. `counter` is an int32, 0 before and after a launch, or None."""
    CONSUMERS: tl.constexpr = FORM.CONSUMERS
    tl.static_assert(FORM.BN == 2 * HEIGHT * CONSUMERS or FORM.BN == HEIGHT * CONSUMERS and not FORM.GATED,
                     "64 weights a consumer, or twice 64")
    inputs = tle.pipe(capacity=FORM.STAGES, readers=consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([FORM.STAGES, FORM.BM, FORM.BK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc([FORM.STAGES, FORM.BN, FORM.BK], tlx.dtype_of(b_desc)))
    order = order_pipe(counter, CONSUMERS)
    HALVES: tl.constexpr = FORM.BN // (HEIGHT * CONSUMERS)
    tiles = BlockTiles(FORM.BM, FORM.BN // 2 if FORM.GATED else FORM.BN, FORM.GROUP_M, FORM.BK)
    operands = ExpertOperands(a_desc, b_desc, experts_ptr, N, FORM.GATED)
    if not FORM.GATED:
        BYTES: tl.constexpr = FORM.BN * FORM.BK * tlx.size_of(tlx.dtype_of(b_desc))
        ask_ahead(operands, blocks(total_ptr, N, K, tiles), AHEAD_BYTES // FORM.CTAS // BYTES)
    tl.extra.cuda.gdc_wait()                    # for all that the launches ahead have written
    tl.extra.cuda.gdc_launch_dependents()

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240 // FORM.CTAS // 8 * 8, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            received = None if order is None else order.reader(consumer(me))
            compute(inputs.reader(consumer(me)), received, c, blocks(total_ptr, N, K, tiles), me, HALVES, CONSUMERS, FORM.GATED)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            source, sent = blocks(total_ptr, N, K, tiles), None if order is None else order.writer()
            load_stolen(Loader(inputs.writer(), operands, source), source, sent, counter)
