"""The places of rows here, from what all GPUs have announced.

Input: the board on which announce.py has written, of this GPU and its peers. Output: places, as find_places and rows.py want them.
For example, of the two GPUs with one expert each in announce.py, at rank 0:

    announced(board, launch)        counts 2 1, of each rank; choices (0, 0) (1, 0) (0, 1) and (1, 0) (0, 0) (1, 1)
    starts_of(counts, ...)          rank 0's rows begin at 0, rank 1's at 2
    places_of(choices, ...)         0 - 1 and - 2 -

A program looks at the choices of its own tokens, of all ranks at once, and at the counts of all. When they are there signals tell,
or each of them by its mark (words.py).
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .announce import shares
from .words import choice_of, look, missing, weight_of


@mimw.jit
def wait_for_announcements(board, launch):
    """Wait until those of all ranks are there."""
    me = tlx.world_rank(launch.world)
    span, workers = shares(launch)
    for step in range(launch.RANKS):
        tlx.wait_signal(board.signals + (me + step) % launch.RANKS, launch.call * workers)


@mimw.jit
def own_choices(launch, first):
    """Of SLOTS rounds of all ranks from `first` on, rank by rank: (columns of ranks, of rounds, of their tokens; the numbers of the
    tokens' choices among those of all ranks; whether there is such a choice)."""
    TOKENS: tl.constexpr = launch.TOKENS
    row = tl.arange(0, triton.next_power_of_2(launch.RANKS) * launch.SLOTS)[:, None]
    rank, round, j = row // launch.SLOTS, first + row % launch.SLOTS, tl.arange(0, triton.next_power_of_2(launch.K))[None, :]
    token = tl.program_id(0) + round * tl.num_programs(0)
    inside = (rank < launch.RANKS) & (token < TOKENS) & (j < launch.K)
    return rank, round, token, (rank * TOKENS + token) * launch.K + j, inside


@mimw.jit
def choices_here(board, launch, first):
    """(places on this rank's board of the choices of all ranks that `own_choices` numbers, which there are)."""
    _, _, _, number, inside = own_choices(launch, first)
    return board.choices + launch.half * (launch.RANKS * launch.TOKENS * launch.K) + number, inside


@mimw.jit
def counts_here(board, launch):
    """(places on it of the numbers of choices that each rank has of each expert of this one, [ranks, experts]; which there are)."""
    RANKS: tl.constexpr = launch.RANKS
    LOCAL: tl.constexpr = launch.LOCAL
    rank = tl.arange(0, triton.next_power_of_2(RANKS))[:, None]
    expert = tl.arange(0, triton.next_power_of_2(LOCAL))[None, :]
    here = board.counts + (launch.half * RANKS + rank) * (RANKS * LOCAL) + tlx.world_rank(launch.world) * LOCAL + expert
    return here, (rank < RANKS) & (expert < LOCAL)


@mimw.jit
def told_choices(board, launch, first):
    """The choices of all ranks that `own_choices` numbers, when they are there; of signals `announced` has waited for all."""
    here, inside = choices_here(board, launch, first)
    if launch.TOLD:
        return tl.load(here, mask=inside, other=-1)
    else:
        found = look(here, inside)
        while missing(found, inside, launch):
            found = look(here, inside)
        return found


@mimw.jit
def announced(board, launch):
    """(counts of all ranks for this one's experts, choices of the first rounds), when all are there."""
    counts_at, has_count = counts_here(board, launch)
    choices_at, is_choice = choices_here(board, launch, 0)
    if launch.TOLD:
        wait_for_announcements(board, launch)
        choices = tl.load(choices_at, mask=is_choice, other=-1)
        return tl.load(counts_at, mask=has_count, other=0), choices
    else:
        counts = look(counts_at, has_count)     # before choices, which some threads load for all: so neither waits for the other
        choices = look(choices_at, is_choice)
        while missing(counts, has_count, launch) | missing(choices, is_choice, launch):
            counts = look(counts_at, has_count)
            choices = look(choices_at, is_choice)
        return counts >> 2, choices


@mimw.jit
def starts_of(counts, ends, launch, BLOCK: tl.constexpr):
    """(the first row of each rank for each of this one's LOCAL experts, in shared memory; the row behind each expert's last one).
    `ends` becomes the same, where the rows of an expert are filled up to whole blocks."""
    LOCAL: tl.constexpr = launch.LOCAL
    BINS: tl.constexpr = triton.next_power_of_2(LOCAL)
    HELD: tl.constexpr = triton.next_power_of_2(launch.RANKS)
    total, expert, rank = tl.sum(counts, 0), tl.arange(0, BINS), tl.arange(0, HELD)
    filled = tl.cdiv(total, BLOCK) * BLOCK
    end = tl.cumsum(filled)
    if tl.program_id(0) == 0:
        tl.store(ends + expert, end, mask=expert < LOCAL)
    starts, start = tle.gpu.alloc([HELD * BINS], tl.int32), end - filled
    before = tl.cumsum(counts, 0) - counts
    tl.store(tle.gpu.local_ptr(starts, (rank[:, None] * BINS + expert[None, :], )), start[None, :] + before)
    return starts, start + total


@mimw.jit
def places_of(choices, rank, starts, launch):
    """The places of choices here, or -1."""
    LOCAL: tl.constexpr = launch.LOCAL
    if launch.TOLD:
        expert, nth = (choices >> 32).to(tl.int32), (choices & 0x7FFFFFFF).to(tl.int32)
    else:
        expert, nth = choice_of(choices, launch)
    expert -= tlx.world_rank(launch.world) * LOCAL
    here = (expert >= 0) & (expert < LOCAL)
    start = tl.load(tle.gpu.local_ptr(starts, (tl.where(here, rank * triton.next_power_of_2(LOCAL) + expert, 0), )))
    return tl.where(here, start + nth, -1)


@mimw.jit
def keep_weights(weights, launch, choices, number, inside):
    """Those of choices out of the board, which peers write again, into this rank's own memory."""
    ALL: tl.constexpr = launch.RANKS * launch.TOKENS * launch.K
    if launch.TOLD:
        weight = tl.load(weights.told + launch.half * ALL + number, mask=inside, other=0.0)
    else:
        weight = weight_of(choices)
    tl.store(weights.every + number, weight, mask=inside)


@mimw.jit
def find_places(board, weights, places, own_places, ends, launch, BLOCK: tl.constexpr):
    """places[rank, token, j], of the tokens that this program has of each rank: the row of that choice here, or -1; the same in
    shared memory, by round instead of token. With them the weights, if there are any."""
    ROUNDS: tl.constexpr = launch.ROUNDS
    WIDTH: tl.constexpr = triton.next_power_of_2(launch.K)
    j = tl.arange(0, WIDTH)[None, :]
    counts, choices = announced(board, launch)
    starts, _ = starts_of(counts, ends, launch, BLOCK)
    for first in range(0, ROUNDS, launch.SLOTS):
        rank, round, token, number, inside = own_choices(launch, first)
        place = places_of(choices, rank, starts, launch)
        tl.store(places + number, place, mask=inside)
        tl.store(tle.gpu.local_ptr(own_places, ((rank * ROUNDS + round) * WIDTH + j, )), place)
        if weights.GIVEN:
            keep_weights(weights, launch, choices, number, inside)
        if ROUNDS > launch.SLOTS:
            choices = told_choices(board, launch, first + launch.SLOTS)
