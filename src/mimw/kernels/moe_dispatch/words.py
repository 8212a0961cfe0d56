"""Choices and counts that say themselves that they have come: words with the mark of their launch in the lowest two bits.

Input: choices and counts of a launch, pointers into a board that was 0 before the first launch. Output: words at a rank; what came.
For example:

    put(there + at, marked_choice(expert, nth, valid, launch), inside)          one store each, with no signal and no fence
    words = look(here + at, inside)
    while missing(words, inside, launch):           until each has the launch's mark
        words = look(here + at, inside)
    expert, nth = choice_of(words, launch)

A launch writes every word of its half of the board, and no word is written again before all have been read (announce.py says why).
So what a reader finds is 0, or of the launch before with that half, or of this one: marks 1 and 2, in turn, tell which.

A choice has 64 bits: above its mark 0, or (expert + 1) times a power of two of choices, plus how many of that expert came before;
in the upper half the weight, if weights travel. A count has 32 bits.
"""

import triton
import triton.language as tl

import mimw


@mimw.jit
def mark_of(launch):
    """1 or 2."""
    return 1 + ((launch.call >> 1) & 1).to(tl.int32)


@mimw.jit
def marked_choice(expert, nth, valid, launch):
    """The words of choices, without weights."""
    ROOM: tl.constexpr = triton.next_power_of_2(launch.TOKENS * launch.K)
    return (tl.where(valid, (expert + 1) * ROOM + nth, 0).to(tl.int64) << 2) | mark_of(launch)


@mimw.jit
def choice_of(words, launch):
    """(expert, how many of it came before) of words; of what is no choice the expert is -1."""
    ROOM: tl.constexpr = triton.next_power_of_2(launch.TOKENS * launch.K)
    told = ((words & 0xFFFFFFFF) >> 2).to(tl.int32)
    return told // ROOM - 1, told % ROOM


@mimw.jit
def with_weight(words, weight):
    """The words of choices with weights, as fp32, above them."""
    return (weight.to(tl.int32, bitcast=True).to(tl.int64) << 32) | words


@mimw.jit
def weight_of(words):
    """The weights of words."""
    return (words >> 32).to(tl.int32).to(tl.float32, bitcast=True)


@mimw.jit
def put(there, words, inside):
    """Write words, each of them at once."""
    tl.atomic_store(there, words, mask=inside, sem="relaxed", scope="sys")


@mimw.jit
def look(here, inside):
    """The words at `here` as they are; 0 outside."""
    return tl.where(inside, tl.atomic_load(here, mask=inside, sem="relaxed", scope="sys"), 0)


@mimw.jit
def missing(words, inside, launch):
    """True while one of the words that are inside has not come."""
    return tl.max(tl.ravel((inside & ((words & 3).to(tl.int32) != mark_of(launch))).to(tl.int32)), 0) != 0
