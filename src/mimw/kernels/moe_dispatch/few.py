"""Few rows, each with a slot of its own: they are loaded before anybody knows where they go.

Input: rings with a slot for each row that a program may have. Output: as of the roles in kernel.py and rows.py. For example, of two
GPUs and a program with one token of each:

    out ring    slot 0: the own token's row, on its way while its experts are looked up; put to the peer, if it has one of them
    home ring   slot 0: the own token's row; slot 1: the peer's, when it has come; both while choices are exchanged

A row that goes nowhere is loaded as well, and what comes from a peer's place may be old: it has no place here, and nobody looks at
it. No slot is used twice, so nothing waits for one, and a peer is told once.
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..at_ranks import at_ranks
from .announce import find_peers
from .rings import Rows, drain, fill, number, tell
from .whole_rows import places_in


@mimw.jit
def load_few(x, ring, first, rounds):
    """So many of this program's rows of x into the slots from `first` on."""
    for round in range(rounds):
        at = (tl.program_id(0) + round * tl.num_programs(0)).to(tl.int64)
        fill(ring, first + round, x.at(at))


@mimw.jit
def load_few_out(x, ids, ring, outgoing, launch, FIRST: tl.constexpr):
    """The rows of this program's tokens; while they come, their peers."""
    load_few(x, ring, 0, launch.rounds(launch.tokens))
    find_peers(ids, outgoing, launch, FIRST, False)
    tlx.barrier_arrive(outgoing.known)


@mimw.jit
def put_to(rows, ring, outgoing, launch, rank, first):
    """To one rank the rows that it has experts of, each behind its place `first` by its token's number; when they are loaded."""
    for round in range(launch.rounds(launch.tokens)):
        tlx.barrier_wait(ring.full[round], 0)
        if (number(outgoing.targets, round) >> rank) & 1 != 0:
            at = (first + tl.program_id(0) + round * tl.num_programs(0)).to(tl.int64)
            drain(ring, round, rows.at(at))


@mimw.jit
def put_few(staging, ring, outgoing, started, arrived, launch):
    """Rows to the peers that have experts of them, then a signal to each."""
    RANKS: tl.constexpr = launch.RANKS
    world, program, programs = launch.world, tl.program_id(0), tl.num_programs(0)
    me = tlx.world_rank(world)
    there, scales_there = at_ranks(staging.words, 1, world, RANKS), at_ranks(staging.scales, 1, world, RANKS)
    signals = at_ranks(arrived + me * programs + program, 1, world, RANKS)
    place = launch.first_place()
    tlx.barrier_wait(outgoing.known, 0)
    for step in tl.static_range(1, RANKS):
        if launch.GENERATIONS == 1:
            tlx.wait_signal(started + (me + step) % RANKS, launch.call)
        held = Rows(there[step - 1], scales_there[step - 1], staging.WORDS, staging.SCALES)
        put_to(held, ring, outgoing, launch, (me + step) % RANKS, (place + RANKS - step - 1) * launch.TOKENS)
    tlx.async_descriptor_store_wait(0)
    tell(signals, launch.call * tl.cdiv(launch.TOKENS, programs), RANKS - 1)


@mimw.jit
def load_few_home(x, staging, ring, arrived, launch):
    """The rows of this program's tokens, then those of each peer when they have come."""
    world, program, programs = launch.world, tl.program_id(0), tl.num_programs(0)
    me, rounds = tlx.world_rank(world), launch.rounds(launch.TOKENS)
    place = launch.first_place()
    load_few(x, ring, 0, launch.rounds(launch.tokens))
    for step in tl.static_range(1, launch.RANKS):
        rank = (me + step) % launch.RANKS
        tlx.wait_signal(arrived + rank * programs + program, launch.call * tl.cdiv(launch.TOKENS, programs))
        at = ((place + step - 1) * launch.TOKENS).to(tl.int64)
        load_few(staging.at(at), ring, step * rounds, rounds)


@mimw.jit
def spread_few(rows, home, ring, launch, warp, WARPS: tl.constexpr):
    """Rows from the ring to their places, by one of WARPS warps that take turns."""
    RANKS: tl.constexpr = launch.RANKS
    K: tl.constexpr = launch.K
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    me, rounds = tlx.world_rank(launch.world), launch.rounds(launch.TOKENS)
    tlx.barrier_wait(home.placed, 0)
    for step in tl.static_range(RANKS):
        of_rank = ((me + step) % RANKS * launch.ROUNDS) * WIDTH
        for round in range(launch.rounds(launch.TOKENS if step else launch.tokens)):
            slot = step * rounds + round
            if slot % WARPS == warp:
                places, count = places_in(home.places, of_rank + round * WIDTH, K)
                tlx.barrier_wait(ring.full[slot], 0)
                for j in tl.static_range(K):
                    if places[j] >= 0:
                        drain(ring, slot, rows.at(places[j].to(tl.int64)))
    tlx.async_descriptor_store_wait(0)
