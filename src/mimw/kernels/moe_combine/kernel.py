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
pushers p of the peers have pushed, and signalled. Signals count parts of all launches, in `calls` each program for itself.
`partials` are free when their owner has sent its weights, since it does so in each launch, and its last one has ended then.
"""

from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..at_ranks import at_ranks


@tle.struct
class Operands:
    """Arrays of this rank alone: what its experts have made, the places of all tokens' choices in it, its tokens' experts and
    weights, and their rows."""
    y: tl.tensor
    places: tl.tensor
    ids: tl.tensor
    weights: tl.tensor
    out: tl.tensor


@tle.struct
class Board:
    """Symmetric arrays: the weights of all ranks, sums on their way, and the words that count the signals for either."""
    weights: tl.tensor
    partials: tl.tensor
    signals: tl.tensor
    arrived: tl.tensor


@tle.struct
class Job:
    """`tokens` of this rank, of TOKENS at most, with K experts each, of LOCAL at each of RANKS; rows of HIDDEN columns in PARTS of
    COLUMNS, BLOCK at a time. HALF programs have either role; one sends TELL weights at a time."""
    world: Any
    tokens: Any
    TOKENS: tl.constexpr
    HIDDEN: tl.constexpr
    K: tl.constexpr
    RANKS: tl.constexpr
    LOCAL: tl.constexpr
    BLOCK: tl.constexpr
    TELL: tl.constexpr
    PARTS: tl.constexpr
    COLUMNS: tl.constexpr
    HALF: tl.constexpr


@tle.struct
class Choices:
    """Tuples with the rows of a token's choices, and their weights."""
    rows: tl.tuple
    factors: tl.tuple


@mimw.jit
def send_weights(weights, board, pusher, job):
    """The weights of this rank's tokens to all other ranks, by the first pushers."""
    RANKS: tl.constexpr = job.RANKS
    ALL: tl.constexpr = job.TOKENS * job.K
    me, there = tlx.world_rank(job.world), at_ranks(board.weights, 1, job.world, RANKS)
    for first in range(pusher * job.TELL, ALL, job.HALF * job.TELL):
        at = first + tl.arange(0, job.TELL)
        weight = tl.load(weights + at, mask=at < job.tokens * job.K, other=0.0).to(tl.float32)
        for step in tl.static_range(1, RANKS):
            tl.store(there[step - 1] + me * ALL + at, weight, mask=at < ALL)
    if pusher * job.TELL < ALL:
        for step in tl.static_range(1, RANKS):
            tlx.signal(tlx.peer_pointer(board.signals, (me + step) % RANKS, job.world) + me)


@mimw.jit
def choices_of(places, weights, K: tl.constexpr):
    """The choices of a token; `places` and `weights` are those of the first."""
    rows, factors = (), ()
    for j in tl.static_range(K):
        place = tl.load(places + j)
        rows, factors = rows + (place, ), factors + (tl.where(place >= 0, tl.load(weights + j).to(tl.float32), 0.0), )
    return Choices(rows, factors)


@mimw.jit
def of_own_experts(y, choices, at, job):
    """Columns `at` of the weighted sum of what this rank's experts have of a token, in the order of its choices."""
    rows, factors = choices.rows, choices.factors
    sums = tl.zeros((job.BLOCK, ), tl.float32)
    for j in tl.static_range(job.K):
        row = tl.load(y + rows[j].to(tl.int64) * job.HIDDEN + at, mask=(at < job.HIDDEN) & (rows[j] >= 0), other=0.0).to(tl.float32)
        sums += factors[j] * row
    return sums


@mimw.jit
def push(operands, board, pusher, call, job):
    """Send each other rank what this rank's experts have of its tokens, with a signal for each part."""
    RANKS: tl.constexpr = job.RANKS
    TOKENS: tl.constexpr = job.TOKENS
    PARTS: tl.constexpr = job.PARTS
    HIDDEN: tl.constexpr = job.HIDDEN
    K: tl.constexpr = job.K
    places, world, partials = operands.places, job.world, board.partials
    me = tlx.world_rank(world)
    there, arrived_there = at_ranks(partials, 1, world, RANKS), at_ranks(board.arrived + me * job.HALF + pusher, 1, world, RANKS)
    send_weights(operands.weights, board, pusher, job)
    for step in tl.static_range(1, RANKS):
        tlx.wait_signal(board.signals + (me + step) % RANKS, call * min(job.HALF, tl.cdiv(TOKENS * K, job.TELL)))
    count, j = (call - 1) * tl.cdiv(TOKENS * PARTS, job.HALF) + 1, tl.arange(0, triton.next_power_of_2(K))
    for item in range(pusher, TOKENS * PARTS, job.HALF):
        token, begin = item // PARTS, item % PARTS * job.COLUMNS
        for step in tl.static_range(1, RANKS):
            slot = ((me + step) % RANKS * TOKENS + token) * K
            if tl.max(tl.load(places + slot + j, mask=j < K, other=-1)) >= 0:
                choices = choices_of(places + slot, board.weights + slot, K)
                row = there[step - 1] + ((RANKS - step - 1) * TOKENS + token).to(tl.int64) * HIDDEN
                for first in range(begin, tl.minimum(begin + job.COLUMNS, HIDDEN), job.BLOCK):
                    at = first + tl.arange(0, job.BLOCK)
                    sums = of_own_experts(operands.y, choices, at, job)
                    tl.store(row + at, sums.to(tlx.dtype_of(partials)), mask=at < HIDDEN)
                tlx.signal(arrived_there[step - 1], count, op="set")
        count += 1


@mimw.jit
def finish(operands, board, finisher, call, job):
    """The rows of this rank's tokens: what its experts have of them, and what comes from the other ranks that have some."""
    TOKENS: tl.constexpr = job.TOKENS
    PARTS: tl.constexpr = job.PARTS
    HIDDEN: tl.constexpr = job.HIDDEN
    LOCAL: tl.constexpr = job.LOCAL
    K: tl.constexpr = job.K
    me, size = tlx.world_rank(job.world), tlx.world_size(job.world)
    count, j = (call - 1) * tl.cdiv(TOKENS * PARTS, job.HALF) + 1, tl.arange(0, triton.next_power_of_2(K))
    for item in range(finisher, job.tokens * PARTS, job.HALF):
        token, begin = item // PARTS, item % PARTS * job.COLUMNS
        slot = token.to(tl.int64) * K
        expert = tl.load(operands.ids + slot + j, mask=j < K, other=-1).to(tl.int32)
        for step in range(1, size):
            peer = (me + step) % size
            if tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32)) > 0:
                tlx.wait_signal(board.arrived + peer * job.HALF + finisher, count)
        choices = choices_of(operands.places + me * (TOKENS * K) + slot, operands.weights + slot, K)
        for first in range(begin, tl.minimum(begin + job.COLUMNS, HIDDEN), job.BLOCK):
            at = first + tl.arange(0, job.BLOCK)
            sums = of_own_experts(operands.y, choices, at, job)
            for step in range(1, size):
                peer = (me + step) % size
                came = tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32)) > 0
                here = board.partials + ((step - 1) * TOKENS + token).to(tl.int64) * HIDDEN
                sums += tl.load(here + at, mask=(at < HIDDEN) & came, other=0.0).to(tl.float32)
            tl.store(operands.out + token.to(tl.int64) * HIDDEN + at, sums.to(tlx.dtype_of(operands.out)), mask=at < HIDDEN)
        count += 1


@mimw.jit
def one_role(operands, board, calls, program, job):
    """Number `program` of 2 HALF: it finishes, or pushes."""
    call = tl.load(calls + program) + 1
    if program < job.HALF:
        finish(operands, board, program, call, job)
    else:
        push(operands, board, program - job.HALF, call, job)
    tl.store(calls + program, call)


@mimw.jit(do_not_specialize=["tokens"])
def combine(y, places, ids, weights, out, all_weights, partials, announced, arrived, calls, world, tokens, TOKENS: tl.constexpr,
            HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr,
            TELL: tl.constexpr, PARTS: tl.constexpr, COLUMNS: tl.constexpr, HALF: tl.constexpr, TASKS: tl.constexpr = 1):
    """out[t] = the sum over j of weights[t, j] times the row of y, at the rank of expert ids[t, j], that choice (t, j) lies in.

    places              (ranks, TOKENS, K) int32: the row of y of each choice of each rank, or -1
    all_weights         symmetric, (ranks, TOKENS, K) fp32; partials  symmetric, (ranks - 1, TOKENS, HIDDEN); both may hold anything
    announced           symmetric, int64, a word for each rank; arrived  a word for each rank and pusher
    calls               int64, a word for each of 2 HALF programs, of this rank alone. All words are 0 before the first launch, and
                        are left to launches of the same sizes and grid, which follow each other
    TASKS               of a program, each of which does what else a program does: so a multiprocessor has one program of all its
                        threads, and where it is, there is no other launch's
    """
    operands, board = Operands(y, places, ids, weights, out), Board(all_weights, partials, announced, arrived)
    job = Job(world, tokens, TOKENS, HIDDEN, K, RANKS, LOCAL, BLOCK, TELL, PARTS, COLUMNS, HALF)
    if TASKS == 1:
        one_role(operands, board, calls, tl.program_id(0), job)
    else:
        with tlx.async_tasks():
            with tlx.async_task("default", replicate=TASKS):
                number = tl.program_id(0) + tlx.async_task_replica_id() * tl.num_programs(0)
                one_role(operands, board, calls, number, job)
