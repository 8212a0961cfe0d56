"""Rows of tokens to the GPUs of their experts, where they stay: experts find them by lists of numbers.

Input: at each GPU its tokens' rows and experts. Output: at each GPU the rows of all tokens that it has experts of, by rank and
token; by expert the numbers of its rows; the place of each choice among these. For example, of two GPUs with two tokens and one
expert each:

    rank 0    ids 0 1     ends 3     sources 0 2 3      its expert has row 0, and rows 2 and 3, which rank 1 has sent
    rank 1    ids 0 0     ends 1     sources 1

    grid, args, meta = rows_arguments(x, ids, sources, ends, places, workspace, world, programs)
    dispatch_rows[grid](*args, **meta)          at every GPU

Nouns: a ring of rows in shared memory, and `received` in symmetric memory, whose place for a token is its rank and number, so that
nothing must be known before it is sent. Roles: the first task finds out who gets what, announces it (announce.py), and makes the
lists (places.py); `load_out` and `put` send each row once to each GPU that has experts of it, this one as well.

A result is its owner's until it begins the next launch. So with one place for each row (GENERATIONS) `received` is free when its
owner has begun this launch, for which `put` waits. Of few rows there may be two, and few_rows.py says who writes to which. A peer
signals its rows once, when they all have come: `put` waits for the like programs of the peers before it ends.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..at_ranks import at_ranks
from .announce import Board, Launch, Outgoing, Weights, find_and_announce
from .few import load_few_out
from .few_rows import begin, put_few_rows
from .kernel import load_out
from .places import announced, keep_weights, own_choices, places_of, starts_of, told_choices
from .rings import Ring, Rows, drain, number, tell


@mimw.jit
def fill_up(behind, starts, sources, launch, BLOCK: tl.constexpr):
    """Each expert's list, which ends before `behind`, up to whole blocks with RANKS * TOKENS, which is no row's number."""
    experts = tl.arange(0, behind.shape[0])
    for expert in range(tl.program_id(0), launch.LOCAL, tl.num_programs(0)):
        begin, last = number(starts, expert), tl.sum(tl.where(experts == expert, behind, 0))
        at = last + tl.arange(0, triton.next_power_of_2(BLOCK))
        tl.store(sources + at, at * 0 + launch.RANKS * launch.TOKENS, mask=at < begin + tl.cdiv(last - begin, BLOCK) * BLOCK)


@mimw.jit
def make_lists(board, weights, sources, ends, places, launch, BLOCK: tl.constexpr):
    """places[rank, token, j], of the tokens that this program has of each rank: where among the numbers of all experts' rows that
    choice is, or -1; sources[place] is the number of its row. With them the weights, if there are any."""
    counts, choices = announced(board, launch)
    starts, behind = starts_of(counts, ends, launch, BLOCK)
    for first in range(0, launch.ROUNDS, launch.SLOTS):
        rank, round, token, number, inside = own_choices(launch, first)
        place = places_of(choices, rank, starts, launch)
        tl.store(places + number, place, mask=inside)
        tl.store(sources + place, tl.broadcast_to(rank * launch.TOKENS + token, place.shape), mask=place >= 0)
        if weights.GIVEN:
            keep_weights(weights, launch, choices, number, inside)
        if launch.ROUNDS > launch.SLOTS:
            choices = told_choices(board, launch, first + launch.SLOTS)
    if BLOCK > 1:
        fill_up(behind, starts, sources, launch, BLOCK)


@mimw.jit
def put(received, ring, outgoing, started, arrived, launch, UNREAD: tl.constexpr):
    """Rows from the ring to the GPUs that have experts of them; a slot is free when its row is UNREAD rows old, each of which is a
    copy at least. When all have gone a signal to each peer, and a wait for its one."""
    RANKS: tl.constexpr = launch.RANKS
    world = launch.world
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    there, scales_there = at_ranks(received.words, 0, world, RANKS), at_ranks(received.scales, 0, world, RANKS)
    signals = at_ranks(arrived + me * programs + program, 1, world, RANKS)
    tlx.barrier_wait(outgoing.known, 0)
    for step in tl.static_range(1, RANKS):
        tlx.wait_signal(started + (me + step) % RANKS, launch.call)
    for n in range(number(outgoing.count, 0)):
        slot, round = n % ring.STAGES, number(outgoing.rounds, n)
        goes_to, at = number(outgoing.targets, round), (me * launch.TOKENS + program + round * programs).to(tl.int64)
        tlx.barrier_wait(ring.full[slot], (n // ring.STAGES) & 1)
        for step in tl.static_range(RANKS):
            if (goes_to >> ((me + step) % RANKS)) & 1 != 0:
                drain(ring, slot, Rows(there[step], scales_there[step], received.WORDS, received.SCALES).at(at))
        tlx.async_descriptor_store_wait(UNREAD)
        if n >= UNREAD:
            tlx.barrier_arrive(ring.free[(n - UNREAD) % ring.STAGES])
    tlx.async_descriptor_store_wait(0)
    tell(signals, launch.call, RANKS - 1)
    for step in tl.static_range(1, RANKS):
        tlx.wait_signal(arrived + (me + step) % RANKS * programs + program, launch.call)


@mimw.jit(do_not_specialize=["tokens", "generation"])
def dispatch_rows(x, x_scales, ids, weights, sources, ends, places, all_weights, received, received_scales, choices, counts,
                  told_weights, chunks, counted, announced, started, arrived, calls, world, tokens, generation,
                  TOKENS: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr, WORDS: tl.constexpr,
                  SCALES: tl.constexpr, BLOCK: tl.constexpr, OUT: tl.constexpr, UNREAD: tl.constexpr, TILE: tl.constexpr,
                  COUNT: tl.constexpr, ROUNDS: tl.constexpr, SLOTS: tl.constexpr, MEET: tl.constexpr, WEIGHTED: tl.constexpr = 0,
                  FEW: tl.constexpr = 0, GENERATIONS: tl.constexpr = 1, TOLD: tl.constexpr = True):
    """Of each GPU's `tokens`, at most TOKENS, with K experts each of RANKS x LOCAL; rows are WORDS of int32, with SCALES of them.

    weights, all_weights    if WEIGHTED, of this GPU's choices, and (RANKS, TOKENS, K) fp32 for those of all; told_weights
                        symmetric, two halves of as many
    sources             by this GPU's experts, the list of each filled up to BLOCK numbers; with ends (LOCAL) and places
                        (RANKS, TOKENS, K) this GPU's own
    received            symmetric, (GENERATIONS RANKS, TOKENS, WORDS), and received_scales likewise; may hold anything. The result
                        lies in this `generation`
    choices, counts     symmetric, two halves of (RANKS, TOKENS K) int64, and of (RANKS, RANKS LOCAL) int32; may hold anything
                        where ranks are TOLD of them, else 0 before the first launch
    announced, started  symmetric, int64, a word for each rank; arrived  a word for each rank and program
    chunks              of this rank alone, (programs, RANKS LOCAL) int32; counted  one int64
    calls               int64, a word for each program, of this rank alone. All words are 0 before the first launch, and are left to
                        launches of the same sizes and grid, which follow each other
    """
    me, program = tlx.world_rank(world), tl.program_id(0)
    SCALE: tl.constexpr = triton.next_power_of_2(SCALES) if SCALES else 4
    words, scales = tlx.local_alloc((triton.next_power_of_2(WORDS), ), tl.int32, OUT), tlx.local_alloc((SCALE, ), tl.int32, OUT)
    ring = Ring(words, scales, tlx.alloc_barriers(OUT), tlx.alloc_barriers(OUT), OUT)
    known = tlx.alloc_barriers(1, arrive_count=2 if FEW == 2 else 1)
    targets, rounds = tle.gpu.alloc([ROUNDS], tl.int32), tle.gpu.alloc([ROUNDS], tl.int32)
    outgoing = Outgoing(targets, rounds, tle.gpu.alloc([1], tl.int32), known)
    launch = Launch(world, tokens, calls, 0, 0, TOKENS, K, RANKS, LOCAL, ROUNDS, SLOTS, TILE, GENERATIONS, TOLD)
    board, given = Board(choices, counts, announced, chunks, counted), Weights(weights, told_weights, all_weights, WEIGHTED)
    if program == tl.num_programs(0) - 1:       # of few tokens it has no choices, which all ranks wait for
        if GENERATIONS == 1:
            for step in range(1, RANKS):
                tlx.signal(tlx.peer_pointer(started, (me + step) % RANKS, world) + me)
        else:
            begin(started, launch.numbered(), generation)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            this = launch.numbered()
            find_and_announce(ids, given, board, outgoing, this, 0, FEW, FEW == 2, COUNT, MEET)
            make_lists(board, given, sources, ends, places, this, BLOCK)
        with tlx.async_task(num_warps=1):
            if FEW:
                load_few_out(Rows(x, x_scales, WORDS, SCALES), ids, ring, outgoing, launch, 0)
            else:
                load_out(Rows(x, x_scales, WORDS, SCALES), ring, outgoing)
        with tlx.async_task(num_warps=1):
            found = Rows(received, received_scales, WORDS, SCALES)
            if FEW:
                put_few_rows(found, ring, outgoing, started, arrived, launch.numbered(), generation)
            else:
                put(found, ring, outgoing, started, arrived, launch.numbered(), UNREAD)
    tl.atomic_add(calls + program, 1, sem="relaxed", scope="gpu")       # which waits for no load
