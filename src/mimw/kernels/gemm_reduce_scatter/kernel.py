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

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, one_of_consumers, open_turns
from ..gemm.kernel import columns, multiply, output_tiles, tile_origin
from .partials import hand_over, handed_over


@mimw.jit
def owned_tile(number, world, tiles, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """(owner, its tile's number, first row among the owner's, first column) of the launch's tile number `number`: the tiles of the
    next rank first, the own ones last."""
    size = tlx.world_size(world)
    owner = (tlx.world_rank(world) + 1 + number // tiles) % size
    m, n = tile_origin(number % tiles, M, N, BM, BN, GROUP_M)
    return owner, number % tiles, m, n


@mimw.jit
def row_of(owner, m, M, EVERYWHERE: tl.constexpr):
    """(matrix, row) of an owner's row in A, and in a C that has all rows; M is the number of rows of each owner."""
    return (0, owner * M + m) if EVERYWHERE else (owner, m)


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
def load(inputs, a_desc, b_desc, world, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         B_IS_NK: tl.constexpr, EVERYWHERE: tl.constexpr):
    """Tiles of A and B along K, for one output tile of this program after the other."""
    chunk, tiles = 0, output_tiles(M, N, BM, BN)
    for number in range(tl.program_id(0), tiles * tlx.world_size(world), tl.num_programs(0)):
        owner, _, m, n = owned_tile(number, world, tiles, M, N, BM, BN, GROUP_M)
        matrix, row = row_of(owner, m, M, EVERYWHERE)
        for k in range(0, K, BK):
            slot = inputs.acquire(chunk)
            tle.gpu.copy(a_desc, slot.a, a_desc.block_shape, [matrix, row, k])
            tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [n, k] if B_IS_NK else [k, n])
            inputs.commit(chunk)
            chunk += 1


@mimw.jit
def put(acc, slots, arrived, place, owner, world, PIECES: tl.constexpr):
    """Sums of a tile into place number `place` of the owner's slots, then a signal."""
    SIZE: tl.constexpr = acc.shape[0] * acc.shape[1] // PIECES
    there = tlx.peer_pointer(slots, owner, world) + place.to(tl.int64) * (PIECES * SIZE)
    for piece in tl.static_range(PIECES):
        hand_over(columns(acc, piece, PIECES), there + piece * SIZE)
    tlx.signal(tlx.peer_pointer(arrived, owner, world) + place)


@mimw.jit
def leave(acc, sums, done, PIECES: tl.constexpr):
    """Sums of a tile into this GPU's own memory at `sums`, then a signal to what carries them."""
    SIZE: tl.constexpr = acc.shape[0] * acc.shape[1] // PIECES
    for piece in tl.static_range(PIECES):
        hand_over(columns(acc, piece, PIECES), sums + piece * SIZE)
    tlx.signal(done)


@mimw.jit
def word_of(rank, tile, share, tiles, parcel, SHARERS: tl.constexpr, CARRIED: tl.constexpr):
    """Which word of `arrived`, `finished` or `done` tells of a rank's tile: one for each tile and sharer; of what is carried, one
    for each parcel."""
    return rank * tl.cdiv(tiles, parcel) + tile // parcel if CARRIED else (rank * tiles + tile) * SHARERS + share


@mimw.jit
def plus_others(sums, slots, place, places, piece: tl.constexpr, PIECES: tl.constexpr, world):
    """A piece of sums, and what the other ranks have put for it, from the next rank on; `places` apart lie those of two ranks."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    SIZE: tl.constexpr = sums.shape[0] * sums.shape[1]
    for step in range(1, size):
        at = ((me + step) % size * places + place).to(tl.int64) * PIECES + piece
        sums += handed_over(slots + at * SIZE, sums)
    return sums


@mimw.jit
def stage(c_desc, tile, sums, at, STAGING: tl.constexpr):
    """Store a piece by way of a staging tile, which waits only for the store that last used it."""
    tlx.async_descriptor_store_wait(STAGING - 1)
    tlx.local_store(tile, sums)
    tlx.fence("async_shared")
    tlx.async_descriptor_store(c_desc, tile, at)


@mimw.jit
def finish(acc, c_desc, staging, first: tl.constexpr, slots, results, finished, sums, done, place, places, at, n, world,
           BN: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr, EVERYWHERE: tl.constexpr, CARRIED: tl.constexpr):
    """Add what came to an own tile's sums and store it; EVERYWHERE: put it to all peers, too, and tell them; CARRIED: leave it at
    `sums` instead, and signal at `done`."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    SIZE: tl.constexpr = acc.shape[0] * acc.shape[1] // PIECES
    for piece in tl.static_range(PIECES):
        whole = plus_others(columns(acc, piece, PIECES), slots, place, places, piece, PIECES, world).to(tlx.dtype_of(c_desc))
        if EVERYWHERE and CARRIED:
            hand_over(whole, sums + piece * SIZE)
        elif EVERYWHERE:
            here = results + (me * places + place).to(tl.int64) * (PIECES * SIZE) + piece * SIZE
            for step in range(1, size):
                hand_over(whole, tlx.peer_pointer(here, (me + step) % size, world))
        stage(c_desc, staging[first + piece % STAGING], whole, [at[0], at[1], n + piece * (BN // PIECES)], STAGING)
    if EVERYWHERE and CARRIED:
        tlx.signal(done)
    elif EVERYWHERE:
        for step in range(1, size):
            tlx.signal(tlx.peer_pointer(finished, (me + step) % size, world) + me * places + place)


@mimw.jit
def collect(c_desc, staging, first: tl.constexpr, results, place, at, n, ROWS: tl.constexpr, BN: tl.constexpr,
            PIECES: tl.constexpr, STAGING: tl.constexpr):
    """Store a tile that its owner has finished and put here."""
    like = tl.zeros((ROWS, BN // PIECES), tl.float32)
    for piece in tl.static_range(PIECES):
        here = results + (place.to(tl.int64) * PIECES + piece) * (ROWS * BN // PIECES)
        stage(c_desc, staging[first + piece % STAGING], handed_over(here, like).to(tlx.dtype_of(c_desc)),
              [at[0], at[1], n + piece * (BN // PIECES)], STAGING)


@mimw.jit
def compute(inputs, staging, c_desc, slots, arrived, started, results, finished, sums, done, parcel, call, world, M, N, K,
            me: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, CONSUMERS: tl.constexpr,
            PIECES: tl.constexpr, STAGING: tl.constexpr, PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr,
            EVERYWHERE: tl.constexpr, CARRIED: tl.constexpr):
    """The output tiles of consumer `me`: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    TURNS: tl.constexpr = CONSUMERS if PING_PONG else 1
    SHARERS: tl.constexpr = CONSUMERS // TURNS
    ROWS: tl.constexpr = BM // SHARERS
    turn: tl.constexpr = me if PING_PONG else 0
    share: tl.constexpr = 0 if PING_PONG else me
    program, programs, steps = tl.program_id(0), tl.num_programs(0), tl.cdiv(K, BK)
    rank, size, tiles = tlx.world_rank(world), tlx.world_size(world), output_tiles(M, N, BM, BN)
    places = tiles * SHARERS
    chunk = turn * steps
    if PING_PONG:
        open_turns(me, CONSUMERS)
    for number in range(program + turn * programs, tiles * size, TURNS * programs):
        acc = multiply(inputs, chunk, steps, me, share * ROWS, ROWS, BN, CONSUMERS, PING_PONG, B_IS_NK)
        chunk += TURNS * steps
        owner, tile, m, n = owned_tile(number, world, tiles, M, N, BM, BN, GROUP_M)
        place, told, left = tile * SHARERS + share, None, None
        if CARRIED:
            told = done + word_of(number // tiles, tile, share, tiles, parcel, SHARERS, CARRIED)
            left = sums + (owner * places + place).to(tl.int64) * (ROWS * BN)
        if owner == rank:
            for step in range(1, size):
                tlx.wait_signal(arrived + word_of((rank + step) % size, tile, share, tiles, parcel, SHARERS, CARRIED), call)
            at = row_of(owner, m + share * ROWS, M, True) if EVERYWHERE else (0, m + share * ROWS)
            finish(acc, c_desc, staging, STAGING * me, slots, results, finished, left, told, place, places, at, n, world, BN,
                   PIECES, STAGING, EVERYWHERE, CARRIED)
        elif CARRIED:
            leave(acc, left, told, PIECES)
        else:
            tlx.wait_signal(started + owner * programs + program, call)
            put(acc, slots, arrived, rank * places + place, owner, world, PIECES)
    if EVERYWHERE:
        for number in range(program + turn * programs, tiles * (size - 1), TURNS * programs):
            owner, tile, m, n = owned_tile(number, world, tiles, M, N, BM, BN, GROUP_M)
            tlx.wait_signal(finished + word_of(owner, tile, share, tiles, parcel, SHARERS, CARRIED), call)
            collect(c_desc, staging, STAGING * me, results, owner * places + tile * SHARERS + share,
                    row_of(owner, m + share * ROWS, M, True), n, ROWS, BN, PIECES, STAGING)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def reduce_scatter_gemm(a_desc, b_desc, c_desc, slots, arrived, started, results, finished, sums, done, parcel, calls, world,
                        M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr,
                        CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr, PING_PONG: tl.constexpr,
                        B_IS_NK: tl.constexpr, EVERYWHERE: tl.constexpr, CARRIED: tl.constexpr):
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
    ROWS: tl.constexpr = BM if PING_PONG else BM // CONSUMERS
    B_SHAPE: tl.constexpr = (STAGES, BN, BK) if B_IS_NK else (STAGES, BK, BN)
    inputs = tle.pipe(capacity=STAGES, readers=one_of_consumers(CONSUMERS) if PING_PONG else consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc(B_SHAPE, tlx.dtype_of(b_desc)))
    staging = tlx.local_alloc((ROWS, BN // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)
    call = tl.load(calls + tl.program_id(0)) + 1

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), staging, c_desc, slots, arrived, started, results, finished, sums, done, parcel,
                    call, world, M, N, K, me, BM, BN, BK, GROUP_M, CONSUMERS, PIECES, STAGING, PING_PONG, B_IS_NK, EVERYWHERE,
                    CARRIED)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            if CARRIED:
                announce_to_carriers(started, calls, call, world)
            else:
                announce(started, world)
            load(inputs.writer(), a_desc, b_desc, world, M, N, K, BM, BN, BK, GROUP_M, B_IS_NK, EVERYWHERE)
    tl.store(calls + tl.program_id(0), call)
