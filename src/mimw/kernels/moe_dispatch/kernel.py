"""Rows of tokens to the GPUs of their experts, in one kernel: each row goes once to each GPU that has experts of it, and is there
copied to its place for each of them.

Input: at each GPU its tokens' rows and experts. Output: at each GPU the rows for its experts, by expert, rank and token; where each
expert's end; the place of each choice. For example:

    grid, args, meta = arguments(x, ids, rows, ends, places, workspace, world, programs)
    dispatch[grid](*args, **meta)               at every GPU

Nouns: two rings of rows in shared memory, `out` and `home`; in symmetric memory `staging`, where the peers put their tokens, and
what announce.py tells. Roles: the first task finds peers, tells, and finds places; `load_out` and `put` send rows to the peers,
beginning at once; `load_home` and `spread` take the rows of this GPU's own tokens, and of what has come, to their places.

A token has its place in the peer's `staging` by its number, so nothing must be known before it is sent. Its program of the peer is
told of GROUP rounds of rows when they are there, and copies them on while others come. All copies are bulk copies: bytes move,
whatever they mean.

`staging` is free when its owner has begun this launch, as then its last one has ended. Signals count launches, in `calls` each
program for itself; what is announced alternates between two halves, since who announces for the second time has been told of the
end of the first.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..at_ranks import at_ranks
from .announce import announce, find_peers, find_places
from .whole_rows import spread_whole


@mimw.jit
def number(table, index):
    """One number of an array in shared memory."""
    return tl.load(tle.gpu.local_ptr(table, (index, )))


@mimw.jit
def is_here(own_places, rank, round, K: tl.constexpr, ROUNDS: tl.constexpr):
    """Whether one of the experts of a rank's token of that round is this GPU's."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    return tl.max(number(own_places, (rank * ROUNDS + round) * WIDTH + tl.arange(0, WIDTH))) >= 0


@mimw.jit
def fill(row, scale, ring, scales, full, slot, WORDS: tl.constexpr, SCALES: tl.constexpr):
    """Start copying a row, and its scales, into a slot of a ring."""
    tlx.barrier_expect_bytes(full[slot], 4 * (WORDS + SCALES))
    tlx.async_load(row, ring[slot], bulk=True, bulk_size=4 * WORDS, barrier=full[slot])
    if SCALES:
        tlx.async_load(scale, scales[slot], bulk=True, bulk_size=4 * SCALES, barrier=full[slot])


@mimw.jit
def drain(row, scale, ring, scales, slot, WORDS: tl.constexpr, SCALES: tl.constexpr):
    """Start copying a slot of a ring to a row and its scales."""
    tlx.async_store(row, ring[slot], 4 * WORDS)
    if SCALES:
        tlx.async_store(scale, scales[slot], 4 * SCALES)


@mimw.jit
def load_out(x, x_scales, ring, scales, full, free, listed, counted, known, WORDS: tl.constexpr, SCALES: tl.constexpr,
             STAGES: tl.constexpr):
    """The rows of this program's tokens that are sent, one after the other, into the ring."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    tlx.barrier_wait(known, 0)
    for n in range(number(counted, 0)):
        slot = n % STAGES
        tlx.barrier_wait(free[slot], ((n // STAGES) & 1) ^ 1)
        at = (program + number(listed, n) * programs).to(tl.int64)
        fill(x + at * WORDS, x_scales + at * SCALES, ring, scales, full, slot, WORDS, SCALES)


@mimw.jit
def put(staging, staging_scales, ring, scales, full, free, targets, listed, counted, known, started, arrived, call, world,
        TOKENS: tl.constexpr, RANKS: tl.constexpr, WORDS: tl.constexpr, SCALES: tl.constexpr, STAGES: tl.constexpr,
        GROUP: tl.constexpr):
    """Rows from the ring to the peers that have experts of them. When GROUP of them are there, their slots are free, and each peer
    is told up to which round all have come: until then none is sent, since what tells waits for all that is on its way."""
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    rounds = tl.cdiv(TOKENS, programs)
    before = (call - 1) * rounds
    there, scales_there = at_ranks(staging, 1, world, RANKS), at_ranks(staging_scales, 1, world, RANKS)
    told = at_ranks(arrived + me * programs + program, 1, world, RANKS)
    tlx.barrier_wait(known, 0)
    for step in tl.static_range(1, RANKS):
        tlx.wait_signal(started + (me + step) % RANKS, call)
    for n in range(number(counted, 0)):
        slot, round = n % STAGES, number(listed, n)
        goes_to, token = number(targets, round), program + round * programs
        tlx.barrier_wait(full[slot], (n // STAGES) & 1)
        for step in tl.static_range(1, RANKS):
            if (goes_to >> ((me + step) % RANKS)) & 1 != 0:
                at = ((RANKS - step - 1) * TOKENS + token).to(tl.int64)
                drain(there[step - 1] + at * WORDS, scales_there[step - 1] + at * SCALES, ring, scales, slot, WORDS, SCALES)
        if n % GROUP == GROUP - 1:
            tlx.async_descriptor_store_wait(0)
            for done in range(n - GROUP + 1, n + 1):
                tlx.barrier_arrive(free[done % STAGES])
            for step in tl.static_range(1, RANKS):
                tlx.signal(told[step - 1], before + round + 1, op="set")
    tlx.async_descriptor_store_wait(0)
    for step in tl.static_range(1, RANKS):
        tlx.signal(told[step - 1], before + rounds, op="set")


@mimw.jit
def load_home(x, x_scales, staging, staging_scales, own_places, ring, scales, full, free, placed, arrived, call, world,
              TOKENS: tl.constexpr, K: tl.constexpr, WORDS: tl.constexpr, SCALES: tl.constexpr, STAGES: tl.constexpr,
              GROUP: tl.constexpr, ROUNDS: tl.constexpr):
    """The rows of all GPUs' tokens that this one has experts of, into the ring: of GROUP rounds the own ones, then those of each
    peer when they are there."""
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    rounds = tl.cdiv(TOKENS, programs)
    before, n = (call - 1) * rounds, 0
    tlx.barrier_wait(placed, 0)
    for first in range(0, rounds, GROUP):
        for step in range(size):
            rank = (me + step) % size
            if step != 0:
                tlx.wait_signal(arrived + rank * programs + program, before + min(first + GROUP, rounds))
            for round in range(first, min(first + GROUP, rounds)):
                if is_here(own_places, rank, round, K, ROUNDS):
                    slot, token = n % STAGES, program + round * programs
                    tlx.barrier_wait(free[slot], ((n // STAGES) & 1) ^ 1)
                    if step == 0:
                        at = token.to(tl.int64)
                        fill(x + at * WORDS, x_scales + at * SCALES, ring, scales, full, slot, WORDS, SCALES)
                    else:
                        at = ((step - 1) * TOKENS + token).to(tl.int64)
                        fill(staging + at * WORDS, staging_scales + at * SCALES, ring, scales, full, slot, WORDS, SCALES)
                    n += 1


@mimw.jit
def spread(rows, row_scales, own_places, ring, scales, full, free, placed, world, TOKENS: tl.constexpr, K: tl.constexpr,
           WORDS: tl.constexpr, SCALES: tl.constexpr, STAGES: tl.constexpr, UNREAD: tl.constexpr, GROUP: tl.constexpr,
           ROUNDS: tl.constexpr):
    """Rows from the ring to their places; a slot is free when its row is UNREAD rows old, each of which is a copy at least."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    me, size, n, rounds = tlx.world_rank(world), tlx.world_size(world), 0, tl.cdiv(TOKENS, tl.num_programs(0))
    tlx.barrier_wait(placed, 0)
    for first in range(0, rounds, GROUP):
        for step in range(size):
            rank = (me + step) % size
            for round in range(first, min(first + GROUP, rounds)):
                if is_here(own_places, rank, round, K, ROUNDS):
                    slot = n % STAGES
                    tlx.barrier_wait(full[slot], (n // STAGES) & 1)
                    for j in range(K):
                        place = number(own_places, (rank * ROUNDS + round) * WIDTH + j).to(tl.int64)
                        if place >= 0:
                            drain(rows + place * WORDS, row_scales + place * SCALES, ring, scales, slot, WORDS, SCALES)
                    tlx.async_descriptor_store_wait(UNREAD)
                    if n >= UNREAD:
                        tlx.barrier_arrive(free[(n - UNREAD) % STAGES])
                    n += 1
    tlx.async_descriptor_store_wait(0)


@mimw.jit(do_not_specialize=["tokens"])
def dispatch(x, x_scales, ids, rows, row_scales, ends, places, staging, staging_scales, choices, counts, chunks,
             counted, told, started, arrived, calls, world, tokens, TOKENS: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr,
             LOCAL: tl.constexpr, WORDS: tl.constexpr, SCALES: tl.constexpr, OUT: tl.constexpr, HOME: tl.constexpr,
             UNREAD: tl.constexpr, GROUP: tl.constexpr, TILE: tl.constexpr, COUNT: tl.constexpr, ROUNDS: tl.constexpr,
             SLOTS: tl.constexpr, BLOCK: tl.constexpr, MEET: tl.constexpr, WHOLE: tl.constexpr = 0):
    """Of each GPU's `tokens`, at most TOKENS, with K experts each of RANKS x LOCAL; rows are WORDS of int32, with SCALES of them.
    WHOLE warps, if any, take rows to their places as whole_rows.py says.

    rows, row_scales    by this GPU's experts, each from a multiple of BLOCK on; with ends (LOCAL) and places (RANKS, TOKENS, K)
                        this GPU's own
    staging             symmetric, (RANKS - 1, TOKENS, WORDS), and staging_scales likewise; may hold anything
    choices, counts     symmetric, two halves of (RANKS, TOKENS K) int64, and of (RANKS, RANKS LOCAL) int32; may hold anything
    told, started       symmetric, int64, a word for each rank; arrived  a word for each rank and program
    chunks              of this rank alone, (programs, RANKS LOCAL) int32; counted  one int64
    calls               int64, a word for each program, of this rank alone. All words are 0 before the first launch, and are left to
                        launches of the same sizes and grid, which follow each other
    """
    me, size, program = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0)
    call = tl.load(calls + program) + 1
    half = (call & 1).to(tl.int32)
    ROW: tl.constexpr = triton.next_power_of_2(WORDS)
    SCALE: tl.constexpr = triton.next_power_of_2(SCALES) if SCALES else 4
    out, home = tlx.local_alloc((ROW, ), tl.int32, OUT), tlx.local_alloc((ROW, ), tl.int32, HOME)
    out_scales, home_scales = tlx.local_alloc((SCALE, ), tl.int32, OUT), tlx.local_alloc((SCALE, ), tl.int32, HOME)
    out_full, out_free = tlx.alloc_barriers(OUT), tlx.alloc_barriers(OUT)
    home_full, home_free = tlx.alloc_barriers(HOME), tlx.alloc_barriers(HOME)
    known, placed = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    targets, listed = tle.gpu.alloc([ROUNDS], tl.int32), tle.gpu.alloc([ROUNDS], tl.int32)
    rows_out = tle.gpu.alloc([1], tl.int32)
    own_places = tle.gpu.alloc([triton.next_power_of_2(RANKS) * ROUNDS * triton.next_power_of_2(K)], tl.int32)
    if WHOLE:
        issued = tle.gpu.alloc([triton.next_power_of_2(HOME)], tl.int32)
    if program == 0:
        for step in range(1, size):
            tlx.signal(tlx.peer_pointer(started, (me + step) % size, world) + me)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            find_peers(ids, targets, listed, rows_out, world, tokens, K, RANKS, LOCAL, ROUNDS, SLOTS)
            tlx.barrier_arrive(known)
            announce(ids, choices, counts, chunks, counted, told, half, call, world, tokens * K, TOKENS * K, RANKS * LOCAL, TILE,
                     COUNT, MEET)
            find_places(choices, counts, told, places, own_places, ends, half, call, world, TOKENS, K, RANKS, LOCAL, ROUNDS, SLOTS,
                        BLOCK)
            tlx.barrier_arrive(placed)
        with tlx.async_task(num_warps=1):
            load_out(x, x_scales, out, out_scales, out_full, out_free, listed, rows_out, known, WORDS, SCALES, OUT)
        with tlx.async_task(num_warps=1):
            put(staging, staging_scales, out, out_scales, out_full, out_free, targets, listed, rows_out, known, started, arrived,
                call, world, TOKENS, RANKS, WORDS, SCALES, OUT, GROUP)
        with tlx.async_task(num_warps=1):
            load_home(x, x_scales, staging, staging_scales, own_places, home, home_scales, home_full, home_free, placed, arrived,
                      call, world, TOKENS, K, WORDS, SCALES, HOME, GROUP, ROUNDS)
        with tlx.async_task(num_warps=1, replicate=max(1, WHOLE)):
            if WHOLE:
                spread_whole(rows, row_scales, own_places, issued, home, home_scales, home_full, home_free, placed, world,
                             tlx.async_task_replica_id(), TOKENS, K, RANKS, WORDS, SCALES, HOME, UNREAD, GROUP, ROUNDS, WHOLE)
            else:
                spread(rows, row_scales, own_places, home, home_scales, home_full, home_free, placed, world, TOKENS, K, WORDS,
                       SCALES, HOME, UNREAD, GROUP, ROUNDS)
    tl.store(calls + program, call)
