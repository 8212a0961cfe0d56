"""`C = A B` on Hopper: one warp loads tiles with TMA, warpgroups multiply the tiles, and stores overlap the next tile.

Input: descriptors of A, B and C, and the sizes M, N, K. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, programs)
    gemm[grid](*args, **meta)

Nouns: the pipe `inputs`, whose chunk holds a (BM, BK) tile of A and the BK x BN tile of B that goes with the tile of A;
STAGING tiles for each consumer's stores. Roles: `load`, and CONSUMERS times `compute`, which for each output tile is `multiply` and
then `store`. What is done to the sums on their way out is chosen when compiling (epilogue.py).

Two schedules share the roles:

    cooperative   all consumers work on one output tile, each on its own rows: the largest tile, most reuse of B
    ping-pong     each consumer has output tiles of its own, in turn: while one stores, another multiplies

The grid is persistent: program p computes the output tiles p, p + programs, ... in an order that keeps a band of GROUP_M tile rows
in the L2 cache. The tiles of the last round may be cut along K and shared out (tail.py). Tiles that stick out of the matrices are
TMA's business: reads give zeros, writes are dropped.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import begin_turn, consumer, consumers, one_of_consumers, open_turns, pass_turn
from .epilogue import activated, finished, load_pieces, plus_residual
from .promoted import multiply_promoted
from .tail import hand_on, item, items, plus_others, share_of, tile_chunk


@mimw.jit
def output_tiles(M, N, BM: tl.constexpr, BN: tl.constexpr):
    """How many tiles C has."""
    return tl.cdiv(M, BM) * tl.cdiv(N, BN)


@mimw.jit
def tile_origin(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and column of output tile number `tile`, counted down bands of GROUP_M tile rows."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    per_band = GROUP_M * tiles_n
    first = (tile // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = tile % per_band
    return (first + within % height) * BM, (within // height) * BN


@mimw.jit
def load(inputs, a_desc, b_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         B_IS_NK: tl.constexpr, sharers):
    """Tiles of A and B along K, for one item of this program after the other."""
    program, programs, steps = tl.program_id(0), tl.num_programs(0), tl.cdiv(K, BK)
    share = share_of(program, programs, output_tiles(M, N, BM, BN), steps, sharers)
    for number in range(items(share)):
        tile, begin, end, before = item(number, share, program, programs, steps)
        m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
        for step in range(begin, end):
            slot = inputs.acquire(before + (step - begin))
            tle.gpu.copy(a_desc, slot.a, a_desc.block_shape, [m, step * BK])
            tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [n, step * BK] if B_IS_NK else [step * BK, n])
            inputs.commit(before + (step - begin))


@mimw.jit
def load_residual(residual, residual_desc, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr,
                  CONSUMERS: tl.constexpr, PIECES: tl.constexpr, PING_PONG: tl.constexpr):
    """The residual's pieces for the consumers of one output tile of this program after the other."""
    TURNS: tl.constexpr = CONSUMERS if PING_PONG else 1
    turn = 0
    for tile in range(tl.program_id(0), output_tiles(M, N, BM, BN), tl.num_programs(0)):
        m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
        number = turn // TURNS * (PIECES * CONSUMERS) + turn % TURNS
        load_pieces(residual, residual_desc, number, m, n, BM * TURNS // CONSUMERS, BN, PIECES, CONSUMERS // TURNS, CONSUMERS)
        turn += 1


@mimw.jit
def product(inputs, chunk, acc, row: tl.constexpr, B_IS_NK: tl.constexpr):
    """acc += A[row :] B for the tiles of one chunk, started and not waited for."""
    slot = inputs.wait(chunk).slot
    a = tlx.local_slice(slot.a, [row, 0], [acc.shape[0], slot.a.shape[1]])
    return tlx.async_dot(a, tlx.local_trans(slot.b) if B_IS_NK else slot.b, acc)


@mimw.jit
def multiply(inputs, first, steps, me: tl.constexpr, row: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr,
             CONSUMERS: tl.constexpr, PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr):
    """ROWS rows of A, from row `row` of its tiles on, times B: the sum over `steps` chunks, of which number `first` is the first.

    One product is always under way: a chunk is released once the product after its own has started and its own has ended. In
    ping-pong the next consumer may start when the last product has started, so that the tensor cores never idle between tiles.
    """
    if PING_PONG:
        begin_turn(me)
    acc = tl.zeros((ROWS, BN), tl.float32)
    for chunk in range(first, first + steps):
        acc = product(inputs, chunk, acc, row, B_IS_NK)
        acc = tlx.async_dot_wait(1, acc)
        inputs.release(chunk - 1, pred=chunk > first)
    if PING_PONG:
        pass_turn(me, CONSUMERS)
    acc = tlx.async_dot_wait(0, acc)
    inputs.release(first + steps - 1, pred=steps > 0)
    return acc


@mimw.jit
def columns(tile, piece: tl.constexpr, PIECES: tl.constexpr):
    """Column piece number `piece` of PIECES equal ones, by halving: no element changes its thread."""
    if PIECES == 1:
        return tile
    left, right = tile.reshape(tile.shape[0], 2, tile.shape[1] // 2).permute(0, 2, 1).split()
    HALF: tl.constexpr = PIECES // 2
    if piece < HALF:
        return columns(left, piece, HALF)
    return columns(right, piece - HALF, HALF)


@mimw.jit
def store(c_desc, staging, residual, extras, first, number, acc, m, n, M, N, BN: tl.constexpr, PIECES: tl.constexpr,
          STAGING: tl.constexpr, CONSUMERS: tl.constexpr, EACH_ROW: tl.constexpr, EACH_COLUMN: tl.constexpr,
          ACTIVATION: tl.constexpr, begin, tail):
    """Finish an output tile and write it in column pieces; a piece waits only for the store that last used its staging tile.

    With a `tail` the sums of the tile's chunks in front of `begin` are other programs', and added first (tail.py). With a residual
    the tile is a chunk of it, one in CONSUMERS from chunk `number` on, given back when the store has read it.
    """
    for piece in tl.static_range(PIECES):
        sums = columns(acc, piece, PIECES)
        if tail is not None:
            sums = plus_others(sums, tail, begin, piece, PIECES)
        sums = finished(sums, extras, m, n + piece * (BN // PIECES), M, N, EACH_ROW, EACH_COLUMN)
        if residual is None:
            tile = staging[first + piece % STAGING]
            tlx.async_descriptor_store_wait(STAGING - 1)
        else:
            tile = residual.wait(number + piece * CONSUMERS).slot.tile
            sums = plus_residual(sums, tile, extras)
        tlx.local_store(tile, activated(sums, ACTIVATION).to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(c_desc, tile, [m, n + piece * (BN // PIECES)])
        if residual is not None:
            tlx.async_descriptor_store_wait(0)
            residual.release(number + piece * CONSUMERS)


@mimw.jit
def compute(inputs, residual, staging, c_desc, extras, room, flags, sharers, M, N, K, me: tl.constexpr, BM: tl.constexpr,
            BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr,
            STAGING: tl.constexpr, PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr, EACH_ROW: tl.constexpr,
            EACH_COLUMN: tl.constexpr, ACTIVATION: tl.constexpr, PROMOTED: tl.constexpr):
    """The items of consumer `me`: all of its rows in ping-pong, its share of the rows of each otherwise."""
    TURNS: tl.constexpr = CONSUMERS if PING_PONG else 1
    SHARERS: tl.constexpr = CONSUMERS // TURNS
    ROWS: tl.constexpr = BM // SHARERS
    turn: tl.constexpr = me if PING_PONG else 0
    row: tl.constexpr = 0 if PING_PONG else me * ROWS
    program, programs, steps = tl.program_id(0), tl.num_programs(0), tl.cdiv(K, BK)
    tiles = output_tiles(M, N, BM, BN)
    share = share_of(program, programs, tiles, steps, sharers)
    place = tl.program_id(0) * SHARERS + (0 if PING_PONG else me)
    number = me
    if PING_PONG:
        open_turns(me, CONSUMERS)
    for this in range(turn, items(share), TURNS):
        tile, begin, end, chunk = item(this, share, program, programs, steps)
        if PROMOTED:
            acc = multiply_promoted(inputs, chunk, end - begin, row, ROWS, BN, B_IS_NK, PROMOTED)
        else:
            acc = multiply(inputs, chunk, end - begin, me, row, ROWS, BN, CONSUMERS, PING_PONG, B_IS_NK)
        m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
        m += row
        if room is None:
            store(c_desc, staging, residual, extras, STAGING * me, number, acc, m, n, M, N, BN, PIECES, STAGING, CONSUMERS,
                  EACH_ROW, EACH_COLUMN, ACTIVATION, 0, None)
        elif end < steps:
            for piece in tl.static_range(PIECES):
                hand_on(columns(acc, piece, PIECES), room + (place * PIECES + piece) * (ROWS * BN // PIECES))
            tl.atomic_store(flags + place, 1, sem="release", scope="gpu")
        else:
            first = tile_chunk(tile, programs, tiles, steps)
            tail = room, flags, place, SHARERS, program, sharers, tiles % programs * steps, first
            store(c_desc, staging, residual, extras, STAGING * me, number, acc, m, n, M, N, BN, PIECES, STAGING, CONSUMERS,
                  EACH_ROW, EACH_COLUMN, ACTIVATION, begin, tail)
        number += CONSUMERS * PIECES
    tlx.async_descriptor_store_wait(0)


@mimw.jit(do_not_specialize=("sharers", ))
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
         PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr, bias=None, residual_desc=None, row_scale=None, column_scale=None,
         alpha=None, beta=None, EACH_ROW: tl.constexpr = False, EACH_COLUMN: tl.constexpr = False,
         ACTIVATION: tl.constexpr = None, PROMOTED: tl.constexpr = 0, room=None, flags=None, sharers=None):
    """C[M, N] = act(alpha row_scale column_scale A[M, K] B + bias + beta residual), with B as (K, N), or as (N, K) where B_IS_NK
    (8-bit and tf32 inputs need that); what is None is left out. PROMOTED is for 8-bit inputs: sums leave the tensor cores after
    each chunk, and the products of so many chunks overlap; 0: they stay. `sharers` programs share out the last round's tiles
    (tail.py), None: nobody does: `room` has BM BN fp32 numbers for each program, `flags` an int32 0 for each of its consumers."""
    tl.static_assert(not (PROMOTED and PING_PONG), "consumers that take turns cannot add while another one multiplies")
    tl.static_assert(residual_desc is None or room is None, "a residual is loaded for whole tiles")
    ROWS: tl.constexpr = BM if PING_PONG else BM // CONSUMERS
    B_SHAPE: tl.constexpr = (STAGES, BN, BK) if B_IS_NK else (STAGES, BK, BN)
    extras = (bias, row_scale, column_scale, alpha, beta)

    inputs = tle.pipe(capacity=STAGES, readers=one_of_consumers(CONSUMERS) if PING_PONG else consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc(B_SHAPE, tlx.dtype_of(b_desc)))
    if residual_desc is None:
        residual, staging = None, tlx.local_alloc((ROWS, BN // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)
    else:
        staging = None
        residual = tle.pipe(capacity=STAGING * CONSUMERS, readers=one_of_consumers(CONSUMERS), name="residual",
                            tile=tle.gpu.alloc([STAGING * CONSUMERS, ROWS, BN // PIECES], tlx.dtype_of(c_desc)))

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            added = None if residual is None else residual.reader(consumer(me))
            compute(inputs.reader(consumer(me)), added, staging, c_desc, extras, room, flags, sharers, M, N, K, me, BM, BN, BK,
                    GROUP_M, CONSUMERS, PIECES, STAGING, PING_PONG, B_IS_NK, EACH_ROW, EACH_COLUMN, ACTIVATION, PROMOTED)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), a_desc, b_desc, M, N, K, BM, BN, BK, GROUP_M, B_IS_NK, sharers)
        if residual is not None:
            with tlx.async_task(num_warps=1, num_regs=24):  # residual
                load_residual(residual.writer(), residual_desc, M, N, BM, BN, GROUP_M, CONSUMERS, PIECES, PING_PONG)
