"""Chunks that few of are wanted: a program looks at several at once, so that a launch which finds none is over soon.

Input: the number of chunks. Output: the numbers of those that a program has, `count` in the place of one that is not wanted:

    chunks = own_chunks(per, count)                             program_id(0) has `per` of them, AT_ONCE at most
    chunks = tl.where(wanted, chunks, count)
    while tl.min(chunks, 0) < count:
        slot = tl.min(chunks, 0)
        ...
        chunks = without(chunks, slot, count)
"""

import triton.language as tl

import mimw

AT_ONCE = tl.constexpr(16)
TURNS = 4       # programs on a multiprocessor, one after the other, so that one with many wanted chunks delays no other


@mimw.jit
def own_chunks(per, count):
    """Numbers of chunks: (AT_ONCE)."""
    at = tl.arange(0, AT_ONCE)
    number = tl.program_id(0) * per + at
    return tl.where((at < per) & (number < count), number, count)


@mimw.jit
def without(chunks, slot, count):
    """The same but for one."""
    return tl.where(chunks == slot, count, chunks)


def per_program(chunks: int, heads: int, programs: int) -> int:
    """The number of chunks of a head for one program, where `programs` run side by side."""
    return max(1, min(AT_ONCE.value, chunks * heads // (TURNS * programs)))
