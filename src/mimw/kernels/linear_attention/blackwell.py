"""The role of a consumer on Blackwell, and what `score` needs there: products add up in tensor memory, where the state stays, too.

Input: as compute.py has it, and `Sums`, a consumer's own. Output: the same. For example:

    sums = alloc_sums(tl.bfloat16, form)                                for all consumers
    compute(inputs.reader("consumer0"), scores.reader("consumer0"), ..., sums_of(0, sums), outside, span, problem, 0, form)
    product(scoring, slot.q, tlx.local_trans(slot.k), chunk & 1)        in `score`, by alloc_scoring()

What compute.py keeps in registers as a left operand goes through shared memory here: the state before a chunk, R^T, N^T, and N^T
with gates. Of `found` a consumer has one: E K S, N, Q S and P N lie there in turn, so each has been read when the next one
begins. `done` says that it is there, two or four times a chunk, so the phases of every chunk are the same; `added` that the
state is that behind the chunk.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .compute import decays_of, first_state, give, grown_of, places, scores_of, values_of, written
from .gates import LOG2_E
from .nouns import ROWS, C

PART = tl.constexpr(64)     # columns of the state that a thread has at a time


@tle.struct
class Sums:
    """Of each consumer: the transposed state and one product in tensor memory, left operands in shared memory, None for those that
    a form lacks, and barriers; of `score` only `found` and `done`."""

    state: Any
    found: Any
    before: Any
    new: Any
    left: Any
    done: Any
    added: Any


@mimw.jit
def alloc_sums(TYPE: tl.constexpr, form):
    """Those of all consumers."""
    COUNT: tl.constexpr = form.CONSUMERS
    state = tlx.local_alloc((ROWS, form.K), tl.float32, COUNT, tlx.storage_kind.tmem)
    found, before, left = None, None, None
    if form.DELTA or form.OUT:
        found = tlx.local_alloc((ROWS, C), tl.float32, COUNT, tlx.storage_kind.tmem)
        before = tlx.local_alloc((ROWS, form.K), TYPE, COUNT)
    if form.GATE == "head":
        left = tlx.local_alloc((ROWS, C), TYPE, COUNT)
    new = tlx.local_alloc((ROWS, C), TYPE, COUNT)
    return Sums(state, found, before, new, left, tlx.alloc_barriers(COUNT), tlx.alloc_barriers(COUNT))


@mimw.jit
def alloc_scoring():
    """Those of `score`."""
    found = tlx.local_alloc((C, C), tl.float32, 1, tlx.storage_kind.tmem)
    return Sums(None, found[0], None, None, None, tlx.alloc_barriers(1)[0], None)


@mimw.jit
def one_of(buffers, me: tl.constexpr):
    """Consumer `me`'s."""
    if buffers is None:
        return None
    else:
        return buffers[me]


@mimw.jit
def sums_of(me: tl.constexpr, sums):
    """Those of consumer `me`."""
    return Sums(one_of(sums.state, me), one_of(sums.found, me), one_of(sums.before, me), one_of(sums.new, me),
                one_of(sums.left, me), one_of(sums.done, me), one_of(sums.added, me))


@mimw.jit
def decay_of(slot, part: tl.constexpr, form):
    """e^b_C of PART columns of the state, from number `part` on."""
    if form.GATE == "key":
        b = tlx.local_load(tlx.local_slice(slot.b, [0, part * PART], [1, PART]))
        return tl.exp2(tl.reshape(b, (PART, )) * LOG2_E)[None, :]
    else:
        return decays_of(slot, form)[1]


@mimw.jit
def lay(sums, slot, kept, form):
    """The state as an operand, and in `kept` for who wants it before each chunk; then with the gates of the chunk."""
    for part in tl.static_range(form.K // PART):
        columns = tlx.subslice(sums.state, part * PART, PART)
        tile = tlx.local_load(columns)
        if sums.before is not None:
            tlx.local_store(tlx.local_slice(sums.before, [0, part * PART], [ROWS, PART]), tile.to(sums.before.dtype))
        if kept is not None:
            tlx.local_store(tlx.local_slice(kept, [0, part * PART], [ROWS, PART]), tile.to(kept.dtype))
        if form.GATE != "none":
            tlx.local_store(columns, tile * decay_of(slot, part, form))


@mimw.jit
def product(sums, left, right, phase):
    """left right, both buffers."""
    tlx.async_dot(left, right, sums.found, use_acc=False, mBarriers=[sums.done])
    tlx.barrier_wait(sums.done, phase)
    return tlx.local_load(sums.found)


@mimw.jit
def compute(inputs, scores, results, befores, sums, outside, span, problem, me: tl.constexpr, form):
    """Consumer `me`: its columns of values."""
    tlx.local_store(sums.state, first_state(outside, span, problem, form))
    for chunk in range(span.count):
        slot = inputs.wait(chunk).slot
        if form.STATES:
            lay(sums, slot, befores.acquire(chunk).rows, form)
            befores.commit(chunk)
        else:
            lay(sums, slot, None, form)
        TYPE: tl.constexpr = sums.new.dtype
        new = values_of(slot, me, form)
        if form.DELTA:
            read = product(sums, sums.before, tlx.local_trans(slot.k), 0)
            tlx.local_store(sums.new, (new - read * grown_of(slot, form)).to(TYPE))
            new = product(sums, sums.new, tlx.local_trans(slot.T), 1)
        if form.OUT or form.GATE != "head":
            tlx.local_store(sums.new, new.to(TYPE))
        if form.STATES:
            give(results, chunk, new.to(TYPE))
        operand = sums.new
        if form.GATE == "head":
            operand = sums.left
            tlx.local_store(operand, (new * decays_of(slot, form)[0]).to(TYPE))
        tlx.async_dot(operand, written(slot, form), sums.state, use_acc=True, mBarriers=[sums.added])
        if form.OUT:
            out = product(sums, sums.before, tlx.local_trans(slot.q), 0)
            scored = scores_of(slot, scores, chunk)
            out *= tlx.local_load(scored.grown) if form.NORM else grown_of(slot, form)
            out += product(sums, sums.new, tlx.local_trans(scored.P), 1)
            if scores is not None:
                scores.release(chunk)
            give(results, chunk, (out * problem.scale).to(TYPE))
        tlx.barrier_wait(sums.added, chunk & 1)
        inputs.release(chunk)
    if outside.final is not None:
        at = places(tl.maximum(span.final, 0), outside, problem, form)
        tl.store(outside.final + at, tlx.local_load(sums.state), mask=(span.final >= 0) & (at >= 0))

