"""Rows of experts back to the GPUs of their tokens, weighted and added: the second half of a mixture of experts over several GPUs.

Input: at each GPU the results for its experts, the places where choices of all tokens lie among them, and the weights of its own
tokens. Output: at each GPU a row for each of its tokens. For example:

    grid, args, meta = arguments(y, places, ids, weights, out, workspace, world, experts, sms)
    combine[grid](*args, **meta)                at every GPU

A GPU adds up what its experts have of a peer's token, in the order of the choices, in fp32, and puts one row for all of them into
`partials` at the peer: over NVLink goes a row for each token and GPU, not for each choice. The token's GPU adds its own experts'
rows, then what came, from the next rank on. So the same numbers give the same bits each time.

Roles: `push` keeps the link at work, `finish` what is left of the memory. Half of the programs have either; where tokens are few
(ROLES = 1) each program pushes, then finishes. A token has PARTS parts of COLUMNS columns, and pusher p the parts p, p + pushers,
... of each rank, finisher p as many of this one: so what it finishes, the pushers p of the peers have pushed, and signalled.
Signals count parts of all launches, in `calls` each program for itself.

Weights of all ranks came with the dispatch (CAME), or each rank sends its own to all others first.

Sums are TOLD of by signals, each behind a fence that waits for what is on its way. Or they are words that say so themselves
(words.py), so that no signal is sent for them: few are sooner there, as the way is one store long.

When `partials` are free: launch n writes half n % GENERATIONS of them at a peer. That half was read there last in launch
n - GENERATIONS, which has ended when the peer has begun n - GENERATIONS + 1. So each rank tells all others that it has begun, and
a pusher waits for that before its first store to a peer. With two generations it is the launch before this one, which the peer has
begun long ago, and nobody waits for a signal of this launch but for rows. Who sends weights says with them that it has begun. The
words that count only grow, and weights that came are written by nobody until this rank has begun the next dispatch.
"""

from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..at_ranks import at_ranks
from .words import packed, put_words, take_words, unpacked


@tle.struct
class Operands:
    """Arrays of this rank alone: what its experts have made, the places of all tokens' choices in it, its tokens' experts, and
    their rows; weights of its tokens, or those of all ranks, (RANKS, TOKENS, K), if they CAME."""
    y: tl.tensor
    places: tl.tensor
    ids: tl.tensor
    weights: tl.tensor
    out: tl.tensor


@tle.struct
class Board:
    """Symmetric arrays: the weights of all ranks where they are sent, sums on their way, and the words that count the signals: of
    weights or launches begun, and of sums."""
    weights: tl.tensor
    partials: tl.tensor
    signals: tl.tensor
    arrived: tl.tensor


@tle.struct
class Job:
    """`tokens` of this rank, of TOKENS at most, with K experts each, of LOCAL at each of RANKS; rows of HIDDEN columns in PARTS of
    COLUMNS, BLOCK at a time. HALF programs have either role; one sends TELL weights at a time, unless they CAME. There are
    GENERATIONS of partials, of which the owner is TOLD by signals, or which are words that say so themselves."""
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
    CAME: tl.constexpr
    GENERATIONS: tl.constexpr
    TOLD: tl.constexpr


@tle.struct
class Choices:
    """Tuples with the rows of a token's choices, and their weights; whether any of them is here."""
    rows: tl.tuple
    factors: tl.tuple
    here: tl.tensor


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
def tell_begun(board, job):
    """Tell all other ranks that this one has begun a launch, so that the ones before have ended."""
    RANKS: tl.constexpr = job.RANKS
    me, there = tlx.world_rank(job.world), at_ranks(board.signals, 1, job.world, RANKS)
    tlx.fence("sys")        # one for all signals
    for step in tl.static_range(1, RANKS):
        tlx.signal(there[step - 1] + me, sem="relaxed")


@mimw.jit
def half_of(partials, call, job):
    """The generation of partials that this launch has."""
    SIZE: tl.constexpr = (job.RANKS - 1) * job.TOKENS
    if job.GENERATIONS == 1:
        return partials
    return partials + (call % job.GENERATIONS) * (SIZE * job.HIDDEN)


@mimw.jit
def choices_of(places, weights, K: tl.constexpr):
    """The choices of a token; `places` and `weights` are those of the first. Places come together, weights with the rows. Of
    choices that are not here no weight is read: who sends it waits for nothing that this rank does."""
    rows, factors, most = (), (), -1
    for j in tl.static_range(K):
        rows += (tl.load(places + j), )
    for j in tl.static_range(K):
        factors += (tl.load(weights + j, mask=rows[j] >= 0, other=0.0).to(tl.float32), )
        most = tl.maximum(most, rows[j])
    return Choices(rows, factors, most >= 0)


@mimw.jit
def rows_of(y, choices, at, job):
    """Columns `at` of the rows that this rank's experts have of a token: a tuple, zeros for choices of others."""
    rows, found = choices.rows, ()
    for j in tl.static_range(job.K):
        found += (tl.load(y + rows[j].to(tl.int64) * job.HIDDEN + at, mask=(at < job.HIDDEN) & (rows[j] >= 0), other=0.0), )
    return found


@mimw.jit
def weighted(rows, choices, job):
    """The sum of rows by weight, in the order of the choices."""
    factors, sums = choices.factors, tl.zeros((job.BLOCK, ), tl.float32)
    for j in tl.static_range(job.K):
        sums += factors[j] * rows[j].to(tl.float32)
    return sums


@mimw.jit
def receive_weights(weights, board, pusher, call, job):
    """Send this rank's weights, and wait for those of all others."""
    RANKS: tl.constexpr = job.RANKS
    send_weights(weights, board, pusher, job)
    for step in tl.static_range(1, RANKS):
        rank = (tlx.world_rank(job.world) + step) % RANKS
        tlx.wait_signal(board.signals + rank, call * min(job.HALF, tl.cdiv(job.TOKENS * job.K, job.TELL)))


@mimw.jit
def put_sums(row, first, sums, job):
    """Write sums at a peer, from column `first` of a row on."""
    TYPE: tl.constexpr = tlx.dtype_of(row)
    if job.TOLD:
        at = first + tl.arange(0, job.BLOCK)
        tl.store(row + at, sums.to(TYPE), mask=at < job.HIDDEN)
    else:
        PER_WORD: tl.constexpr = 64 // TYPE.primitive_bitwidth
        at = first // PER_WORD + tl.arange(0, job.BLOCK // PER_WORD)
        put_words(row.to(tl.pointer_type(tl.int64)) + at, packed(sums.to(TYPE)), at < job.HIDDEN // PER_WORD)


@mimw.jit
def sums_of(here, first, came, job):
    """What came of a row from column `first` on, as fp32; zeros where nothing does."""
    TYPE: tl.constexpr = tlx.dtype_of(here)
    if job.TOLD:
        at = first + tl.arange(0, job.BLOCK)
        return tl.load(here + at, mask=(at < job.HIDDEN) & came, other=0.0).to(tl.float32)
    else:
        PER_WORD: tl.constexpr = 64 // TYPE.primitive_bitwidth
        at = first // PER_WORD + tl.arange(0, job.BLOCK // PER_WORD)
        inside = (at < job.HIDDEN // PER_WORD) & came
        words = tl.where(inside, take_words(here.to(tl.pointer_type(tl.int64)) + at, inside), 0)
        return unpacked(words, TYPE).to(tl.float32)


@mimw.jit
def push(operands, board, pusher, call, job):
    """Send each other rank what this rank's experts have of its tokens, with a signal for each part."""
    RANKS: tl.constexpr = job.RANKS
    TOKENS: tl.constexpr = job.TOKENS
    PARTS: tl.constexpr = job.PARTS
    HIDDEN: tl.constexpr = job.HIDDEN
    K: tl.constexpr = job.K
    places, world, partials = operands.places, job.world, half_of(board.partials, call, job)
    me = tlx.world_rank(world)
    there, arrived_there = at_ranks(partials, 1, world, RANKS), at_ranks(board.arrived + me * job.HALF + pusher, 1, world, RANKS)
    if job.CAME:
        weights = operands.weights
    else:
        weights = board.weights
        receive_weights(operands.weights, board, pusher, call, job)
    count, free = (call - 1) * tl.cdiv(TOKENS * PARTS, job.HALF) + 1, 0     # free: a bit for each peer that may be written
    for item in range(pusher, TOKENS * PARTS, job.HALF):
        token, begin = item // PARTS, item % PARTS * job.COLUMNS
        for step in tl.static_range(1, RANKS):
            rank = (me + step) % RANKS
            slot = (rank * TOKENS + token) * K
            choices = choices_of(places + slot, weights + slot, K)
            if choices.here:
                row = there[step - 1] + ((RANKS - step - 1) * TOKENS + token).to(tl.int64) * HIDDEN
                for first in range(begin, tl.minimum(begin + job.COLUMNS, HIDDEN), job.BLOCK):
                    at = first + tl.arange(0, job.BLOCK)
                    rows = rows_of(operands.y, choices, at, job)
                    if job.CAME:
                        if (free >> step) & 1 == 0:     # while rows come
                            tlx.wait_signal(board.signals + rank, call - (job.GENERATIONS - 1))
                            free |= 1 << step
                    put_sums(row, first, weighted(rows, choices, job), job)
                if job.TOLD:
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
    me, size, partials = tlx.world_rank(job.world), tlx.world_size(job.world), half_of(board.partials, call, job)
    own_places, own_weights = operands.places + me * (TOKENS * K), operands.weights
    if job.CAME:
        own_weights += me * (TOKENS * K)
    count, j = (call - 1) * tl.cdiv(TOKENS * PARTS, job.HALF) + 1, tl.arange(0, triton.next_power_of_2(K))
    for item in range(finisher, job.tokens * PARTS, job.HALF):
        token, begin = item // PARTS, item % PARTS * job.COLUMNS
        slot = token.to(tl.int64) * K
        expert = tl.load(operands.ids + slot + j, mask=j < K, other=-1).to(tl.int32)
        choices = choices_of(own_places + slot, own_weights + slot, K)
        for first in range(begin, tl.minimum(begin + job.COLUMNS, HIDDEN), job.BLOCK):
            at = first + tl.arange(0, job.BLOCK)
            rows = rows_of(operands.y, choices, at, job)
            if job.TOLD:
                for step in range(1, size):
                    peer = (me + step) % size
                    came = tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32)) > 0
                    if came & (first == begin):     # while own rows come
                        tlx.wait_signal(board.arrived + peer * job.HALF + finisher, count)
            sums = weighted(rows, choices, job)
            for step in range(1, size):
                peer = (me + step) % size
                came = tl.max(((expert >= peer * LOCAL) & (expert < (peer + 1) * LOCAL)).to(tl.int32)) > 0
                here = partials + ((step - 1) * TOKENS + token).to(tl.int64) * HIDDEN
                sums += sums_of(here, first, came, job)
            tl.store(operands.out + token.to(tl.int64) * HIDDEN + at, sums.to(tlx.dtype_of(operands.out)), mask=at < HIDDEN)
        count += 1


@mimw.jit
def work(operands, board, calls, program, job, ROLES: tl.constexpr):
    """The launch of program number `program`: as one of 2 HALF it finishes, or pushes; as one of HALF it pushes, then finishes. The
    first one tells that this rank has begun; where nobody waits for that in this launch, when it has pushed."""
    call = tl.load(calls + program) + 1
    TELLS: tl.constexpr = job.CAME and job.RANKS > 1
    if TELLS and (ROLES == 2 or job.GENERATIONS == 1):
        if program == 0:
            tell_begun(board, job)
    if ROLES == 2:
        if program < job.HALF:
            finish(operands, board, program, call, job)
        else:
            push(operands, board, program - job.HALF, call, job)
    else:
        push(operands, board, program, call, job)
        if TELLS and job.GENERATIONS > 1:
            if program == 0:
                tell_begun(board, job)
        finish(operands, board, program, call, job)
    tl.store(calls + program, call)


@mimw.jit(do_not_specialize=["tokens"])
def combine(y, places, ids, weights, out, all_weights, partials, announced, arrived, calls, world, tokens, TOKENS: tl.constexpr,
            HIDDEN: tl.constexpr, K: tl.constexpr, RANKS: tl.constexpr, LOCAL: tl.constexpr, BLOCK: tl.constexpr,
            TELL: tl.constexpr, PARTS: tl.constexpr, COLUMNS: tl.constexpr, HALF: tl.constexpr, CAME: tl.constexpr = False,
            GENERATIONS: tl.constexpr = 1, TOLD: tl.constexpr = True, ROLES: tl.constexpr = 2,
            TASKS: tl.constexpr = 1):
    """out[t] = the sum over j of weights[t, j] times the row of y, at the rank of expert ids[t, j], that choice (t, j) lies in.

    places              (ranks, TOKENS, K) int32: the row of y of each choice of each rank, or -1
    weights             (tokens, K), which are sent; or of all ranks, (ranks, TOKENS, K), which CAME
    all_weights         symmetric, (ranks, TOKENS, K) fp32, not read if they CAME; partials  symmetric, (GENERATIONS, ranks - 1,
                        TOKENS, HIDDEN); both may hold anything, but partials that are not TOLD of are 0 before the first launch
    announced           symmetric, int64, a word for each rank; arrived  a word for each rank and pusher
    calls               int64, a word for each of ROLES x HALF programs, of this rank alone. All words are 0 before the first
                        launch, and are left to launches of the same sizes, grid and form, which follow each other
    TASKS               of a program, each of which does what else a program does: so a multiprocessor has one program of all its
                        threads, and where it is, there is no other launch's
    """
    operands, board = Operands(y, places, ids, weights, out), Board(all_weights, partials, announced, arrived)
    job = Job(world, tokens, TOKENS, HIDDEN, K, RANKS, LOCAL, BLOCK, TELL, PARTS, COLUMNS, HALF, CAME, GENERATIONS, TOLD)
    if TASKS == 1:
        work(operands, board, calls, tl.program_id(0), job, ROLES)
    else:
        with tlx.async_tasks():
            with tlx.async_task("default", replicate=TASKS):
                number = tl.program_id(0) + tlx.async_task_replica_id() * tl.num_programs(0)
                work(operands, board, calls, number, job, ROLES)
