"""Warpgroups that compute side by side: their names as readers of pipes, and how they take turns on the tensor cores.

Input: the number of a consumer, and how many there are. Output: names for pipes, or arrivals and waits on named
barriers:

    inputs = tle.pipe(capacity=4, readers=consumers(2), a=...)    each chunk is read by both
    inputs.reader(consumer(me))                                   the end of consumer `me`
    begin_turn(me); ...; pass_turn(me, 2)                         in between only this consumer starts products
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

TURN = tl.constexpr(8)  # named barriers from here on, one a consumer
PAIR = tl.constexpr(256)  # threads of the consumer that passes its turn and of the one that begins


@triton.constexpr_function
def consumer(me):
    """The name of consumer number `me`."""
    return f"consumer{me}"


@triton.constexpr_function
def consumers(count, *others):
    """The readers of a pipe of which `count` consumers, and the `others` by name, read every chunk."""
    return *(f"consumer{me}" for me in range(count)), *others


@triton.constexpr_function
def one_of_consumers(count):
    """The readers of a pipe of which each chunk is read by one of `count` consumers."""
    return (tuple(f"consumer{me}" for me in range(count)), )


@mimw.jit
def open_turns(me: tl.constexpr, CONSUMERS: tl.constexpr):
    """Once, before the first turn: consumer 0 may begin."""
    if me == CONSUMERS - 1:
        tlx.named_barrier_arrive(TURN, PAIR)


@mimw.jit
def begin_turn(me: tl.constexpr):
    """Hold consumer `me` until the one before it has passed its turn."""
    tlx.named_barrier_wait(TURN + me, PAIR)


@mimw.jit
def pass_turn(me: tl.constexpr, CONSUMERS: tl.constexpr):
    """The consumer after `me` may begin."""
    tlx.named_barrier_arrive(TURN + (me + 1) % CONSUMERS, PAIR)
