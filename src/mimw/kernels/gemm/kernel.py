"""`C = A B` on Hopper: one warp loads tiles with TMA, warpgroups multiply the tiles, and stores overlap the next tile.

Input: descriptors of A, B and C, and the sizes M, N, K. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, programs)
    gemm[grid](*args, **meta)

Nouns: the pipe `inputs`, whose chunk holds a (BM, BK) tile of A and the BK x BN tile of B that goes with the tile of A;
STAGING tiles for each consumer's stores. Roles: `load`, and CONSUMERS times `compute`, which for each output tile is `multiply`
(product.py) and then `store`. What is done to the sums on their way out is chosen when compiling (epilogue.py).

Two schedules share the roles:

    cooperative   all consumers work on one output tile, each on its own rows: the largest tile, most reuse of B
    ping-pong     each consumer has output tiles of its own, in turn: while one stores, another multiplies

The grid is persistent: program p computes the output tiles p, p + programs, ... in an order that keeps a band of GROUP_M tile rows
in the L2 cache. The tiles of the last round may be cut along K and shared out (tail.py), or programs steal their tiles from a
counter (roles.py). Tiles that stick out of the matrices are
TMA's business: reads give zeros, writes are dropped.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, one_of_consumers, open_turns
from ..stolen import load_stolen, order_pipe
from .epilogue import Epilogue, activated, finished, load_residual, plus_residual
from .operands import ColumnsOfA, Operands
from .output import Output, of_width, output, send, staging_tile, tile_of_both
from .pieces import begin, count, is_cut, piece_of, width
from .product import multiply
from .promoted import multiply_promoted
from .roles import Loader, compute_stolen, input_pipe
from .sources import OneMatrix, Place
from .tail import Room, hand_on, item, items, others_in, plus_others, split_of
from .tiles import LoadedForm, Problem, part_of, tile_origin


@tle.struct
class Finish:
    """The way out of a consumer's sums: the epilogue, and C; the residual's pieces come in the very tiles that C is stored from.
    `kept` is where the activation's arguments go, by the same tiles."""
    problem: Problem
    epilogue: Epilogue
    out: Output
    residual: tle.pipe_reader | None
    kept: Output | None

    @mimw.jit
    def store(self, acc, at, part):
        """Write an output tile to which nothing is added."""
        store(self, acc, at, 0, part, None)


@mimw.jit
def load(inputs, operands, problem, tiles, sharers):
    """Tiles of A and B along K, for one item of this program after the other."""
    split = split_of(problem, tiles, sharers)
    for number in range(items(split)):
        one = item(split, number)
        m, n = tile_origin(one.tile, problem.M, problem.N, tiles)
        for step in range(one.begin, one.end):
            operands.copy(inputs.acquire(one.before + (step - one.begin)), Place(m, n), step * tiles.BK)
            inputs.commit(one.before + (step - one.begin))


@mimw.jit
def store(finish, acc, at, number, part, others):
    """Finish an output tile and write it in column pieces; a piece waits only for the store that last used its staging tile.

    The sums of the tile's chunks in front of this program's, if there are `others`, are added first (tail.py). With a residual the
    tile is a chunk of it, one in CONSUMERS from chunk `number` on, given back when the store has read it; pieces of several widths
    have tiles of their own, and a chunk is given back when it has been added.
    """
    for piece in tl.static_range(count(finish.out.PIECES)):
        sums = piece_of(acc, piece, finish.out.PIECES)
        right = begin(finish.out.PIECES, piece, part.COLUMNS)
        if others is not None:
            sums = plus_others(sums, others, right, part.COLUMNS, piece == 0, piece == count(finish.out.PIECES) - 1)
        store_piece(finish, finished(sums, finish.epilogue, at.m, at.n + right, finish.problem), at, number, part, piece)


@mimw.jit
def store_piece(finish, sums, at, number, part, piece: tl.constexpr):
    """Write one piece, and the residual with it."""
    PIECES: tl.constexpr = finish.out.PIECES
    RIGHT: tl.constexpr = begin(PIECES, piece, part.COLUMNS)
    if finish.kept is not None:
        store_both(finish, sums, at, part.me, RIGHT, piece)
        return
    if finish.residual is None:
        send(finish.out, staging_tile(finish.out, part.me, piece), activated(sums, finish.epilogue.ACTIVATION), at, RIGHT, piece)
        return
    chunk = number + piece * part.CONSUMERS
    tile = finish.residual.wait(chunk).slot.tile
    if is_cut(PIECES):
        sums = plus_residual(sums, tlx.local_slice(tile, [0, 0], sums.shape), finish.epilogue.beta)
        finish.residual.release(chunk)
        send(finish.out, staging_tile(finish.out, part.me, piece), activated(sums, finish.epilogue.ACTIVATION), at, RIGHT, piece)
    else:
        sums = plus_residual(sums, tile, finish.epilogue.beta)
        send(finish.out, tile, activated(sums, finish.epilogue.ACTIVATION), at, RIGHT, piece)
        tlx.async_descriptor_store_wait(0)
        finish.residual.release(chunk)


@mimw.jit
def store_both(finish, sums, at, me: tl.constexpr, RIGHT: tl.constexpr, piece: tl.constexpr):
    """Write one piece of the activation's arguments, and the activation of what was written: its gradient will be that one's."""
    sums = sums.to(tlx.dtype_of(of_width(finish.kept, finish.kept.c_desc, piece))).to(tl.float32)
    send(finish.kept, tile_of_both(finish.out, me, piece, 0), sums, at, RIGHT, piece)
    send(finish.out, tile_of_both(finish.out, me, piece, 1), activated(sums, finish.epilogue.ACTIVATION), at, RIGHT, piece)


@mimw.jit
def compute(inputs, finish, tiles, room, flags, sharers, me: tl.constexpr, PROMOTED: tl.constexpr):
    """The items of consumer `me`: all of its rows in ping-pong, its share of the rows of each otherwise."""
    part, problem = part_of(tiles, me), finish.problem
    split = split_of(problem, tiles, sharers)
    place = Room(room, flags, tl.program_id(0) * tiles.sharers() + (0 if tiles.PING_PONG else me), tiles.sharers())
    number = me
    if tiles.PING_PONG:
        open_turns(me, tiles.CONSUMERS)
    for this in range(part.TURN, items(split), part.TURNS):
        one = item(split, this)
        if PROMOTED:
            acc = multiply_promoted(inputs, one.before, one.end - one.begin, part, PROMOTED)
        else:
            acc = multiply(inputs, one.before, one.end - one.begin, part)
        m, n = tile_origin(one.tile, problem.M, problem.N, tiles)
        at = Place(m + part.ROW, n)
        if room is None:
            store(finish, acc, at, number, part, None)
        elif one.end < split.steps:
            hand_on(acc, place, tiles.PIECES)
        else:
            store(finish, acc, at, number, part, others_in(place, split, one))
        number += tiles.CONSUMERS * count(tiles.PIECES)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def residual_pipe(residual_desc, tiles):
    """The pipe of the residual's pieces, each consumer's in slots of its own, which take the widest."""
    COUNT: tl.constexpr = tiles.STAGING * tiles.CONSUMERS
    WIDTH: tl.constexpr = width(tiles.PIECES, 0, tiles.BN)
    return tle.pipe(capacity=COUNT, readers=one_of_consumers(tiles.CONSUMERS), name="residual",
                    tile=tle.gpu.alloc([COUNT, tiles.rows(), WIDTH], tlx.dtype_of(residual_desc)))


@tle.struct
class GemmForm(LoadedForm):
    """EACH_ROW, EACH_COLUMN and ACTIVATION say what is done to the sums (epilogue.py). PROMOTED is for 8-bit inputs: sums leave the
    tensor cores after each chunk, and the products of so many chunks overlap; 0: they stay. ADDED: C gets sums added to it."""
    EACH_ROW: tl.constexpr = False
    EACH_COLUMN: tl.constexpr = False
    ACTIVATION: tl.constexpr = None
    PROMOTED: tl.constexpr = 0
    ADDED: tl.constexpr = False


@mimw.jit(do_not_specialize=("sharers", ))
def gemm(a_desc, b_desc, c_desc, M, N, K, FORM: tl.constexpr, bias=None, residual_desc=None, row_scale=None, column_scale=None,
         alpha=None, beta=None, room=None, flags=None, sharers=None, counter=None, kept_desc=None):
    """C[M, N] = act(alpha row_scale column_scale A[M, K] B + bias + beta residual), with B as (K, N), or as (N, K) where B_IS_NK
    (8-bit and tf32 inputs need that), A as (M, K), or 16-bit as (K, M) where A_IS_KM; what is None is left out. FORM is a
    `GemmForm`. `sharers` programs share the tiles of the last round (tail.py), or with None no program does: `room` has BM BN fp32
    numbers for each program, `flags` an int32 0 for each of its consumers. With a `counter`, an int32 that is 0 before and after a
    launch, programs steal tiles. `kept_desc` is a matrix like C that gets the activation's arguments."""
    tiles = FORM.tiles
    tl.static_assert(not (FORM.PROMOTED and tiles.PING_PONG), "consumers that take turns cannot add while another one multiplies")
    tl.static_assert(residual_desc is None or room is None, "a residual is loaded for whole tiles")
    tl.static_assert(not FORM.ADDED or residual_desc is None and kept_desc is None, "what is added to C is the product alone")
    tl.static_assert(residual_desc is None or kept_desc is None, "a residual's tiles are C's, and no other matrix goes by them")
    tl.static_assert(counter is None or (residual_desc is None and room is None and not FORM.PROMOTED),
                     "stolen tiles are whole ones, with no residual and sums that stay in the tensor cores")
    problem = Problem(M, N, K)
    if tiles.A_IS_KM:
        operands = ColumnsOfA(a_desc, b_desc, tiles.B_IS_NK)
    else:
        operands = Operands(a_desc, b_desc, tiles.B_IS_NK)
    epilogue = Epilogue(bias, row_scale, column_scale, alpha, beta, FORM.EACH_ROW, FORM.EACH_COLUMN, FORM.ACTIVATION)
    inputs = input_pipe(operands, tiles, FORM.STAGES)
    residual = None if residual_desc is None else residual_pipe(residual_desc, tiles)
    if residual_desc is None or is_cut(tiles.PIECES):
        out = output(c_desc, tiles, "add" if FORM.ADDED else "")
    else:
        out = Output(c_desc, None, tiles.PIECES, tiles.STAGING)

    kept = None if kept_desc is None else Output(kept_desc, out.staging, tiles.PIECES, tiles.STAGING)
    source, order = OneMatrix(problem, tiles), order_pipe(counter, tiles.CONSUMERS)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=tiles.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            added = None if residual is None else residual.reader(consumer(me))
            finish = Finish(problem, epilogue, out, added, kept)
            if order is None:
                compute(inputs.reader(consumer(me)), finish, tiles, room, flags, sharers, me, FORM.PROMOTED)
            else:
                compute_stolen(inputs.reader(consumer(me)), source, finish, part_of(tiles, me), order.reader(consumer(me)))
        with tlx.async_task(num_warps=FORM.LOAD_WARPS, num_regs=24):  # producer
            if order is None:
                load(inputs.writer(), operands, problem, tiles, sharers)
            else:
                load_stolen(Loader(inputs.writer(), source, operands), source, order.writer(), counter, tiles.turns())
        if residual is not None:
            with tlx.async_task(num_warps=1, num_regs=24):  # residual
                load_residual(residual.writer(), residual_desc, source)
