"""Who gets how many rows: each GPU counts its choices, and sends them to all GPUs, which find out where their rows belong.

Input: at each GPU the experts that its tokens have chosen. Output: at each GPU what places.py makes the places of all its rows of,
which lie by expert, then by rank, then by token. For example, of two GPUs with one expert each:

    rank 0    ids 0 1 0     sends ranks 0 and 1: counts 2 1, choices (0, 0) (1, 0) (0, 1): expert, how many of it came before
    rank 1    ids 1 0 1                          counts 1 2, choices (1, 0) (0, 0) (1, 1)
    places at rank 0: of rank 0's choices 0 - 1, of rank 1's - 2 -

A program has a span of choices. What came before that it counts by itself, in shared memory, if these are few; else each program
counts its own, leaves what it found in `chunks`, and adds up what the programs before it have left. An id that is no expert's, as
-1, is no choice. Programs without choices have nothing to say, and signal nothing. Weights travel beside the choices, if there are
any. A message alternates between two halves: who sends for the second time has received, in the launch between, what each rank has
sent after its first one had ended. A signal says that it is there, behind a fence that waits for all that the multiprocessor has on
its way; or it is words that say so themselves (words.py).
"""

from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..at_ranks import at_ranks
from .words import mark_of, marked_choice, put, with_weight


@tle.struct
class Launch:
    """Launch number `call` of all ranks, which has one half of the arrays that alternate: of each GPU's `tokens`, TOKENS at most,
    with K experts each of RANKS x LOCAL. A program has ROUNDS tokens at most, and looks at SLOTS of them at a time, and at TILE
    choices. Rows that come have GENERATIONS places in turn. Ranks are TOLD of announcements by signals, or these are words that say
    so themselves (words.py). `calls` counts launches, in a word for each program."""
    world: Any
    tokens: Any
    calls: tl.tensor
    call: Any
    half: Any
    TOKENS: tl.constexpr
    K: tl.constexpr
    RANKS: tl.constexpr
    LOCAL: tl.constexpr
    ROUNDS: tl.constexpr
    SLOTS: tl.constexpr
    TILE: tl.constexpr
    GENERATIONS: tl.constexpr
    TOLD: tl.constexpr

    @mimw.jit
    def numbered(self):
        """The launch with its number. Each task looks for itself, so that none begins behind a load that it does not need."""
        call = tl.load(self.calls + tl.program_id(0)) + 1
        return Launch(self.world, self.tokens, self.calls, call, (call & 1).to(tl.int32), self.TOKENS, self.K, self.RANKS,
                      self.LOCAL, self.ROUNDS, self.SLOTS, self.TILE, self.GENERATIONS, self.TOLD)

    @mimw.jit
    def first_place(self):
        """The first place for rows of peers in the launch's generation, of RANKS - 1 ranks each."""
        return (self.call % self.GENERATIONS).to(tl.int32) * (self.RANKS - 1)

    @mimw.jit
    def rounds(self, tokens):
        """The number of a rank's tokens that this program has."""
        return tl.cdiv(tl.maximum(tokens - tl.program_id(0), 0), tl.num_programs(0))


@tle.struct
class Weights:
    """The weights of this rank's choices; of all ranks', symmetric, two halves; where this rank leaves those of all. GIVEN is
    false where there are none."""
    own: tl.tensor
    told: tl.tensor
    every: tl.tensor
    GIVEN: tl.constexpr


@tle.struct
class Board:
    """Announcements: of all ranks their choices and counts, with a word for each rank that counts its signals; and of this rank
    alone what each of its programs has counted, with the word for that."""
    choices: tl.tensor
    counts: tl.tensor
    signals: tl.tensor
    chunks: tl.tensor
    counted: tl.tensor


@tle.struct
class Outgoing:
    """Rows that leave, in shared memory: of each round a bit for each rank that it goes to, the rounds that go anywhere, and their
    number; and the barrier that says when all this is known."""
    targets: tle.gpu.buffered_tensor
    rounds: tle.gpu.buffered_tensor
    count: tle.gpu.buffered_tensor
    known: tlx.mbarrier


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
def count_before(ids, before, board, launch, begin, end, workers, COUNT: tl.constexpr):
    """Add the choices of each expert that stand before `begin` to `before`: each of the first `workers` programs counts its own, up
    to `end`, and adds up those of the programs before it."""
    EXPERTS: tl.constexpr = launch.RANKS * launch.LOCAL
    BINS: tl.constexpr = triton.next_power_of_2(EXPERTS)
    ROWS: tl.constexpr = max(1, 8192 // BINS)
    program, bins = tl.program_id(0), tl.arange(0, BINS)
    count(ids, before, begin, end, COUNT, EXPERTS)
    tl.store(board.chunks + program * EXPERTS + bins, tl.load(tle.gpu.local_ptr(before)), mask=bins < EXPERTS)
    tlx.signal(board.counted, scope="gpu")
    tlx.wait_signal(board.counted, launch.call * workers, scope="gpu")
    total = tl.zeros([BINS], tl.int32)
    for first in range(0, program, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        there = (row < program) & (bins < EXPERTS)[None, :]
        total += tl.sum(tl.load(board.chunks + row * EXPERTS + bins[None, :], mask=there, other=0), 0)
    tl.store(tle.gpu.local_ptr(before), total)


@mimw.jit
def shares(launch):
    """(choices of a program, how many programs have any)."""
    MOST: tl.constexpr = launch.TOKENS * launch.K
    span = tl.cdiv(tl.cdiv(MOST, launch.TILE), tl.num_programs(0)) * launch.TILE
    return span, tl.cdiv(MOST, span)


@mimw.jit
def announce(ids, weights, board, launch, COUNT: tl.constexpr, MEET: tl.constexpr):
    """Send this GPU's choices to all GPUs, and how many each expert has, into the launch's half of the board. Up to MEET choices
    each program counts by itself."""
    MOST: tl.constexpr = launch.TOKENS * launch.K
    RANKS: tl.constexpr = launch.RANKS
    TILE: tl.constexpr = launch.TILE
    EXPERTS: tl.constexpr = RANKS * launch.LOCAL
    BINS: tl.constexpr = triton.next_power_of_2(EXPERTS)
    me, program, world = tlx.world_rank(launch.world), tl.program_id(0), launch.world
    numel, mine, slot = launch.tokens * launch.K, launch.half * RANKS + me, tl.arange(0, TILE)
    span, workers = shares(launch)
    begin = program * span
    if program < workers:
        choices, counts = at_ranks(board.choices, 0, world, RANKS), at_ranks(board.counts, 0, world, RANKS)
        signals, before = at_ranks(board.signals + me, 0, world, RANKS), tle.gpu.alloc([BINS], tl.int32)
        end = tl.minimum(begin + span, numel)
        expert, valid = chosen(ids, begin, end, TILE, EXPERTS)      # on their way while those before are counted
        tl.store(tle.gpu.local_ptr(before), tl.zeros([BINS], tl.int32))
        if MOST <= MEET:
            count(ids, before, 0, tl.minimum(begin, numel), COUNT, EXPERTS)
        else:
            count_before(ids, before, board, launch, begin, end, workers, COUNT)
        for first in range(begin, min(begin + span, MOST), TILE):
            same = (expert[None, :] == expert[:, None]) & (slot[None, :] < slot[:, None])
            nth = tl.load(tle.gpu.local_ptr(before, (tl.where(valid, expert, 0), ))) + tl.sum(same.to(tl.int32), 1)
            send_choices(expert, nth, valid, weights, choices, mine * MOST, first, numel, launch)
            tl.atomic_add(tle.gpu.local_ptr(before, (tl.where(valid, expert, 0), )), 1, mask=valid)
            expert, valid = chosen(ids, first + TILE, end, TILE, EXPERTS)
        if program == workers - 1:
            send_counts(tl.load(tle.gpu.local_ptr(before)), counts, mine * EXPERTS, launch)
        if launch.TOLD:
            tlx.fence("sys")        # one for all signals
            for step in tl.static_range(RANKS):
                tlx.signal(signals[step], sem="relaxed")


@mimw.jit
def send_choices(expert, nth, valid, weights, choices, mine, first, numel, launch):
    """A tile of choices from `first` on, and their weights, to all GPUs."""
    RANKS: tl.constexpr = launch.RANKS
    choice = first + tl.arange(0, launch.TILE)
    inside = choice < launch.TOKENS * launch.K
    if launch.TOLD:
        word = tl.where(valid, expert.to(tl.int64) << 32 | nth.to(tl.int64), -1)
        for step in tl.static_range(RANKS):
            tl.store(choices[step] + mine + choice, word, mask=inside)
        if weights.GIVEN:
            send_weights(weights, mine, first, numel, launch)
    else:
        word = marked_choice(expert, nth, valid, launch)
        if weights.GIVEN:
            word = with_weight(word, own_weights(weights, choice, numel))
        for step in tl.static_range(RANKS):
            put(choices[step] + mine + choice, word, inside)


@mimw.jit
def send_counts(total, counts, mine, launch):
    """The number of choices of each expert to all GPUs."""
    RANKS: tl.constexpr = launch.RANKS
    bins = tl.arange(0, total.shape[0])
    for step in tl.static_range(RANKS):
        there, inside = counts[step] + mine + bins, bins < RANKS * launch.LOCAL
        if launch.TOLD:
            tl.store(there, total, mask=inside)
        else:
            put(there, (total << 2) | mark_of(launch), inside)


@mimw.jit
def find_and_announce(ids, weights, board, outgoing, launch, FIRST: tl.constexpr, FEW: tl.constexpr, BEHIND: tl.constexpr,
                      COUNT: tl.constexpr, MEET: tl.constexpr):
    """Find the peers of this program's tokens, if these are not FEW, and announce its choices. Rows may go when peers are known; if
    BEHIND not before their program has announced its choices: fences and words wait for all rows that are on their way."""
    if not FEW:
        find_peers(ids, outgoing, launch, FIRST, True)
    if not (FEW or BEHIND):
        tlx.barrier_arrive(outgoing.known)
    announce(ids, weights, board, launch, COUNT, MEET)
    if BEHIND:
        tlx.barrier_arrive(outgoing.known)


@mimw.jit
def own_weights(weights, choice, numel):
    """The weights of this rank's choices, as fp32; 0 where there is no token."""
    return tl.load(weights.own + choice, mask=choice < numel, other=0.0).to(tl.float32)


@mimw.jit
def send_weights(weights, at, first, numel, launch):
    """The weights of a tile of choices from `first` on to all GPUs."""
    RANKS: tl.constexpr = launch.RANKS
    there, choice = at_ranks(weights.told, 0, launch.world, RANKS), first + tl.arange(0, launch.TILE)
    weight = own_weights(weights, choice, numel)
    for step in tl.static_range(RANKS):
        tl.store(there[step] + at + choice, weight, mask=choice < launch.TOKENS * launch.K)


@mimw.jit
def find_peers(ids, outgoing, launch, FIRST: tl.constexpr, LISTED: tl.constexpr):
    """`outgoing` of this program's own tokens: of each round the ranks that have experts of it, this one (with FIRST = 0) or the
    others (1); if LISTED the rounds that have such a rank, and how many they are."""
    RANKS: tl.constexpr = launch.RANKS
    LOCAL: tl.constexpr = launch.LOCAL
    K: tl.constexpr = launch.K
    SLOTS: tl.constexpr = launch.SLOTS
    me, program, programs = tlx.world_rank(launch.world), tl.program_id(0), tl.num_programs(0)
    j, have = tl.arange(0, triton.next_power_of_2(K))[None, :], 0
    for first in range(0, launch.ROUNDS, SLOTS):
        round = first + tl.arange(0, SLOTS)
        token = (program + round * programs)[:, None]
        expert = tl.load(ids + token.to(tl.int64) * K + j, mask=(token < launch.tokens) & (j < K), other=-1).to(tl.int32)
        found = tl.zeros([SLOTS], tl.int32)
        for step in range(FIRST, RANKS):
            peer = (me + step) % RANKS
            found |= tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32), 1) << peer
        tl.store(tle.gpu.local_ptr(outgoing.targets, (round, )), found)
        if LISTED:
            has = found != 0
            nth = have + tl.cumsum(has.to(tl.int32)) - 1
            tl.store(tle.gpu.local_ptr(outgoing.rounds, (tl.where(has, nth, 0), )), round, mask=has)
            have += tl.sum(has.to(tl.int32))
    if LISTED:
        tl.store(tle.gpu.local_ptr(outgoing.count, (0, )), have)
