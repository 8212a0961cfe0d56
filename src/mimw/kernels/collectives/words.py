"""Numbers as words of 32 bits, and words with a flag beside them: what the flagged form of the collectives moves and adds.

Input: pointers to bf16, fp16 or fp32. Output: tiles of int32, one number or two neighbours each; the same with a flag, as int64:

    words = read_words(x, at, n, WHOLE)             of bf16 two neighbours a word: x[2 at] in the low half
    sent = flagged(words, flag)                     flag << 32 | word: 8 bytes, which a GPU writes and reads as one
    write_words(out, at, n, summed(total), WHOLE)

Sums are of fp32 and rounded once. `WHOLE` says that words lie at multiples of 4 bytes and none is half; else each number is
accessed by itself, and the missing half of the last word is 0.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def words_of(x, n, WHOLE: tl.constexpr):
    """The number of words that hold n numbers."""
    if tlx.dtype_of(x).primitive_bitwidth == 32:
        return n
    elif WHOLE:
        return n // 2
    else:
        return (n + 1) // 2


@mimw.jit
def read_words(x, at, n, WHOLE: tl.constexpr):
    """Words `at` of the n numbers at `x`; 0 beyond."""
    if tlx.dtype_of(x).primitive_bitwidth == 32:
        return tl.load(x.to(tl.pointer_type(tl.int32)) + at, mask=at < n, other=0)
    elif WHOLE:
        return tl.load(x.to(tl.pointer_type(tl.int32)) + at, mask=at < words_of(x, n, True), other=0)
    else:
        halves = x.to(tl.pointer_type(tl.int16))
        low = tl.load(halves + 2 * at, mask=2 * at < n, other=0).to(tl.int32)
        high = tl.load(halves + 2 * at + 1, mask=2 * at + 1 < n, other=0).to(tl.int32)
        return (high << 16) | (low & 0xFFFF)


@mimw.jit
def write_words(x, at, n, words, WHOLE: tl.constexpr):
    """The n numbers at `x` from words `at`; nothing beyond."""
    if tlx.dtype_of(x).primitive_bitwidth == 32:
        tl.store(x.to(tl.pointer_type(tl.int32)) + at, words, mask=at < n)
    elif WHOLE:
        tl.store(x.to(tl.pointer_type(tl.int32)) + at, words, mask=at < words_of(x, n, True))
    else:
        halves = x.to(tl.pointer_type(tl.int16))
        tl.store(halves + 2 * at, words.to(tl.int16), mask=2 * at < n)
        tl.store(halves + 2 * at + 1, (words >> 16).to(tl.int16), mask=2 * at + 1 < n)


@mimw.jit
def numbers_of(words, TYPE: tl.constexpr):
    """(low, high) halves of words as fp32; of fp32 the number twice, of which the second is not used."""
    if TYPE.primitive_bitwidth == 32:
        low = words.to(tl.float32, bitcast=True)
        return low, low
    else:
        low = words.to(tl.int16).to(TYPE, bitcast=True).to(tl.float32)
        high = (words >> 16).to(tl.int16).to(TYPE, bitcast=True).to(tl.float32)
        return low, high


@mimw.jit
def as_words(low, high, TYPE: tl.constexpr):
    """Sums of fp32, rounded to TYPE, as words."""
    if TYPE.primitive_bitwidth == 32:
        return low.to(tl.int32, bitcast=True)
    else:
        lower = low.to(TYPE).to(tl.int16, bitcast=True).to(tl.int32)
        upper = high.to(TYPE).to(tl.int16, bitcast=True).to(tl.int32)
        return (upper << 16) | (lower & 0xFFFF)


@mimw.jit
def send_flagged(there, words, flag, inside):
    """Write words with the flag beside each, 8 bytes at a time: whoever finds the flag has the word with it."""
    tl.atomic_store(there, (flag.to(tl.int64) << 32) | (words.to(tl.int64) & 0xFFFFFFFF), mask=inside, sem="relaxed", scope="sys")


@mimw.jit
def await_flagged(here, flag, inside):
    """The words at `here` as soon as every one of them that is inside has the flag beside it."""
    found = tl.atomic_load(here, mask=inside, sem="relaxed", scope="sys")
    while tl.max((inside & ((found >> 32) != flag.to(tl.int64))).to(tl.int32), 0) != 0:
        found = tl.atomic_load(here, mask=inside, sem="relaxed", scope="sys")
    return found.to(tl.int32)
