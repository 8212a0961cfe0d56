"""Rows of experts back to the GPUs of their tokens, weighted and added: the second half of a mixture of experts over several GPUs.

Input: at each GPU the results for its experts, the places where choices of all tokens lie among them, and the weights of its own
tokens. Output: at each GPU a row for each of its tokens. For example:

    grid, args, meta = arguments(y, places, ids, weights, out, workspace, world, experts, sms)
    combine[grid](*args, **meta)                at every GPU

A GPU adds up what its experts have of a peer's token, in the order of the choices, in fp32, and puts one row for all of them into
`partials` at the peer: over NVLink goes a row for each token and GPU, not for each choice. The token's GPU adds its own experts'
rows, then what came, from the next rank on. So the same numbers give the same bits each time.

Nouns: a ring of rows in shared memory and one of sums that leave, tables of what is whose (tables.py). Roles: `load` brings rows,
each by one bulk copy; the first task makes the tables, then adds rows up as they come; `put` takes sums to the peers, by bulk
copies.

Program p has the tokens p, p + programs, ... of each rank. Of each round all sum up first what the peers wait for, then finish own
tokens of LAG rounds before, of which the like programs of the peers have told: a signal follows a sum when the next one is on its
way, since by then it has arrived. Signals count rounds of all launches, in `calls` each program for itself. `partials` are free
when their owner has told its weights, since it does so in each launch, and its last one has ended then.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..moe_dispatch.announce import find_peers
from ..moe_dispatch.kernel import number
from .tables import find_rows, hear_weights, is_here, tell_weights


@mimw.jit
def fill(row, ring, full, free, n, HIDDEN: tl.constexpr, STAGES: tl.constexpr):
    """Start copying a row into slot n of the ring, when that is free."""
    BYTES: tl.constexpr = HIDDEN * tlx.size_of(tlx.dtype_of(row))
    slot = n % STAGES
    tlx.barrier_wait(free[slot], ((n // STAGES) & 1) ^ 1)
    tlx.barrier_expect_bytes(full[slot], BYTES)
    tlx.async_load(row, ring[slot], bulk=True, bulk_size=BYTES, barrier=full[slot])


@mimw.jit
def load(y, partials, own_places, targets, ring, full, free, placed, arrived, before, world, TOKENS: tl.constexpr,
         HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, ROUNDS: tl.constexpr, STAGES: tl.constexpr, LAG: tl.constexpr):
    """The rows of all sums, one after the other, into the ring."""
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    rounds, n = tl.cdiv(TOKENS, programs), 0
    tlx.barrier_wait(placed, 0)
    for turn in range(rounds + LAG):
        for step in range(1, RANKS + 1):        # the own rank last
            rank = (me + step) % RANKS
            round = turn - LAG if step == RANKS else turn
            if (round >= 0) & (round < rounds):
                for j in range(K):
                    place = number(own_places, (rank * ROUNDS + round) * WIDTH + j).to(tl.int64)
                    if place >= 0:
                        fill(y + place * HIDDEN, ring, full, free, n, HIDDEN, STAGES)
                        n += 1
                if step == RANKS:
                    for other in range(1, RANKS):
                        peer = (me + other) % RANKS
                        if (number(targets, round) >> peer) & 1 != 0:
                            tlx.wait_signal(arrived + peer * programs + program, before + round + 1)
                            at = ((other - 1) * TOKENS + program + round * programs).to(tl.int64)
                            fill(partials + at * HIDDEN, ring, full, free, n, HIDDEN, STAGES)
                            n += 1


@mimw.jit
def plus_row(sums, weight, ring, full, free, n, STAGES: tl.constexpr):
    """The sums and `weight` times what slot n of the ring has."""
    slot = n % STAGES
    tlx.barrier_wait(full[slot], (n // STAGES) & 1)
    sums += weight * tlx.local_load(ring[slot]).to(tl.float32)
    tlx.barrier_arrive(free[slot])
    return sums


@mimw.jit
def add_up(out, own_places, own_weights, targets, ring, full, free, leaving, leaves, left, world, tokens, TOKENS: tl.constexpr,
           HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, ROUNDS: tl.constexpr, STAGES: tl.constexpr,
           OUT: tl.constexpr, LAG: tl.constexpr):
    """All sums: those for other ranks into the ring of what leaves, own ones to `out`."""
    ROW: tl.constexpr = triton.next_power_of_2(HIDDEN)
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    rounds, n, gone, at = tl.cdiv(TOKENS, programs), 0, 0, tl.arange(0, ROW)
    for turn in range(rounds + LAG):
        for step in range(1, RANKS + 1):
            rank = (me + step) % RANKS
            round = turn - LAG if step == RANKS else turn
            token = program + round * programs
            if (round >= 0) & (round < rounds):
                sums = tl.zeros((ROW, ), tl.float32)
                for j in range(K):
                    slot = (rank * ROUNDS + round) * WIDTH + j
                    if number(own_places, slot) >= 0:
                        sums = plus_row(sums, number(own_weights, slot), ring, full, free, n, STAGES)
                        n += 1
                if step == RANKS:
                    for other in range(1, RANKS):
                        if (number(targets, round) >> ((me + other) % RANKS)) & 1 != 0:
                            sums = plus_row(sums, 1.0, ring, full, free, n, STAGES)
                            n += 1
                    if token < tokens:
                        tl.store(out + token.to(tl.int64) * HIDDEN + at, sums.to(tlx.dtype_of(out)), mask=at < HIDDEN)
                elif is_here(own_places, rank, round, K, ROUNDS):
                    tlx.barrier_wait(left[gone % OUT], ((gone // OUT) & 1) ^ 1)
                    tlx.local_store(leaving[gone % OUT], sums.to(tlx.dtype_of(out)))
                    tlx.fence("async_shared")
                    tlx.barrier_arrive(leaves[gone % OUT])
                    gone += 1


@mimw.jit
def tell_peer(arrived, left, gone, peer, count, world, OUT: tl.constexpr):
    """The sum before number `gone` is at its rank: its slot is free, and that rank is told."""
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    tlx.barrier_arrive(left[(gone - 1) % OUT])
    tlx.signal(tlx.peer_pointer(arrived, peer, world) + me * programs + program, count, op="set")


@mimw.jit
def put(partials, own_places, leaving, leaves, left, placed, arrived, before, world, TOKENS: tl.constexpr, HIDDEN: tl.constexpr,
        K: tl.constexpr, RANKS: tl.constexpr, ROUNDS: tl.constexpr, OUT: tl.constexpr):
    """Sums from the ring to their ranks; each is told of one when the next is on its way, or there is none to send."""
    BYTES: tl.constexpr = HIDDEN * tlx.size_of(tlx.dtype_of(partials))
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    gone, told, count = 0, me, before * 0
    tlx.barrier_wait(placed, 0)
    for round in range(tl.cdiv(TOKENS, programs)):
        for step in range(1, RANKS):
            peer = (me + step) % RANKS
            if is_here(own_places, peer, round, K, ROUNDS):
                tlx.barrier_wait(leaves[gone % OUT], (gone // OUT) & 1)
                at = ((RANKS - step - 1) * TOKENS + program + round * programs).to(tl.int64)
                tlx.async_store(tlx.peer_pointer(partials, peer, world) + at * HIDDEN, leaving[gone % OUT], BYTES)
                if told != me:
                    tlx.async_descriptor_store_wait(1)
                    tell_peer(arrived, left, gone, told, count, world, OUT)
                gone += 1
                told, count = peer, before + round + 1
            elif told != me:
                tlx.async_descriptor_store_wait(0)
                tell_peer(arrived, left, gone, told, count, world, OUT)
                told = me
    if told != me:
        tlx.async_descriptor_store_wait(0)
        tell_peer(arrived, left, gone, told, count, world, OUT)


@mimw.jit(do_not_specialize=["tokens"])
def combine(y, places, ids, weights, out, all_weights, partials, told, arrived, calls, world, tokens, TOKENS: tl.constexpr,
            HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr, TELL: tl.constexpr,
            STAGES: tl.constexpr, OUT: tl.constexpr, LAG: tl.constexpr, ROUNDS: tl.constexpr, SLOTS: tl.constexpr):
    """out[t] = the sum over j of weights[t, j] times the row of y, at the rank of expert ids[t, j], that choice (t, j) lies in.

    places              (RANKS, TOKENS, K) int32: the row of y of each choice of each rank, or -1
    all_weights         symmetric, (RANKS, TOKENS, K) fp32; partials  symmetric, (RANKS - 1, TOKENS, HIDDEN); both may hold anything
    told                symmetric, int64, a word for each rank; arrived  a word for each rank and program
    calls               int64, a word for each program, of this rank alone. All words are 0 before the first launch, and are left to
                        launches of the same sizes and grid, which follow each other
    """
    ROW: tl.constexpr = triton.next_power_of_2(HIDDEN)
    TABLE: tl.constexpr = triton.next_power_of_2(RANKS) * ROUNDS * triton.next_power_of_2(K)
    program = tl.program_id(0)
    call = tl.load(calls + program) + 1
    before = (call - 1) * tl.cdiv(TOKENS, tl.num_programs(0))
    ring, leaving = tlx.local_alloc((ROW, ), tlx.dtype_of(y), STAGES), tlx.local_alloc((ROW, ), tlx.dtype_of(y), OUT)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    leaves, left, placed = tlx.alloc_barriers(OUT), tlx.alloc_barriers(OUT), tlx.alloc_barriers(1)
    targets, own_places, own_weights = (tle.gpu.alloc([ROUNDS], tl.int32), tle.gpu.alloc([TABLE], tl.int32),
                                        tle.gpu.alloc([TABLE], tl.float32))
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if ROW != HIDDEN:       # what is behind a row's end is added up as well
                for slot in tl.static_range(STAGES):
                    tlx.local_store(ring[slot], tl.zeros((ROW, ), tlx.dtype_of(y)))
                tlx.fence("async_shared")
            find_rows(places, own_places, TOKENS, K, RANKS, ROUNDS, SLOTS)
            find_peers(ids, targets, world, tokens, K, RANKS, LOCAL, ROUNDS, SLOTS)
            tlx.barrier_arrive(placed)
            tell_weights(weights, all_weights, told, world, tokens, TOKENS, K, RANKS, TELL)
            hear_weights(weights, all_weights, told, own_weights, call, world, tokens, TOKENS, K, RANKS, TELL, ROUNDS, SLOTS)
            add_up(out, own_places, own_weights, targets, ring, full, free, leaving, leaves, left, world, tokens, TOKENS, HIDDEN, K,
                   RANKS, ROUNDS, STAGES, OUT, LAG)
        with tlx.async_task(num_warps=1):
            load(y, partials, own_places, targets, ring, full, free, placed, arrived, before, world, TOKENS, HIDDEN, K, RANKS,
                 ROUNDS, STAGES, LAG)
        with tlx.async_task(num_warps=1):
            put(partials, own_places, leaving, leaves, left, placed, arrived, before, world, TOKENS, HIDDEN, K, RANKS, ROUNDS, OUT)
    tl.store(calls + program, call)
