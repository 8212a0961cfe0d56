"""`combine` by rings of bulk copies: rows come through shared memory, so that many are on their way while others are added up.

Input and output as in kernel.py, which has rows of any width. For example:

    grid, args, meta = arguments(y, places, ids, weights, out, workspace, world, experts, sms)
    combine_by_rings[grid](*args, **meta)       at every GPU

Nouns: two rings, `away` for the peers' tokens and `home` for the own ones. A slot holds BLOCK columns of all rows that one token
has here, and in `home` of what came for it besides. Roles: `load_away` and `load_home` fill slots, `add_away` adds up and puts sums
to the peers, `add_home`, which first finds what is where, adds up the own tokens' rows and what came.

The peers are told of GROUP rounds of tokens at a time.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..moe_dispatch.announce import find_peers
from ..moe_dispatch.kernel import is_here, number
from .kernel import tell_weights


@mimw.jit
def find_rows(places, all_weights, own_places, own_weights, TOKENS: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr,
              ROUNDS: tl.constexpr, SLOTS: tl.constexpr):
    """The rows and weights of the choices of each rank's tokens of this program, by round, in shared memory."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    j, program, programs = tl.arange(0, WIDTH)[None, :], tl.program_id(0), tl.num_programs(0)
    for rank in range(RANKS):
        for first in range(0, ROUNDS, SLOTS):
            round = first + tl.arange(0, SLOTS)[:, None]
            token = program + round * programs
            at, inside = (rank * TOKENS + token) * K + j, (token < TOKENS) & (j < K)
            place = tl.load(places + at, mask=inside, other=-1)
            weight = tl.load(all_weights + at, mask=inside, other=0.0)
            index = (rank * ROUNDS + round) * WIDTH + j
            tl.store(tle.gpu.local_ptr(own_places, (index, )), place)
            tl.store(tle.gpu.local_ptr(own_weights, (index, )), weight)


@mimw.jit
def load_rows(y, own_places, index, first, ring, slot, full, HIDDEN: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr,
              BYTES: tl.constexpr):
    """Start copying the columns from `first` on of a token's rows here into a slot, whose full barrier gets an arrival a choice."""
    for j in range(K):
        place = number(own_places, index + j).to(tl.int64)
        if place < 0:
            tlx.barrier_arrive(full[slot])
        else:
            tlx.barrier_expect_bytes(full[slot], BYTES)
            tlx.async_load(y + place * HIDDEN + first, ring[slot * ROWS + j], bulk=True, barrier=full[slot])


@mimw.jit
def add_rows(own_places, own_weights, index, ring, slot, K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The weighted sum of a slot's rows of choices, in fp32, in the order of j."""
    sums = tl.zeros((BLOCK, ), tl.float32)
    for j in tl.static_range(K):
        if number(own_places, index + j) >= 0:
            sums += number(own_weights, index + j) * tlx.local_load(ring[slot * ROWS + j]).to(tl.float32)
    return sums


@mimw.jit
def load_away(y, own_places, ring, full, free, ready, world, TOKENS: tl.constexpr, HIDDEN: tl.constexpr, K: tl.constexpr,
              BLOCK: tl.constexpr, BYTES: tl.constexpr, STAGES: tl.constexpr, GROUP: tl.constexpr, ROUNDS: tl.constexpr):
    """The peers' tokens' rows."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    me, size, rounds, n = tlx.world_rank(world), tlx.world_size(world), tl.cdiv(TOKENS, tl.num_programs(0)), 0
    tlx.barrier_wait(ready, 0)
    for group in range(0, rounds, GROUP):
        for step in range(1, size):
            for round in range(group, min(group + GROUP, rounds)):
                index = ((me + step) % size * ROUNDS + round) * WIDTH
                if is_here(own_places, (me + step) % size, round, K, ROUNDS):
                    for first in range(0, HIDDEN, BLOCK):
                        slot = n % STAGES
                        tlx.barrier_wait(free[slot], ((n // STAGES) & 1) ^ 1)
                        load_rows(y, own_places, index, first, ring, slot, full, HIDDEN, K, K, BLOCK * BYTES)
                        n += 1


@mimw.jit
def add_away(partials, own_places, own_weights, ring, full, free, ready, arrived, call, world, TOKENS: tl.constexpr,
             HIDDEN: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr, GROUP: tl.constexpr,
             ROUNDS: tl.constexpr):
    """Sums of the peers' tokens, put to the peers, and signals."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    rounds = tl.cdiv(TOKENS, programs)
    before, n, column = (call - 1) * tl.cdiv(rounds, GROUP), 0, tl.arange(0, BLOCK)
    tlx.barrier_wait(ready, 0)
    for group in range(0, rounds, GROUP):
        for step in range(1, size):
            peer = (me + step) % size
            for round in range(group, min(group + GROUP, rounds)):
                if is_here(own_places, peer, round, K, ROUNDS):
                    row = ((size - step - 1) * TOKENS + program + round * programs).to(tl.int64)
                    there = tlx.peer_pointer(partials, peer, world) + row * HIDDEN
                    for first in range(0, HIDDEN, BLOCK):
                        slot = n % STAGES
                        tlx.barrier_wait(full[slot], (n // STAGES) & 1)
                        sums = add_rows(own_places, own_weights, (peer * ROUNDS + round) * WIDTH, ring, slot, K, K, BLOCK)
                        tlx.barrier_arrive(free[slot])
                        tl.store(there + first + column, sums.to(tlx.dtype_of(partials)))
                        n += 1
            tlx.signal(tlx.peer_pointer(arrived, peer, world) + me * programs + program, before + group // GROUP + 1, op="set")


@mimw.jit
def load_home(y, partials, own_places, targets, ring, full, free, ready, arrived, call, world, tokens, TOKENS: tl.constexpr,
              HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, BLOCK: tl.constexpr, BYTES: tl.constexpr,
              STAGES: tl.constexpr, GROUP: tl.constexpr, ROUNDS: tl.constexpr):
    """The own tokens' rows, and what the peers have put for them, when it is there."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    rounds = tl.cdiv(TOKENS, programs)
    before, n = (call - 1) * tl.cdiv(rounds, GROUP), 0
    ROWS: tl.constexpr = K + RANKS - 1
    tlx.barrier_wait(ready, 0)
    for group in range(0, rounds, GROUP):
        for step in range(1, size):
            tlx.wait_signal(arrived + (me + step) % size * programs + program, before + group // GROUP + 1)
        tlx.fence("sys")        # what came is read by copies
        for round in range(group, min(group + GROUP, rounds)):
            index, token, came = (me * ROUNDS + round) * WIDTH, program + round * programs, number(targets, round)
            if is_here(own_places, me, round, K, ROUNDS) | (came != 0):
                for first in range(0, HIDDEN, BLOCK):
                    slot = n % STAGES
                    tlx.barrier_wait(free[slot], ((n // STAGES) & 1) ^ 1)
                    load_rows(y, own_places, index, first, ring, slot, full, HIDDEN, K, ROWS, BLOCK * BYTES)
                    for step in range(1, size):
                        if (came >> ((me + step) % size)) & 1 == 0:
                            tlx.barrier_arrive(full[slot])
                        else:
                            tlx.barrier_expect_bytes(full[slot], BLOCK * BYTES)
                            row = ((step - 1) * TOKENS + token).to(tl.int64)
                            tlx.async_load(partials + row * HIDDEN + first, ring[slot * ROWS + K + step - 1], bulk=True,
                                           barrier=full[slot])
                    n += 1


@mimw.jit
def add_home(out, own_places, own_weights, targets, ring, full, free, world, tokens, HIDDEN: tl.constexpr, K: tl.constexpr,
             RANKS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr, ROUNDS: tl.constexpr):
    """The own tokens: their rows here, then what came from the next rank and so on."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    ROWS: tl.constexpr = K + RANKS - 1
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    n, column = 0, tl.arange(0, BLOCK)
    for token in range(program, tokens, programs):
        round = token // programs
        index, came = (me * ROUNDS + round) * WIDTH, number(targets, round)
        here = out + token.to(tl.int64) * HIDDEN
        if is_here(own_places, me, round, K, ROUNDS) | (came != 0):
            for first in range(0, HIDDEN, BLOCK):
                slot = n % STAGES
                tlx.barrier_wait(full[slot], (n // STAGES) & 1)
                sums = add_rows(own_places, own_weights, index, ring, slot, K, ROWS, BLOCK)
                for step in range(1, size):
                    if (came >> ((me + step) % size)) & 1 != 0:
                        sums += tlx.local_load(ring[slot * ROWS + K + step - 1]).to(tl.float32)
                tlx.barrier_arrive(free[slot])
                tl.store(here + first + column, sums.to(tlx.dtype_of(out)))
                n += 1
        else:
            for first in range(0, HIDDEN, BLOCK):
                tl.store(here + first + column, tl.zeros((BLOCK, ), tl.float32).to(tlx.dtype_of(out)))


@mimw.jit(do_not_specialize=["tokens"])
def combine_by_rings(y, places, ids, weights, out, all_weights, partials, told, arrived, calls, world, tokens,
                     TOKENS: tl.constexpr, HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr,
                     BLOCK: tl.constexpr,
                     BYTES: tl.constexpr, TELL: tl.constexpr, AWAY: tl.constexpr, HOME: tl.constexpr, GROUP: tl.constexpr,
                     ROUNDS: tl.constexpr, SLOTS: tl.constexpr):
    """As `combine`; BLOCK divides HIDDEN, and partials are of y's type, of BYTES each."""
    size, program, programs = tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    me, tellers = tlx.world_rank(world), tl.minimum(programs, tl.cdiv(TOKENS * K, TELL))
    call = tl.load(calls + program) + 1
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    away = tlx.local_alloc((BLOCK, ), tlx.dtype_of(y), AWAY * K)
    home = tlx.local_alloc((BLOCK, ), tlx.dtype_of(y), HOME * (K + RANKS - 1))
    away_full, away_free = tlx.alloc_barriers(AWAY, arrive_count=K), tlx.alloc_barriers(AWAY)
    home_full, home_free = tlx.alloc_barriers(HOME, arrive_count=K + RANKS - 1), tlx.alloc_barriers(HOME)
    ready = tlx.alloc_barriers(1)
    targets = tle.gpu.alloc([ROUNDS], tl.int32)
    own_places = tle.gpu.alloc([triton.next_power_of_2(RANKS) * ROUNDS * WIDTH], tl.int32)
    own_weights = tle.gpu.alloc([triton.next_power_of_2(RANKS) * ROUNDS * WIDTH], tl.float32)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=152):
            tell_weights(weights, all_weights, told, world, tokens, TOKENS, K, TELL)
            find_peers(ids, targets, world, tokens, K, RANKS, LOCAL, ROUNDS, SLOTS)
            for step in range(size):
                tlx.wait_signal(told + (me + step) % size, call * tellers)
            find_rows(places, all_weights, own_places, own_weights, TOKENS, K, RANKS, ROUNDS, SLOTS)
            tlx.barrier_arrive(ready)
            add_home(out, own_places, own_weights, targets, home, home_full, home_free, world, tokens, HIDDEN, K, RANKS, BLOCK,
                     HOME, ROUNDS)
        with tlx.async_task(num_warps=4, num_regs=152):
            add_away(partials, own_places, own_weights, away, away_full, away_free, ready, arrived, call, world, TOKENS, HIDDEN, K,
                     BLOCK, AWAY, GROUP, ROUNDS)
        with tlx.async_task(num_warps=1, num_regs=88):
            load_away(y, own_places, away, away_full, away_free, ready, world, TOKENS, HIDDEN, K, BLOCK, BYTES, AWAY, GROUP,
                      ROUNDS)
        with tlx.async_task(num_warps=1, num_regs=88):
            load_home(y, partials, own_places, targets, home, home_full, home_free, ready, arrived, call, world, tokens, TOKENS,
                      HIDDEN, K, RANKS, BLOCK, BYTES, HOME, GROUP, ROUNDS)
    tl.store(calls + program, call)
