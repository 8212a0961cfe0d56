"""`C = the sum over the GPUs of A B`, each GPU having its rows of C, or all of them: a GEMM whose sums meet while it runs.

Input: at each GPU descriptors of its A and B, and of its C; symmetric memory for sums and signals. Output: C is written. For
example:

    grid, args, meta = arguments(a, b, c, workspace, world, programs)
    reduce_scatter_gemm[grid](*args, **meta)            at every GPU

Nouns: the pipe `inputs`, as the GEMM has it; `slots`, where the other GPUs' sums of this GPU's tiles arrive; STAGING tiles for
each consumer's stores. Roles: `load`, which also tells that this launch has begun, and CONSUMERS times `compute`.

The rows of C belong to GPUs. Each GPU computes the tiles of the next GPU first, then those of the one after, its own at the end.
A tile of its own ends with the sums that came: in fp32, its own first, then those of the next rank and so on. They were computed
while this GPU computed for others, so there is nothing to wait for. How the sums of another's tile come into the owner's slot:

    put         from registers, over the link, by the program that has them, and a signal behind them
    CARRIED     from registers into `sums` of this GPU, and a signal; copy engines carry parcels of tiles to the owner, which the
                host has put into another stream, and tell the owner behind each. The SMs then wait for no link

For every GPU to have all of C (EVERYWHERE) the owner puts the finished tile to all, or leaves it to be carried; what has come is
stored at the end.

A slot is free when its owner has begun the launch, as then its last one has ended. Signals count launches, so does each program for
itself in `calls`: nothing is reset by the kernel, and nothing comes from the host.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, open_turns
from ..gemm.operands import RowsOfSeveral, load_along
from ..gemm.output import output
from ..gemm.product import columns, multiply
from ..gemm.roles import input_pipe, load_tiles
from ..gemm.sources import PlaceInBatch
from ..gemm.tiles import Form, Problem, Tiles, output_tiles, part_of, tile_origin
from .partials import hand_over, handed_over


@tle.struct
class Owned:
    """An output tile: its owner, its number among the owner's, and its first row there and column."""
    owner: Any
    tile: Any
    m: Any
    n: Any


@tle.struct
class OwnedTiles:
    """The output tiles of a launch, `each` of every owner, which has M rows: the tiles of the next rank first, the own ones last.
    EVERYWHERE C has the rows of all owners one behind the other, else a matrix for each; so has A."""
    problem: Problem
    tiles: Tiles
    world: Any
    each: Any
    EVERYWHERE: tl.constexpr

    @mimw.jit
    def count(self):
        return self.each * tlx.world_size(self.world)

    @mimw.jit
    def owned(self, number):
        size = tlx.world_size(self.world)
        owner = (tlx.world_rank(self.world) + 1 + number // self.each) % size
        m, n = tile_origin(number % self.each, self.problem.M, self.problem.N, self.tiles)
        return Owned(owner, number % self.each, m, n)

    @mimw.jit
    def at(self, number):
        """The place of the tile's rows in A."""
        one = self.owned(number)
        return place_of(one, one.m, self)

    @mimw.jit
    def load(self, inputs, chunk, operands, at):
        return load_along(inputs, chunk, operands, at, self.problem.K, self.tiles.BK)


@tle.struct
class Symmetric:
    """Memory that the ranks have in common: see `reduce_scatter_gemm`. `call` is the number of this launch."""
    slots: tl.tensor
    arrived: tl.tensor
    started: tl.tensor
    results: tl.tensor | None
    finished: tl.tensor | None
    call: tl.tensor
    world: Any


@tle.struct
class Carried:
    """Memory in which sums are left for those who carry them, `parcel` tiles at once; all None if nobody does."""
    sums: tl.tensor | None
    done: tl.tensor | None
    parcel: Any


@tle.struct
class Slot:
    """A consumer's part of an own tile: its number among the `places` that each rank has; where else it is to be left, and a
    signal of that, or None."""
    place: Any
    places: Any
    left: tl.tensor | None
    signal: tl.tensor | None


@mimw.jit
def owned_tiles(problem, tiles, world, EVERYWHERE: tl.constexpr):
    """The output tiles of a launch."""
    return OwnedTiles(problem, tiles, world, output_tiles(problem.M, problem.N, tiles), EVERYWHERE)


@mimw.jit
def place_of(one, m, source):
    """The place of an owner's row m in A, and in a C that has all rows."""
    if source.EVERYWHERE:
        return PlaceInBatch(0, one.owner * source.problem.M + m, one.n)
    return PlaceInBatch(one.owner, m, one.n)


@mimw.jit
def announce(started, world):
    """Tell the peers that this launch has begun here, so that the last one has ended and its slots are free."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    for step in range(1, size):
        peer = (me + step) % size
        tlx.signal(tlx.peer_pointer(started, peer, world) + me * tl.num_programs(0) + tl.program_id(0))


@mimw.jit
def announce_to_carriers(started, calls, call, world):
    """The same where sums are carried, by one program: what carries finds this launch's number in the first word of `calls`."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    if tl.program_id(0) == 0:
        tl.store(calls, call)
        for step in range(size):
            tlx.signal(tlx.peer_pointer(started, (me + step) % size, world) + me)


@mimw.jit
def put(acc, symmetric, place, owner, PIECES: tl.constexpr):
    """Sums of a tile into place number `place` of the owner's slots, then a signal."""
    SIZE: tl.constexpr = acc.shape[0] * acc.shape[1] // PIECES
    there = tlx.peer_pointer(symmetric.slots, owner, symmetric.world) + place.to(tl.int64) * (PIECES * SIZE)
    for piece in tl.static_range(PIECES):
        hand_over(columns(acc, piece, PIECES), there + piece * SIZE)
    tlx.signal(tlx.peer_pointer(symmetric.arrived, owner, symmetric.world) + place)


@mimw.jit
def leave(acc, sums, done, PIECES: tl.constexpr):
    """Sums of a tile into this GPU's own memory at `sums`, then a signal to what carries them."""
    SIZE: tl.constexpr = acc.shape[0] * acc.shape[1] // PIECES
    for piece in tl.static_range(PIECES):
        hand_over(columns(acc, piece, PIECES), sums + piece * SIZE)
    tlx.signal(done)


@mimw.jit
def word_of(rank, tile, share: tl.constexpr, source, carried):
    """The word of `arrived`, `finished` or `done` for a rank's tile: one for each tile and sharer; of what is carried, one for each
    parcel."""
    if carried.done is not None:
        return rank * tl.cdiv(source.each, carried.parcel) + tile // carried.parcel
    return (rank * source.each + tile) * source.tiles.sharers() + share


@mimw.jit
def plus_others(sums, symmetric, slot, piece: tl.constexpr, PIECES: tl.constexpr):
    """A piece of sums, and what the other ranks have put for it, from the next rank on."""
    me, size = tlx.world_rank(symmetric.world), tlx.world_size(symmetric.world)
    SIZE: tl.constexpr = sums.shape[0] * sums.shape[1]
    for step in range(1, size):
        at = ((me + step) % size * slot.places + slot.place).to(tl.int64) * PIECES + piece
        sums += handed_over(symmetric.slots + at * SIZE, sums)
    return sums


@mimw.jit
def stage_of(out, part, piece: tl.constexpr):
    """The staging tile for a piece, which may still be read."""
    return out.staging[out.STAGING * part.me + piece % out.STAGING]


@mimw.jit
def store(out, tile, sums, box):
    """Store a piece by way of a staging tile, as soon as the store that last used it has read it."""
    tlx.async_descriptor_store_wait(out.STAGING - 1)
    tlx.local_store(tile, sums)
    tlx.fence("async_shared")
    tlx.async_descriptor_store(out.c_desc, tile, box)


@mimw.jit
def finish(acc, out, part, symmetric, slot, at, EVERYWHERE: tl.constexpr):
    """Add what came to an own tile's sums and store it; EVERYWHERE: put it to all peers, too, and tell them, or leave it to be
    carried, and signal that."""
    PIECES: tl.constexpr = out.PIECES
    SIZE: tl.constexpr = acc.shape[0] * acc.shape[1] // PIECES
    me, size = tlx.world_rank(symmetric.world), tlx.world_size(symmetric.world)
    for piece in tl.static_range(PIECES):
        whole = plus_others(columns(acc, piece, PIECES), symmetric, slot, piece, PIECES).to(tlx.dtype_of(out.c_desc))
        if EVERYWHERE and slot.left is not None:
            hand_over(whole, slot.left + piece * SIZE)
        elif EVERYWHERE:
            here = symmetric.results + (me * slot.places + slot.place).to(tl.int64) * (PIECES * SIZE) + piece * SIZE
            for step in range(1, size):
                hand_over(whole, tlx.peer_pointer(here, (me + step) % size, symmetric.world))
        store(out, stage_of(out, part, piece), whole, at.box(piece * (part.COLUMNS // PIECES)))
    if EVERYWHERE and slot.left is not None:
        tlx.signal(slot.signal)
    elif EVERYWHERE:
        for step in range(1, size):
            there = tlx.peer_pointer(symmetric.finished, (me + step) % size, symmetric.world)
            tlx.signal(there + me * slot.places + slot.place)


@mimw.jit
def collect(out, part, results, place, at):
    """Store a tile that its owner has finished and put here."""
    WIDTH: tl.constexpr = part.COLUMNS // out.PIECES
    like = tl.zeros((part.ROWS, WIDTH), tl.float32)
    for piece in tl.static_range(out.PIECES):
        here = results + (place.to(tl.int64) * out.PIECES + piece) * (part.ROWS * WIDTH)
        store(out, stage_of(out, part, piece), handed_over(here, like).to(tlx.dtype_of(out.c_desc)), at.box(piece * WIDTH))


@mimw.jit
def compute(inputs, out, problem, tiles, symmetric, carried, me: tl.constexpr, EVERYWHERE: tl.constexpr):
    """The output tiles of consumer `me`: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    SHARE: tl.constexpr = 0 if tiles.PING_PONG else me
    part, world = part_of(tiles, me), symmetric.world
    program, programs, steps = tl.program_id(0), tl.num_programs(0), tl.cdiv(problem.K, tiles.BK)
    rank, size = tlx.world_rank(world), tlx.world_size(world)
    source = owned_tiles(problem, tiles, world, EVERYWHERE)
    places = source.each * tiles.sharers()
    chunk = part.TURN * steps
    if tiles.PING_PONG:
        open_turns(me, tiles.CONSUMERS)
    for number in range(program + part.TURN * programs, source.each * size, part.TURNS * programs):
        acc = multiply(inputs, chunk, steps, part)
        chunk += part.TURNS * steps
        one = source.owned(number)
        place, signal, left = one.tile * tiles.sharers() + SHARE, None, None
        if carried.done is not None:
            signal = carried.done + word_of(number // source.each, one.tile, SHARE, source, carried)
            left = carried.sums + (one.owner * places + place).to(tl.int64) * (part.ROWS * part.COLUMNS)
        if one.owner == rank:
            for step in range(1, size):
                word = word_of((rank + step) % size, one.tile, SHARE, source, carried)
                tlx.wait_signal(symmetric.arrived + word, symmetric.call)
            m = one.m + part.ROW
            at = place_of(one, m, source) if EVERYWHERE else PlaceInBatch(0, m, one.n)
            finish(acc, out, part, symmetric, Slot(place, places, left, signal), at, EVERYWHERE)
        elif carried.done is not None:
            leave(acc, left, signal, out.PIECES)
        else:
            tlx.wait_signal(symmetric.started + one.owner * programs + program, symmetric.call)
            put(acc, symmetric, rank * places + place, one.owner, out.PIECES)
    if EVERYWHERE:
        for number in range(program + part.TURN * programs, source.each * (size - 1), part.TURNS * programs):
            one = source.owned(number)
            tlx.wait_signal(symmetric.finished + word_of(one.owner, one.tile, SHARE, source, carried), symmetric.call)
            place = one.owner * places + one.tile * tiles.sharers() + SHARE
            collect(out, part, symmetric.results, place, place_of(one, one.m + part.ROW, source))
    tlx.async_descriptor_store_wait(0)


@tle.struct
class ScatterForm(Form):
    """EVERYWHERE: all ranks get all of C. CARRIED: somebody carries the sums."""
    EVERYWHERE: tl.constexpr
    CARRIED: tl.constexpr


@mimw.jit
def reduce_scatter_gemm(a_desc, b_desc, c_desc, slots, arrived, started, results, finished, sums, done, parcel, calls, world, sizes,
                        FORM: tl.constexpr):
    """C = the sum over the ranks of A B: of the M rows of this rank, C being (1, M, N) and A (ranks, M, K), or EVERYWHERE of all
    rows, C being (1, rows, N) and A (1, rows, K), of which M to each rank, whole tiles. B is (K, N), or (N, K) where B_IS_NK.

    slots, results      symmetric, a tile for each rank and tile of M x N; results only EVERYWHERE, else None
    arrived, finished   symmetric, int64, a word for each rank, tile and consumer that shares a tile
    started             symmetric, int64, a word for each rank and program
    calls               int64, a word for each program, of this rank alone. All words are 0 before the first launch, and are
                        left to launches of the same sizes, grid and configuration, which follow each other

    Where sums are CARRIED, parcel tiles at once (else None, as the two of the next lines):

    sums                as `results`, and EVERYWHERE the same memory: an owner's finished tiles come when this rank's sums of the
                        parcel have gone. The own finished tiles lie in this rank's own part
    done                int64, a word for each parcel of `sums`, to which each consumer adds 1 for its share of a tile. Who carries
                        sets it back to 0, copies the parcel to `slots` (finished ones to `results`) of the other rank, as a part
                        of this rank there, then sets the word of `arrived` (`finished`) there to the launch's number
    arrived, finished   a word for each rank and parcel
    started             a word for each rank: set back by who carries; the own one behind the launch's number in calls[0]
    """
    problem, tiles = Problem(sizes.M, sizes.N, sizes.K), FORM.tiles
    operands = RowsOfSeveral(a_desc, b_desc, tiles.B_IS_NK)
    inputs = input_pipe(operands, tiles, FORM.STAGES)
    out = output(c_desc, tiles)
    call = tl.load(calls + tl.program_id(0)) + 1
    symmetric = Symmetric(slots, arrived, started, results, finished, call, world)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=tiles.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            carried = Carried(sums, done, parcel)
            compute(inputs.reader(consumer(me)), out, problem, tiles, symmetric, carried, me, FORM.EVERYWHERE)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            if FORM.CARRIED:
                announce_to_carriers(started, calls, call, world)
            else:
                announce(started, world)
            load_tiles(inputs.writer(), owned_tiles(problem, tiles, world, FORM.EVERYWHERE), operands)
    tl.store(calls + tl.program_id(0), call)
