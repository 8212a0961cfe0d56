"""What a program of `combine` looks up in shared memory: which rows are whose, and what they count.

Input: places and weights in global memory. Output: tables by rank, round and choice, where round r of program p is token
p + r programs. For example, program 1 of 2, with two tokens of one choice:

    places [[0, -1], [2, 1]]        own_places -1 1         of rank 0's token 1 there is no row here, of rank 1's it is row 1

All programs need the weights of the peers' tokens, too: the first ones of each rank tell them, in a launch's beginning.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@mimw.jit
def is_here(own_places, rank, round, K: tl.constexpr, ROUNDS: tl.constexpr):
    """Whether one of the experts of a rank's token of that round is this GPU's."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    return tl.max(tl.load(tle.gpu.local_ptr(own_places, ((rank * ROUNDS + round) * WIDTH + tl.arange(0, WIDTH), )))) >= 0


@mimw.jit
def choices(first, K: tl.constexpr, SLOTS: tl.constexpr):
    """(rounds, j, tokens, whether j is a choice) of SLOTS rounds from `first` on."""
    round, j = first + tl.arange(0, SLOTS)[:, None], tl.arange(0, triton.next_power_of_2(K))[None, :]
    return round, j, tl.program_id(0) + round * tl.num_programs(0), j < K


@mimw.jit
def find_rows(places, own_places, TOKENS: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, ROUNDS: tl.constexpr,
              SLOTS: tl.constexpr):
    """own_places: the row of each choice, or -1."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    for rank in range(RANKS):
        for first in range(0, ROUNDS, SLOTS):
            round, j, token, real = choices(first, K, SLOTS)
            place = tl.load(places + (rank * TOKENS + token) * K + j, mask=real & (token < TOKENS), other=-1)
            tl.store(tle.gpu.local_ptr(own_places, ((rank * ROUNDS + round) * WIDTH + j, )), place)


@mimw.jit
def tell_weights(weights, all_weights, told, world, tokens, TOKENS: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr,
                 TELL: tl.constexpr):
    """The weights of this rank's tokens to all others, by the first programs."""
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    for first in range(program * TELL, TOKENS * K, programs * TELL):
        at = first + tl.arange(0, TELL)
        weight = tl.load(weights + at, mask=at < tokens * K, other=0.0).to(tl.float32)
        for step in range(1, RANKS):
            there = tlx.peer_pointer(all_weights, (me + step) % RANKS, world)
            tl.store(there + me * (TOKENS * K) + at, weight, mask=at < TOKENS * K)
    if program * TELL < TOKENS * K:
        for step in range(1, RANKS):
            tlx.signal(tlx.peer_pointer(told, (me + step) % RANKS, world) + me)


@mimw.jit
def hear_weights(weights, all_weights, told, own_weights, call, world, tokens, TOKENS: tl.constexpr, K: tl.constexpr,
                 RANKS: tl.constexpr, TELL: tl.constexpr, ROUNDS: tl.constexpr, SLOTS: tl.constexpr):
    """own_weights: what each choice counts, when all ranks have told it."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    me, tellers = tlx.world_rank(world), tl.minimum(tl.num_programs(0), tl.cdiv(TOKENS * K, TELL))
    for step in range(RANKS):
        rank = (me + step) % RANKS
        if step != 0:
            tlx.wait_signal(told + rank, call * tellers)
        for first in range(0, ROUNDS, SLOTS):
            round, j, token, real = choices(first, K, SLOTS)
            if step == 0:
                weight = tl.load(weights + token * K + j, mask=real & (token < tokens), other=0.0).to(tl.float32)
            else:
                weight = tl.load(all_weights + (rank * TOKENS + token) * K + j, mask=real & (token < TOKENS), other=0.0)
            tl.store(tle.gpu.local_ptr(own_weights, ((rank * ROUNDS + round) * WIDTH + j, )), weight)
