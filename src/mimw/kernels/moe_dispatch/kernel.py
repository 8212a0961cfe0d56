"""Rows of tokens to the GPUs of their experts, in one kernel: each row goes once to each GPU that has experts of it, and is there
copied to its place for each of them.

Input: at each GPU its tokens' rows and experts. Output: at each GPU the rows for its experts, by expert, rank and token; where each
expert's end; the place of each choice. For example:

    grid, args, meta = arguments(x, ids, rows, ends, places, workspace, world, programs)
    dispatch[grid](*args, **meta)               at every GPU

Nouns: two rings of rows in shared memory, `out` and `home`; in symmetric memory `staging`, where the peers put their tokens, and
what announce.py sends. Roles: the first task finds peers, announces, and finds places (places.py); `load_out` and `put` send rows
to the peers, behind what their program announces; `load_home` and `spread` take the rows of this GPU's own tokens, and of what has
come, to their places. FEW rows have a slot each (few.py).

A token has its place in the peer's `staging` by its number, so nothing must be known before it is sent. Its program of the peer
gets a signal when GROUP rounds of rows are there, and copies them on while others come. All copies are bulk copies: bytes move,
whatever they mean.

`staging` has GENERATIONS places for a row. With one it is free when its owner has begun this launch, as then its last one has
ended: so each rank says that it begins, and waits for the peers to say so. With two, taken in turn, what this launch writes was
read in the last one but one. That has ended where its owner has signalled rows in the last one, for which this rank has waited
there: so nobody says or waits for anything more. Signals count launches, in `calls` each program for itself.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..at_ranks import at_ranks
from .announce import Board, Launch, Outgoing, Weights, find_and_announce
from .few import load_few_home, load_few_out, put_few, spread_few
from .places import find_places
from .rings import Home, Ring, Rows, drain, fill, number, tell
from .whole_rows import spread_whole


@mimw.jit
def is_here(home, rank, round, launch):
    """True if one of the experts of a rank's token of that round is this GPU's."""
    WIDTH: tl.constexpr = triton.next_power_of_2(launch.K)
    return tl.max(number(home.places, (rank * launch.ROUNDS + round) * WIDTH + tl.arange(0, WIDTH))) >= 0


@mimw.jit
def load_out(x, ring, outgoing):
    """The rows of this program's tokens that are sent, one after the other, into the ring."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    tlx.barrier_wait(outgoing.known, 0)
    for n in range(number(outgoing.count, 0)):
        slot = n % ring.STAGES
        tlx.barrier_wait(ring.free[slot], ((n // ring.STAGES) & 1) ^ 1)
        at = (program + number(outgoing.rounds, n) * programs).to(tl.int64)
        fill(ring, slot, x.at(at))


@mimw.jit
def put(staging, ring, outgoing, started, arrived, launch, GROUP: tl.constexpr):
    """Rows from the ring to the peers that have experts of them. When GROUP of them are there, their slots are free, and each peer
    gets a signal up to which round all have come: until then none is sent, since a signal waits for all that is on its way."""
    RANKS: tl.constexpr = launch.RANKS
    world = launch.world
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    rounds = tl.cdiv(launch.TOKENS, programs)
    before = (launch.call - 1) * rounds
    there, scales_there = at_ranks(staging.words, 1, world, RANKS), at_ranks(staging.scales, 1, world, RANKS)
    signals = at_ranks(arrived + me * programs + program, 1, world, RANKS)
    tlx.barrier_wait(outgoing.known, 0)
    if launch.GENERATIONS == 1:
        for step in tl.static_range(1, RANKS):
            tlx.wait_signal(started + (me + step) % RANKS, launch.call)
    told, first_place = 0, launch.first_place()
    for n in range(number(outgoing.count, 0)):
        slot, round = n % ring.STAGES, number(outgoing.rounds, n)
        goes_to, token = number(outgoing.targets, round), program + round * programs
        tlx.barrier_wait(ring.full[slot], (n // ring.STAGES) & 1)
        for step in tl.static_range(1, RANKS):
            if (goes_to >> ((me + step) % RANKS)) & 1 != 0:
                at = ((first_place + RANKS - step - 1) * launch.TOKENS + token).to(tl.int64)
                drain(ring, slot, Rows(there[step - 1], scales_there[step - 1], staging.WORDS, staging.SCALES).at(at))
        if n % GROUP == GROUP - 1:
            tlx.async_descriptor_store_wait(0)
            for done in range(n - GROUP + 1, n + 1):
                tlx.barrier_arrive(ring.free[done % ring.STAGES])
            told = round + 1
            tell(signals, before + told, RANKS - 1)
    if told < rounds:
        tlx.async_descriptor_store_wait(0)
        tell(signals, before + rounds, RANKS - 1)


@mimw.jit
def load_home(x, staging, home, ring, arrived, launch, GROUP: tl.constexpr):
    """The rows of all GPUs' tokens that this one has experts of, into the ring: of GROUP rounds the own ones, then those of each
    peer when they are there."""
    world = launch.world
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    rounds = tl.cdiv(launch.TOKENS, programs)
    before, n = (launch.call - 1) * rounds, 0
    first_place = launch.first_place()
    tlx.barrier_wait(home.placed, 0)
    for first in range(0, rounds, GROUP):
        for step in range(size):
            rank = (me + step) % size
            if step != 0:
                tlx.wait_signal(arrived + rank * programs + program, before + min(first + GROUP, rounds))
            for round in range(first, min(first + GROUP, rounds)):
                if is_here(home, rank, round, launch):
                    slot, token = n % ring.STAGES, program + round * programs
                    tlx.barrier_wait(ring.free[slot], ((n // ring.STAGES) & 1) ^ 1)
                    if step == 0:
                        at = token.to(tl.int64)
                        fill(ring, slot, x.at(at))
                    else:
                        at = ((first_place + step - 1) * launch.TOKENS + token).to(tl.int64)
                        fill(ring, slot, staging.at(at))
                    n += 1


@mimw.jit
def spread(rows, home, ring, launch, UNREAD: tl.constexpr, GROUP: tl.constexpr):
    """Rows from the ring to their places; a slot is free when its row is UNREAD rows old, each of which is a copy at least."""
    WIDTH: tl.constexpr = triton.next_power_of_2(launch.K)
    world = launch.world
    me, size, n, rounds = tlx.world_rank(world), tlx.world_size(world), 0, tl.cdiv(launch.TOKENS, tl.num_programs(0))
    tlx.barrier_wait(home.placed, 0)
    for first in range(0, rounds, GROUP):
        for step in range(size):
            rank = (me + step) % size
            for round in range(first, min(first + GROUP, rounds)):
                if is_here(home, rank, round, launch):
                    slot = n % ring.STAGES
                    tlx.barrier_wait(ring.full[slot], (n // ring.STAGES) & 1)
                    for j in range(launch.K):
                        place = number(home.places, (rank * launch.ROUNDS + round) * WIDTH + j).to(tl.int64)
                        if place >= 0:
                            drain(ring, slot, rows.at(place))
                    tlx.async_descriptor_store_wait(UNREAD)
                    if n >= UNREAD:
                        tlx.barrier_arrive(ring.free[(n - UNREAD) % ring.STAGES])
                    n += 1
    tlx.async_descriptor_store_wait(0)


@mimw.jit(do_not_specialize=["tokens"])
def dispatch(x, x_scales, ids, weights, rows, row_scales, ends, places, all_weights, staging, staging_scales, choices, counts,
             told_weights, chunks, counted, announced, started, arrived, calls, world, tokens, TOKENS: tl.constexpr,
             K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr, WORDS: tl.constexpr, SCALES: tl.constexpr,
             OUT: tl.constexpr, HOME: tl.constexpr, UNREAD: tl.constexpr, GROUP: tl.constexpr, TILE: tl.constexpr,
             COUNT: tl.constexpr, ROUNDS: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr, MEET: tl.constexpr,
             WEIGHTED: tl.constexpr = 0, WHOLE: tl.constexpr = 0, GENERATIONS: tl.constexpr = 1, FEW: tl.constexpr = 0,
             TOLD: tl.constexpr = True):
    """Of each GPU's `tokens`, at most TOKENS, with K experts each of RANKS x LOCAL; rows are WORDS of int32, with SCALES of them.
    WHOLE warps, if any, take rows to their places as whole_rows.py says.

    weights, all_weights    if WEIGHTED, of this GPU's choices, and (RANKS, TOKENS, K) fp32 for those of all; told_weights
                        symmetric, two halves of as many
    rows, row_scales    by this GPU's experts, each from a multiple of BLOCK on; with ends (LOCAL) and places (RANKS, TOKENS, K)
                        this GPU's own
    staging             symmetric, (GENERATIONS (RANKS - 1), TOKENS, WORDS), and staging_scales likewise; may hold anything
    choices, counts     symmetric, two halves of (RANKS, TOKENS K) int64, and of (RANKS, RANKS LOCAL) int32; may hold anything
                        where ranks are TOLD of them, else 0 before the first launch
    announced, started  symmetric, int64, a word for each rank; arrived  a word for each rank and program
    chunks              of this rank alone, (programs, RANKS LOCAL) int32; counted  one int64
    calls               int64, a word for each program, of this rank alone. All words are 0 before the first launch, and are left to
                        launches of the same sizes and grid, which follow each other
    """
    me, program = tlx.world_rank(world), tl.program_id(0)
    ROW: tl.constexpr = triton.next_power_of_2(WORDS)
    SCALE: tl.constexpr = triton.next_power_of_2(SCALES) if SCALES else 4
    out_words, home_words = tlx.local_alloc((ROW, ), tl.int32, OUT), tlx.local_alloc((ROW, ), tl.int32, HOME)
    out_scales, home_scales = tlx.local_alloc((SCALE, ), tl.int32, OUT), tlx.local_alloc((SCALE, ), tl.int32, HOME)
    out_ring = Ring(out_words, out_scales, tlx.alloc_barriers(OUT), tlx.alloc_barriers(OUT), OUT)
    home_ring = Ring(home_words, home_scales, tlx.alloc_barriers(HOME), tlx.alloc_barriers(HOME), HOME)
    known, placed = tlx.alloc_barriers(1, arrive_count=2 if FEW == 2 else 1), tlx.alloc_barriers(1)
    targets, rounds = tle.gpu.alloc([ROUNDS], tl.int32), tle.gpu.alloc([ROUNDS], tl.int32)
    outgoing = Outgoing(targets, rounds, tle.gpu.alloc([1], tl.int32), known)
    home = Home(tle.gpu.alloc([triton.next_power_of_2(RANKS) * ROUNDS * triton.next_power_of_2(K)], tl.int32), placed)
    if WHOLE and not FEW:
        issued = tle.gpu.alloc([triton.next_power_of_2(HOME)], tl.int32)
    launch = Launch(world, tokens, calls, 0, 0, TOKENS, K, RANKS, LOCAL, ROUNDS, SLOTS, TILE, GENERATIONS, TOLD)
    board, given = Board(choices, counts, announced, chunks, counted), Weights(weights, told_weights, all_weights, WEIGHTED)
    own, held = Rows(x, x_scales, WORDS, SCALES), Rows(staging, staging_scales, WORDS, SCALES)
    if GENERATIONS == 1:
        if program == tl.num_programs(0) - 1:       # of few tokens it has no choices, which all ranks wait for
            for step in range(1, RANKS):
                tlx.signal(tlx.peer_pointer(started, (me + step) % RANKS, world) + me)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            this = launch.numbered()
            find_and_announce(ids, given, board, outgoing, this, 1, FEW, FEW != 1, COUNT, MEET)
            find_places(board, given, places, home.places, ends, this, BLOCK)
            tlx.barrier_arrive(placed)
        with tlx.async_task(num_warps=1):
            if FEW:
                load_few_out(own, ids, out_ring, outgoing, launch, 1)
            else:
                load_out(own, out_ring, outgoing)
        with tlx.async_task(num_warps=1):
            if FEW:
                put_few(held, out_ring, outgoing, started, arrived, launch.numbered())
            else:
                put(held, out_ring, outgoing, started, arrived, launch.numbered(), GROUP)
        with tlx.async_task(num_warps=1):
            if FEW:
                load_few_home(own, held, home_ring, arrived, launch.numbered())
            else:
                load_home(own, held, home, home_ring, arrived, launch.numbered(), GROUP)
        with tlx.async_task(num_warps=1, replicate=max(1, WHOLE)):
            found = Rows(rows, row_scales, WORDS, SCALES)
            if FEW:
                spread_few(found, home, home_ring, launch, tlx.async_task_replica_id(), max(1, WHOLE))
            elif WHOLE:
                spread_whole(found, home, issued, home_ring, launch, tlx.async_task_replica_id(), UNREAD, GROUP, WHOLE)
            else:
                spread(found, home, home_ring, launch, UNREAD, GROUP)
    tl.atomic_add(calls + program, 1, sem="relaxed", scope="gpu")       # which waits for no load
