"""Sums that say themselves that they have come: a word of 8 bytes is 0 until then.

Input: a tile of numbers of 16 or 32 bits, and pointers to int64. Output: words at a peer; a tile of what came. For example, of
bf16:

    put_words(there + at, packed(sums), inside)                         4 numbers a word, written as one, all bits turned around
    sums = unpacked(take_words(here + at, inside), tl.bfloat16)         waits until each is there, and leaves zeros again

No signal and no fence: a word is one access, and it is all that is told. Of a word of ones alone, which turned around would be 0,
another bit is set: its numbers are no numbers before and after. Who takes a word leaves 0 for the next launch of that memory.
"""

import triton.language as tl

import mimw


@mimw.jit
def packed(numbers):
    """Words of neighbours, the first in the lowest bits."""
    BITS: tl.constexpr = numbers.dtype.primitive_bitwidth
    INT: tl.constexpr = tl.int16 if BITS == 16 else tl.int32
    MASK: tl.constexpr = (1 << BITS) - 1
    SIZE: tl.constexpr = numbers.shape[0] * BITS // 64
    bits = numbers.to(INT, bitcast=True).to(tl.int64) & MASK
    return tl.sum(tl.reshape(bits, (SIZE, 64 // BITS)) << (BITS * tl.arange(0, 64 // BITS)).to(tl.int64)[None, :], 1)


@mimw.jit
def unpacked(words, TYPE: tl.constexpr):
    """The numbers of words."""
    BITS: tl.constexpr = TYPE.primitive_bitwidth
    INT: tl.constexpr = tl.int16 if BITS == 16 else tl.int32
    shifted = words[:, None] >> (BITS * tl.arange(0, 64 // BITS)).to(tl.int64)[None, :]
    return tl.reshape(shifted.to(INT).to(TYPE, bitcast=True), (words.shape[0] * 64 // BITS, ))


@mimw.jit
def put_words(there, words, inside):
    """Write words, each of them at once."""
    turned = tl.where(words == -1, 1, ~words)
    tl.atomic_store(there, turned, mask=inside, sem="relaxed", scope="sys")


@mimw.jit
def take_words(here, inside):
    """The words at `here` as soon as all that are inside have come; zeros are left there."""
    found = tl.atomic_load(here, mask=inside, sem="relaxed", scope="sys")
    while tl.max((inside & (found == 0)).to(tl.int32), 0) != 0:
        found = tl.atomic_load(here, mask=inside, sem="relaxed", scope="sys")
    tl.atomic_store(here, tl.zeros_like(found), mask=inside, sem="relaxed", scope="sys")
    return ~found
