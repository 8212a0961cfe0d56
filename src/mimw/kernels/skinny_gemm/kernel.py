"""`C = X W` on Hopper for few rows of X, as in decoding: all SMs read the weights W once, in equal shares, at memory's speed.

Input: descriptors of X (M, K) and W, a pointer to C, room for partial sums, and sizes. Output: C is written. For example:

    grid, args, meta = arguments(x, w, c, room, flags, programs)
    skinny_gemm[grid](*args, **meta)

wgmma has 64 rows at least and 8 columns, so the weights are its rows: C^T = W^T X^T, in tiles of WN weights by TM rows of X.

Work is cut into equal shares ("stream-K"). A chunk is BK of K for one tile, chunks are counted tile by tile, and program p has the
chunks from p CHUNKS / programs on. So a tile may be cut between programs. Each program goes through its share from behind:

    first the beginning of a tile whose end is another program's      its sums go to `room`, then that one's flag counts one more
    then whole tiles                                                  stored
    last the end of a tile that others have begun                     their sums are added in the order of programs, and stored

Who has only begun a tile waits for nobody, and who ends one waits for programs before it only: however few run at a time, one goes
on. The order of all sums is settled by the sizes and the number of programs, so results are the same every time. Flags are 0 before
and after a launch: who has added all sums clears its flag.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.product import columns
from ..gemm.tiles import Problem


@tle.struct
class Tiles:
    """Tiles of WN weights by TM rows of X, in chunks of BK, STAGES of which are in shared memory; CONSUMERS have 64 weights each,
    whose sums go out in PIECES. W is (K, N), or (N, K) where W_IS_NK; STREAMED weights are what L2 drops first, so that what was
    written before need not go to memory when they come. Where K of each tile is cut into PARTS (../skinny_scaled_gemm), each is a
    program's; else programs have equal shares of all chunks."""
    WN: tl.constexpr
    TM: tl.constexpr
    BK: tl.constexpr
    STAGES: tl.constexpr
    PIECES: tl.constexpr
    CONSUMERS: tl.constexpr
    W_IS_NK: tl.constexpr
    STREAMED: tl.constexpr = False
    PARTS: tl.constexpr = 0


@tle.struct
class Work:
    """The product, and how many chunks all its tiles have; with scales of blocks (../skinny_scaled_gemm) also these, else None."""
    problem: Problem
    chunks: Any
    tiles: Tiles
    scales: Any


@tle.struct
class Output:
    """C, whose rows are `row` elements apart, and where programs leave sums for each other: fp32 numbers and flags."""
    c: tl.tensor
    row: Any
    room: tl.tensor
    flags: tl.tensor


@tle.struct
class Others:
    """`count` programs from number `first` on, which have the chunks of a tile before this one's; consumer `me`'s sums of each lie
    SIZE apart, and PARTS of them are added at a time."""
    first: Any
    count: Any
    me: tl.constexpr
    CONSUMERS: tl.constexpr
    SIZE: tl.constexpr
    PARTS: tl.constexpr


@mimw.jit
def first_chunk(program, chunks):
    """The first chunk of a program."""
    return program * chunks // tl.num_programs(0)


@mimw.jit
def holder(chunk, chunks):
    """The program that has a chunk."""
    return ((chunk + 1) * tl.num_programs(0) - 1) // chunks


@mimw.jit
def load(inputs, x_desc, w_desc, work):
    """Tiles of weights and of X for the chunks of this program, the last tile first."""
    tiles = work.tiles
    BK: tl.constexpr = tiles.BK
    HINT: tl.constexpr = "evict_first" if tiles.STREAMED else ""
    steps, tiles_m = tl.cdiv(work.problem.K, tiles.BK), tl.cdiv(work.problem.M, tiles.TM)
    first = first_chunk(tl.program_id(0), work.chunks)
    end = first_chunk(tl.program_id(0) + 1, work.chunks)
    chunk = 0
    while end > first:
        tile = (end - 1) // steps
        begin = max(first, tile * steps)
        n, m = tile // tiles_m * tiles.WN, tile % tiles_m * tiles.TM
        for step in range(begin - tile * steps, end - tile * steps):
            slot = inputs.acquire(chunk)
            tle.gpu.copy(w_desc, slot.w, w_desc.block_shape, [n, step * BK] if tiles.W_IS_NK else [step * BK, n],
                         eviction_policy=HINT)
            tle.gpu.copy(x_desc, slot.x, x_desc.block_shape, [m, step * BK])
            if work.scales is not None:
                work.scales.copy(slot, step, m)
            inputs.commit(chunk)
            chunk += 1
        end = begin


@mimw.jit
def multiply(inputs, first, count, row: tl.constexpr, tiles):
    """64 weights, from number `row` of the tile on, times TM rows of X: the sum over `count` chunks, one or more, transposed."""
    acc = tl.zeros((64, tiles.TM), tl.float32)
    for chunk in range(first, first + count):
        slot = inputs.wait(chunk).slot
        if tiles.W_IS_NK:
            w = tlx.local_slice(slot.w, [row, 0], [64, slot.w.shape[1]])
        else:
            w = tlx.local_trans(tlx.local_slice(slot.w, [0, row], [slot.w.shape[0], 64]))
        acc = tlx.async_dot(w, tlx.local_trans(slot.x), acc)
        acc = tlx.async_dot_wait(1, acc)
        inputs.release(chunk - 1, pred=chunk > first)
    acc = tlx.async_dot_wait(0, acc)
    inputs.release(first + count - 1)
    return acc


@mimw.jit
def plus_others(sums, out, others, at):
    """`sums`, which lie `at` these places of SIZE, and those of the others: loads of several follow each other without a wait."""
    for first in range(0, others.count, others.PARTS):
        number = first + tl.arange(0, others.PARTS)
        place = ((others.first + number) * others.CONSUMERS + others.me) * others.SIZE
        some = tl.load(out.room + place[:, None, None] + at[None, :, :], mask=(number < others.count)[:, None, None], other=0.0,
                       cache_modifier=".cg")
        sums += tl.sum(some, 0)
    return sums


@mimw.jit
def piece_of(sums, piece: tl.constexpr, PIECES: tl.constexpr):
    """Column piece number `piece` of PIECES equal ones."""
    if PIECES & (PIECES - 1) == 0:
        return columns(sums, piece, PIECES)
    else:
        return tle.extract_tile(sums, [0, piece], [sums.shape[0], sums.shape[1] // PIECES])


@mimw.jit
def compute(inputs, out, work, me: tl.constexpr):
    """Consumer `me`'s 64 weights of each tile of this program. Sums go out in PIECES, which change their layout on the way."""
    tiles = work.tiles
    PIECES: tl.constexpr = tiles.PIECES
    SIZE: tl.constexpr = 64 * tiles.TM
    WIDTH: tl.constexpr = tiles.TM // PIECES
    steps, tiles_m = tl.cdiv(work.problem.K, tiles.BK), tl.cdiv(work.problem.M, tiles.TM)
    first = first_chunk(tl.program_id(0), work.chunks)
    end = first_chunk(tl.program_id(0) + 1, work.chunks)
    place = tl.program_id(0) * tiles.CONSUMERS + me
    inside = tl.arange(0, 64)[:, None] * tiles.TM + tl.arange(0, WIDTH)[None, :]
    chunk = 0
    while end > first:
        tile = (end - 1) // steps
        whole = tile * steps
        begin = max(first, whole)
        if work.scales is None:
            acc = multiply(inputs, chunk, end - begin, 64 * me, tiles)
        else:
            acc = work.scales.multiply(inputs, chunk, chunk + end - begin, 1, 64 * me, tiles, tile // tiles_m, begin - whole)
        chunk += end - begin
        if end < whole + steps:
            for piece in tl.static_range(PIECES):
                tl.store(out.room + place * SIZE + inside + piece * WIDTH, piece_of(acc, piece, PIECES))
            ends = holder(whole + steps - 1, work.chunks) * tiles.CONSUMERS + me
            tl.atomic_add(out.flags + ends, 1, sem="release", scope="gpu")
        else:
            one = holder(whole, work.chunks)
            others = Others(one, tl.where(begin > whole, tl.program_id(0) - one, 0), me, tiles.CONSUMERS, SIZE,
                            4 if tiles.TM <= 64 else 2)
            if begin > whole:
                tl.atomic_poll(out.flags + place, others.count, sem="acquire", scope="gpu")
                tl.atomic_store(out.flags + place, 0, sem="relaxed", scope="gpu")
            n = tile // tiles_m * tiles.WN + 64 * me + tl.arange(0, 64)[:, None]
            for piece in tl.static_range(PIECES):
                m = tile % tiles_m * tiles.TM + piece * WIDTH + tl.arange(0, WIDTH)[None, :]
                sums = plus_others(piece_of(acc, piece, PIECES), out, others, inside + piece * WIDTH)
                tl.store(out.c + m.to(tl.int64) * out.row + n, sums.to(out.c.dtype.element_ty),
                         mask=(m < work.problem.M) & (n < work.problem.N))
        end = begin


@mimw.jit
def skinny_gemm(x_desc, w_desc, c, room, flags, chunks, M, N, K, c_row, TILES: tl.constexpr):
    """C[M, N] = X[M, K] W; rows of C are c_row elements apart. `room` is fp32, 64 TM numbers a consumer of each program, and
    `flags` a zero for each of them; `chunks` is how many all tiles have."""
    STAGES: tl.constexpr = TILES.STAGES
    CONSUMERS: tl.constexpr = TILES.CONSUMERS
    tl.static_assert(TILES.WN == 64 * CONSUMERS)
    W_SHAPE: tl.constexpr = (STAGES, TILES.WN, TILES.BK) if TILES.W_IS_NK else (STAGES, TILES.BK, TILES.WN)
    inputs = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="inputs",
                      w=tle.gpu.alloc(W_SHAPE, tlx.dtype_of(w_desc)),
                      x=tle.gpu.alloc([STAGES, TILES.TM, TILES.BK], tlx.dtype_of(x_desc)))
    work = Work(Problem(M, N, K), chunks, TILES, None)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), Output(c, c_row, room, flags), work, me)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), x_desc, w_desc, work)
