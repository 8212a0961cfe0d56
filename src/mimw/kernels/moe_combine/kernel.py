"""Rows of experts back to the GPUs of their tokens, weighted and added: the second half of a mixture of experts over several GPUs.

Input: at each GPU the results for its experts, the places where choices of all tokens lie among them, and the weights of its own
tokens. Output: at each GPU a row for each of its tokens. For example:

    grid, args, meta = arguments(y, places, ids, weights, out, workspace, world, experts, sms)
    combine[grid](*args, **meta)                at every GPU

A GPU adds up what its experts have of a peer's token, in the order of the choices, in fp32, and puts one row for all of them into
`partials` at the peer: over NVLink goes a row for each token and GPU, not for each choice. The token's GPU adds its own experts'
rows, then what came, from the next rank on. So the same numbers give the same bits each time.

Program p has the tokens p, p + programs, ... of each rank: it puts the peers' rows of a round, then finishes its own tokens of LAG
rounds before, of which the like programs of the peers have told it. Signals count rounds of all launches, in `calls` each program
for itself. `partials` are free when their owner has told its weights, since it does so in each launch, and its last one has ended
then.
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def tell_weights(weights, all_weights, told, world, tokens, TOKENS: tl.constexpr, K: tl.constexpr, TELL: tl.constexpr):
    """The weights of this rank's tokens to all ranks, by the first programs."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    program, programs = tl.program_id(0), tl.num_programs(0)
    for first in range(program * TELL, TOKENS * K, programs * TELL):
        at = first + tl.arange(0, TELL)
        weight = tl.load(weights + at, mask=at < tokens * K, other=0.0).to(tl.float32)
        for step in range(size):
            there = tlx.peer_pointer(all_weights, (me + step) % size, world)
            tl.store(there + me * (TOKENS * K) + at, weight, mask=at < TOKENS * K)
    if program * TELL < TOKENS * K:
        for step in range(size):
            tlx.signal(tlx.peer_pointer(told, (me + step) % size, world) + me)


@mimw.jit
def of_own_experts(y, places, all_weights, slot, at, HIDDEN: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """Columns `at` of the weighted sum of what this rank's experts have of a token whose choices begin at `slot`, in order."""
    sums = tl.zeros((BLOCK, ), tl.float32)
    for j in tl.static_range(K):
        place = tl.load(places + slot + j)
        row = tl.load(y + place.to(tl.int64) * HIDDEN + at, mask=(at < HIDDEN) & (place >= 0), other=0.0).to(tl.float32)
        weight = tl.load(all_weights + slot + j)
        sums += tl.where(place >= 0, weight, 0.0) * row
    return sums


@mimw.jit
def push(y, places, all_weights, partials, arrived, round, before, token, world, TOKENS: tl.constexpr, HIDDEN: tl.constexpr,
         K: tl.constexpr, BLOCK: tl.constexpr):
    """What this rank's experts have of the token of that number of each other rank, to that rank, and a signal."""
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    j = tl.arange(0, triton.next_power_of_2(K))
    for step in range(1, size):
        peer = (me + step) % size
        slot = (peer * TOKENS + token) * K
        if tl.max(tl.load(places + slot + j, mask=j < K, other=-1)) >= 0:
            there = tlx.peer_pointer(partials, peer, world) + ((size - step - 1) * TOKENS + token).to(tl.int64) * HIDDEN
            for first in range(0, HIDDEN, BLOCK):
                at = first + tl.arange(0, BLOCK)
                sums = of_own_experts(y, places, all_weights, slot, at, HIDDEN, K, BLOCK)
                tl.store(there + at, sums.to(tlx.dtype_of(partials)), mask=at < HIDDEN)
            tlx.signal(tlx.peer_pointer(arrived, peer, world) + me * programs + program, before + round + 1, op="set")


@mimw.jit
def finish(y, places, ids, all_weights, partials, out, arrived, round, before, token, world, TOKENS: tl.constexpr,
           HIDDEN: tl.constexpr, K: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr):
    """The row of an own token: what its experts have here, and what came from the other ranks that have some."""
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    j, slot = tl.arange(0, triton.next_power_of_2(K)), (me * TOKENS + token) * K
    expert = tl.load(ids + token.to(tl.int64) * K + j, mask=j < K, other=-1).to(tl.int32)
    for step in range(1, size):
        peer = (me + step) % size
        if tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32)) > 0:
            tlx.wait_signal(arrived + peer * programs + program, before + round + 1)
    for first in range(0, HIDDEN, BLOCK):
        at = first + tl.arange(0, BLOCK)
        sums = of_own_experts(y, places, all_weights, slot, at, HIDDEN, K, BLOCK)
        for step in range(1, size):
            peer = (me + step) % size
            came = tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32)) > 0
            here = partials + ((step - 1) * TOKENS + token).to(tl.int64) * HIDDEN
            sums += tl.load(here + at, mask=(at < HIDDEN) & came, other=0.0).to(tl.float32)
        tl.store(out + token.to(tl.int64) * HIDDEN + at, sums.to(tlx.dtype_of(out)), mask=at < HIDDEN)


@mimw.jit(do_not_specialize=["tokens"])
def combine(y, places, ids, weights, out, all_weights, partials, told, arrived, calls, world, tokens, TOKENS: tl.constexpr,
            HIDDEN: tl.constexpr, K: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr, TELL: tl.constexpr,
            LAG: tl.constexpr):
    """out[t] = the sum over j of weights[t, j] times the row of y, at the rank of expert ids[t, j], that choice (t, j) lies in.

    places              (ranks, TOKENS, K) int32: the row of y of each choice of each rank, or -1
    all_weights         symmetric, (ranks, TOKENS, K) fp32; partials  symmetric, (ranks - 1, TOKENS, HIDDEN); both may hold anything
    told                symmetric, int64, a word for each rank; arrived  a word for each rank and program
    calls               int64, a word for each program, of this rank alone. All words are 0 before the first launch, and are left to
                        launches of the same sizes and grid, which follow each other
    """
    size, program, programs = tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    me, rounds, tellers = tlx.world_rank(world), tl.cdiv(TOKENS, programs), tl.minimum(programs, tl.cdiv(TOKENS * K, TELL))
    call = tl.load(calls + program) + 1
    before = (call - 1) * rounds
    tell_weights(weights, all_weights, told, world, tokens, TOKENS, K, TELL)
    for step in range(size):
        tlx.wait_signal(told + (me + step) % size, call * tellers)
    for round in range(rounds + LAG):
        token = program + round * programs
        if token < TOKENS:
            push(y, places, all_weights, partials, arrived, round, before, token, world, TOKENS, HIDDEN, K, BLOCK)
        token -= LAG * programs
        if (token >= 0) & (token < tokens):
            finish(y, places, ids, all_weights, partials, out, arrived, round - LAG, before, token, world, TOKENS, HIDDEN, K, LOCAL,
                   BLOCK)
    tl.store(calls + program, call)
