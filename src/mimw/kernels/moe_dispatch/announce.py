"""Who gets how many rows: each GPU counts its choices, tells all GPUs, and each works out where the rows that it gets belong.

Input: at each GPU the experts that its tokens have chosen. Output: at each GPU the place of every choice of one of its own experts
among the rows that it gets, which lie by expert, then by rank, then by token. For example, of two GPUs with one expert each:

    rank 0    ids 0 1 0     tells ranks 0 and 1: counts 2 1, choices (0, 0) (1, 0) (0, 1): expert, how many of it came before
    rank 1    ids 1 0 1                          counts 1 2, choices (1, 0) (0, 0) (1, 1)
    places at rank 0: of rank 0's choices 0 - 1, of rank 1's - 2 -

A program has a span of choices. What came before that it counts by itself, in shared memory, if these are few; else each program
counts its own, leaves what it found in `chunks`, and adds up what the programs before it have left. An id that is no expert's, as
-1, is no choice.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@mimw.jit
def chosen(ids, first, last, COUNT: tl.constexpr, EXPERTS: tl.constexpr):
    """(expert, whether there is one) of the choices from `first` to `last`, COUNT at most."""
    at = first + tl.arange(0, COUNT)
    expert = tl.load(ids + at, mask=at < last, other=-1).to(tl.int32)
    return expert, (expert >= 0) & (expert < EXPERTS)


@mimw.jit
def count(ids, counts, first, last, COUNT: tl.constexpr, EXPERTS: tl.constexpr):
    """Add the choices from `first` to `last` to `counts`, in shared memory."""
    for start in range(first, last, COUNT):
        expert, valid = chosen(ids, start, last, COUNT, EXPERTS)
        tl.atomic_add(tle.gpu.local_ptr(counts, (tl.where(valid, expert, 0), )), 1, mask=valid)


@mimw.jit
def count_before(ids, before, chunks, counted, begin, end, call, workers, COUNT: tl.constexpr, EXPERTS: tl.constexpr):
    """How many choices of each expert stand before `begin`, to `before`: each of the first `workers` programs counts its own, up to
    `end`, and adds up those of the programs before it."""
    BINS: tl.constexpr = triton.next_power_of_2(EXPERTS)
    ROWS: tl.constexpr = max(1, 8192 // BINS)
    program, bins = tl.program_id(0), tl.arange(0, BINS)
    count(ids, before, begin, end, COUNT, EXPERTS)
    tl.store(chunks + program * EXPERTS + bins, tl.load(tle.gpu.local_ptr(before)), mask=bins < EXPERTS)
    tlx.signal(counted, scope="gpu")
    tlx.wait_signal(counted, call * workers, scope="gpu")
    total = tl.zeros([BINS], tl.int32)
    for first in range(0, program, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        there = (row < program) & (bins < EXPERTS)[None, :]
        total += tl.sum(tl.load(chunks + row * EXPERTS + bins[None, :], mask=there, other=0), 0)
    tl.store(tle.gpu.local_ptr(before), total)


@mimw.jit
def announce(ids, choices, counts, chunks, counted, told, half, call, world, numel, MOST: tl.constexpr, EXPERTS: tl.constexpr,
             TILE: tl.constexpr, COUNT: tl.constexpr, MEET: tl.constexpr):
    """Tell all GPUs this one's numel choices, of MOST at most, and how many each expert has, in that `half` of the arrays. Up to
    MEET choices each program counts by itself."""
    BINS: tl.constexpr = triton.next_power_of_2(EXPERTS)
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    span = tl.cdiv(tl.cdiv(MOST, TILE), programs) * TILE
    workers, begin, slot = tl.cdiv(MOST, span), program * span, tl.arange(0, TILE)
    if program < workers:
        before = tle.gpu.alloc([BINS], tl.int32)
        tl.store(tle.gpu.local_ptr(before), tl.zeros([BINS], tl.int32))
        if MOST <= MEET:
            count(ids, before, 0, tl.minimum(begin, numel), COUNT, EXPERTS)
        else:
            count_before(ids, before, chunks, counted, begin, tl.minimum(begin + span, numel), call, workers, COUNT, EXPERTS)
        for first in range(begin, min(begin + span, MOST), TILE):
            expert, valid = chosen(ids, first, numel, TILE, EXPERTS)
            same = (expert[None, :] == expert[:, None]) & (slot[None, :] < slot[:, None])
            nth = tl.load(tle.gpu.local_ptr(before, (tl.where(valid, expert, 0), ))) + tl.sum(same.to(tl.int32), 1)
            told_of = tl.where(valid, expert.to(tl.int64) << 32 | nth.to(tl.int64), -1)
            at = (half * size + me) * MOST + first + slot
            for step in range(size):
                there = tlx.peer_pointer(choices, (me + step) % size, world)
                tl.store(there + at, told_of, mask=first + slot < MOST)
            tl.atomic_add(tle.gpu.local_ptr(before, (tl.where(valid, expert, 0), )), 1, mask=valid)
        if program == workers - 1:
            bins = tl.arange(0, BINS)
            total = tl.load(tle.gpu.local_ptr(before))
            for step in range(size):
                there = tlx.peer_pointer(counts, (me + step) % size, world)
                tl.store(there + (half * size + me) * EXPERTS + bins, total, mask=bins < EXPERTS)
    tlx.fence("sys")        # one for all signals
    for step in range(size):
        tlx.signal(tlx.peer_pointer(told, (me + step) % size, world) + me, sem="relaxed")


@mimw.jit
def starts_of(counts, ends, half, world, RANKS: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr):
    """Where the rows of each rank for each of this one's LOCAL experts begin, [RANKS * a power of two] in shared memory; `ends`
    becomes the row behind each expert's last one, whose rows are filled up to whole blocks."""
    BINS: tl.constexpr = triton.next_power_of_2(LOCAL)
    me, expert = tlx.world_rank(world), tl.arange(0, BINS)
    mine = counts + half * (RANKS * RANKS * LOCAL) + me * LOCAL + expert
    total = tl.zeros([BINS], tl.int32)
    for rank in range(RANKS):
        total += tl.load(mine + rank * (RANKS * LOCAL), mask=expert < LOCAL, other=0)
    total = tl.cdiv(total, BLOCK) * BLOCK
    end = tl.cumsum(total)
    if tl.program_id(0) == 0:
        tl.store(ends + expert, end, mask=expert < LOCAL)
    starts, start = tle.gpu.alloc([triton.next_power_of_2(RANKS) * BINS], tl.int32), end - total
    for rank in range(RANKS):
        tl.store(tle.gpu.local_ptr(starts, (rank * BINS + expert, )), start)
        start += tl.load(mine + rank * (RANKS * LOCAL), mask=expert < LOCAL, other=0)
    return starts


@mimw.jit
def find_peers(ids, targets, listed, counted, world, tokens, K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr,
               ROUNDS: tl.constexpr, SLOTS: tl.constexpr, FIRST: tl.constexpr = 1):
    """targets[round], in shared memory, of this program's own tokens: a bit for each rank that has experts of it, this one (with
    FIRST = 0) or the others; the rounds that have such a rank, listed, and how many they are."""
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    j, have = tl.arange(0, triton.next_power_of_2(K))[None, :], 0
    for first in range(0, ROUNDS, SLOTS):
        round = first + tl.arange(0, SLOTS)
        token = (program + round * programs)[:, None]
        expert = tl.load(ids + token.to(tl.int64) * K + j, mask=(token < tokens) & (j < K), other=-1).to(tl.int32)
        found = tl.zeros([SLOTS], tl.int32)
        for step in range(FIRST, RANKS):
            peer = (me + step) % RANKS
            found |= tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32), 1) << peer
        tl.store(tle.gpu.local_ptr(targets, (round, )), found)
        has = found != 0
        nth = have + tl.cumsum(has.to(tl.int32)) - 1
        tl.store(tle.gpu.local_ptr(listed, (tl.where(has, nth, 0), )), round, mask=has)
        have += tl.sum(has.to(tl.int32))
    tl.store(tle.gpu.local_ptr(counted, (0, )), have)


@mimw.jit
def starts_when_told(counts, told, ends, half, call, world, RANKS: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr):
    """`starts_of`, when all ranks have told."""
    me = tlx.world_rank(world)
    for step in range(RANKS):
        tlx.wait_signal(told + (me + step) % RANKS, call * tl.num_programs(0))
    return starts_of(counts, ends, half, world, RANKS, LOCAL, BLOCK)


@mimw.jit
def places_of(choices, starts, half, world, rank, token, TOKENS: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr,
              LOCAL: tl.constexpr):
    """Of a rank's tokens, a column of their numbers, and their choices: (the place of each here or -1, its number among the rank's
    choices, whether there is such a token and choice)."""
    j = tl.arange(0, triton.next_power_of_2(K))[None, :]
    inside, number = (token < TOKENS) & (j < K), token * K + j
    choice = tl.load(choices + (half * RANKS + rank) * (TOKENS * K) + number, mask=inside, other=-1)
    expert = (choice >> 32).to(tl.int32) - tlx.world_rank(world) * LOCAL
    here = (choice >= 0) & (expert >= 0) & (expert < LOCAL)
    start = tl.load(tle.gpu.local_ptr(starts, (tl.where(here, rank * triton.next_power_of_2(LOCAL) + expert, 0), )))
    return tl.where(here, start + (choice & 0x7FFFFFFF).to(tl.int32), -1), number, inside


@mimw.jit
def find_places(choices, counts, told, places, own_places, ends, half, call, world, TOKENS: tl.constexpr, K: tl.constexpr,
                RANKS: tl.constexpr, LOCAL: tl.constexpr, ROUNDS: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """places[rank, token, j], of the tokens that this program has of each rank: the row of that choice here, or -1; the same in
    shared memory, by round instead of token."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    program, programs, j = tl.program_id(0), tl.num_programs(0), tl.arange(0, WIDTH)[None, :]
    starts = starts_when_told(counts, told, ends, half, call, world, RANKS, LOCAL, BLOCK)
    for rank in range(RANKS):
        for first in range(0, ROUNDS, SLOTS):
            round = first + tl.arange(0, SLOTS)[:, None]
            place, at, inside = places_of(choices, starts, half, world, rank, program + round * programs, TOKENS, K, RANKS, LOCAL)
            tl.store(places + rank * (TOKENS * K) + at, place, mask=inside)
            tl.store(tle.gpu.local_ptr(own_places, ((rank * ROUNDS + round) * WIDTH + j, )), place)
