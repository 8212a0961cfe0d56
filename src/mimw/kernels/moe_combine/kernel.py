"""Rows of experts back to the GPUs of their tokens, weighted and added: the second half of a mixture of experts over several GPUs.

Input: at each GPU the results for its experts, the places where choices of all tokens lie among them, and the weights of its own
tokens. Output: at each GPU a row for each of its tokens. For example:

    grid, args, meta = arguments(y, places, ids, weights, out, workspace, world, experts, sms)
    combine[grid](*args, **meta)                at every GPU

A GPU adds up what its experts have of a peer's token, in the order of the choices, in fp32, and puts one row for all of them into
`partials` at the peer: over NVLink goes a row for each token and GPU, not for each choice. The token's GPU adds its own experts'
rows, then what came, from the next rank on. So the same numbers give the same bits each time.

Roles, each of half of the programs: `push` keeps the link at work, `finish` what is left of the memory. A token has PARTS parts of
COLUMNS columns, and pusher p the parts p, p + pushers, ... of each rank, finisher p as many of this one: so what it finishes, the
pushers p of the peers have pushed, and told it. Signals count parts of all launches, in `calls` each program for itself. `partials`
are free when their owner has told its weights, since it does so in each launch, and its last one has ended then.
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..at_ranks import at_ranks


@mimw.jit
def tell_weights(weights, all_weights, told, pusher, world, tokens, TOKENS: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr,
                 PUSHERS: tl.constexpr, TELL: tl.constexpr):
    """The weights of this rank's tokens to all other ranks, by the first pushers."""
    me, there = tlx.world_rank(world), at_ranks(all_weights, 1, world, RANKS)
    for first in range(pusher * TELL, TOKENS * K, PUSHERS * TELL):
        at = first + tl.arange(0, TELL)
        weight = tl.load(weights + at, mask=at < tokens * K, other=0.0).to(tl.float32)
        for step in tl.static_range(1, RANKS):
            tl.store(there[step - 1] + me * (TOKENS * K) + at, weight, mask=at < TOKENS * K)
    if pusher * TELL < TOKENS * K:
        for step in tl.static_range(1, RANKS):
            tlx.signal(tlx.peer_pointer(told, (me + step) % RANKS, world) + me)


@mimw.jit
def choices_of(places, weights, K: tl.constexpr):
    """The places and weights of a token's choices; `places` and `weights` are those of the first."""
    rows, factors = (), ()
    for j in tl.static_range(K):
        place = tl.load(places + j)
        rows, factors = rows + (place, ), factors + (tl.where(place >= 0, tl.load(weights + j).to(tl.float32), 0.0), )
    return rows, factors


@mimw.jit
def of_own_experts(y, rows, factors, at, HIDDEN: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """Columns `at` of the weighted sum of what this rank's experts have of a token, in the order of its choices."""
    sums = tl.zeros((BLOCK, ), tl.float32)
    for j in tl.static_range(K):
        row = tl.load(y + rows[j].to(tl.int64) * HIDDEN + at, mask=(at < HIDDEN) & (rows[j] >= 0), other=0.0).to(tl.float32)
        sums += factors[j] * row
    return sums


@mimw.jit
def push(y, places, weights, all_weights, partials, told, arrived, pusher, call, world, tokens, TOKENS: tl.constexpr,
         HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, BLOCK: tl.constexpr, TELL: tl.constexpr, PARTS: tl.constexpr,
         COLUMNS: tl.constexpr, PUSHERS: tl.constexpr):
    """What this rank's experts have of each other rank's tokens, to that rank, with a signal for each part."""
    me = tlx.world_rank(world)
    there, arrived_there = at_ranks(partials, 1, world, RANKS), at_ranks(arrived + me * PUSHERS + pusher, 1, world, RANKS)
    tell_weights(weights, all_weights, told, pusher, world, tokens, TOKENS, K, RANKS, PUSHERS, TELL)
    for step in tl.static_range(1, RANKS):
        tlx.wait_signal(told + (me + step) % RANKS, call * min(PUSHERS, tl.cdiv(TOKENS * K, TELL)))
    count, j = (call - 1) * tl.cdiv(TOKENS * PARTS, PUSHERS) + 1, tl.arange(0, triton.next_power_of_2(K))
    for item in range(pusher, TOKENS * PARTS, PUSHERS):
        token, begin = item // PARTS, item % PARTS * COLUMNS
        for step in tl.static_range(1, RANKS):
            slot = ((me + step) % RANKS * TOKENS + token) * K
            if tl.max(tl.load(places + slot + j, mask=j < K, other=-1)) >= 0:
                rows, factors = choices_of(places + slot, all_weights + slot, K)
                row = there[step - 1] + ((RANKS - step - 1) * TOKENS + token).to(tl.int64) * HIDDEN
                for first in range(begin, tl.minimum(begin + COLUMNS, HIDDEN), BLOCK):
                    at = first + tl.arange(0, BLOCK)
                    sums = of_own_experts(y, rows, factors, at, HIDDEN, K, BLOCK)
                    tl.store(row + at, sums.to(tlx.dtype_of(partials)), mask=at < HIDDEN)
                tlx.signal(arrived_there[step - 1], count, op="set")
        count += 1


@mimw.jit
def finish(y, places, ids, weights, partials, out, arrived, finisher, call, world, tokens, TOKENS: tl.constexpr,
           HIDDEN: tl.constexpr, K: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
           COLUMNS: tl.constexpr, FINISHERS: tl.constexpr):
    """The rows of this rank's tokens: what its experts have of them, and what comes from the other ranks that have some."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    count, j = (call - 1) * tl.cdiv(TOKENS * PARTS, FINISHERS) + 1, tl.arange(0, triton.next_power_of_2(K))
    for item in range(finisher, tokens * PARTS, FINISHERS):
        token, begin = item // PARTS, item % PARTS * COLUMNS
        slot = token.to(tl.int64) * K
        expert = tl.load(ids + slot + j, mask=j < K, other=-1).to(tl.int32)
        for step in range(1, size):
            peer = (me + step) % size
            if tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32)) > 0:
                tlx.wait_signal(arrived + peer * FINISHERS + finisher, count)
        rows, factors = choices_of(places + me * (TOKENS * K) + slot, weights + slot, K)
        for first in range(begin, tl.minimum(begin + COLUMNS, HIDDEN), BLOCK):
            at = first + tl.arange(0, BLOCK)
            sums = of_own_experts(y, rows, factors, at, HIDDEN, K, BLOCK)
            for step in range(1, size):
                peer = (me + step) % size
                came = tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32)) > 0
                here = partials + ((step - 1) * TOKENS + token).to(tl.int64) * HIDDEN
                sums += tl.load(here + at, mask=(at < HIDDEN) & came, other=0.0).to(tl.float32)
            tl.store(out + token.to(tl.int64) * HIDDEN + at, sums.to(tlx.dtype_of(out)), mask=at < HIDDEN)
        count += 1


@mimw.jit
def one_role(y, places, ids, weights, out, all_weights, partials, told, arrived, calls, program, world, tokens,
             TOKENS: tl.constexpr, HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr,
             BLOCK: tl.constexpr, TELL: tl.constexpr, PARTS: tl.constexpr, COLUMNS: tl.constexpr, HALF: tl.constexpr):
    """Number `program` of 2 HALF: it finishes, or pushes."""
    call = tl.load(calls + program) + 1
    if program < HALF:
        finish(y, places, ids, weights, partials, out, arrived, program, call, world, tokens, TOKENS, HIDDEN, K, LOCAL, BLOCK,
               PARTS, COLUMNS, HALF)
    else:
        push(y, places, weights, all_weights, partials, told, arrived, program - HALF, call, world, tokens, TOKENS, HIDDEN, K,
             RANKS, BLOCK, TELL, PARTS, COLUMNS, HALF)
    tl.store(calls + program, call)


@mimw.jit(do_not_specialize=["tokens"])
def combine(y, places, ids, weights, out, all_weights, partials, told, arrived, calls, world, tokens, TOKENS: tl.constexpr,
            HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr,
            TELL: tl.constexpr, PARTS: tl.constexpr, COLUMNS: tl.constexpr, HALF: tl.constexpr, TASKS: tl.constexpr = 1):
    """out[t] = the sum over j of weights[t, j] times the row of y, at the rank of expert ids[t, j], that choice (t, j) lies in.

    places              (ranks, TOKENS, K) int32: the row of y of each choice of each rank, or -1
    all_weights         symmetric, (ranks, TOKENS, K) fp32; partials  symmetric, (ranks - 1, TOKENS, HIDDEN); both may hold anything
    told                symmetric, int64, a word for each rank; arrived  a word for each rank and pusher
    calls               int64, a word for each of 2 HALF programs, of this rank alone. All words are 0 before the first launch, and
                        are left to launches of the same sizes and grid, which follow each other
    TASKS               of a program, each of which does what else a program does: so a multiprocessor has one program of all its
                        threads, and where it is, there is no other launch's
    """
    if TASKS == 1:
        one_role(y, places, ids, weights, out, all_weights, partials, told, arrived, calls, tl.program_id(0), world, tokens, TOKENS,
                 HIDDEN, K, RANKS, LOCAL, BLOCK, TELL, PARTS, COLUMNS, HALF)
    else:
        with tlx.async_tasks():
            with tlx.async_task("default", replicate=TASKS):
                number = tl.program_id(0) + tlx.async_task_replica_id() * tl.num_programs(0)
                one_role(y, places, ids, weights, out, all_weights, partials, told, arrived, calls, number, world, tokens, TOKENS,
                         HIDDEN, K, RANKS, LOCAL, BLOCK, TELL, PARTS, COLUMNS, HALF)
