"""The role of a consumer of the recurrence: ROWS columns of values, chunk after chunk, with the state in registers.

Input: the pipe `inputs`, and the state before the first chunk. Output: results in pipes, and the state behind the last chunk:

    compute(inputs.reader("consumer0"), results[0].writer(), ...)

Everything is transposed: the state is S^T [ROWS, K], so that it is the left operand of the next products as it lies in registers,
and so are R^T, N^T and O^T, [ROWS, C]. Only O, N and states that are stored go through shared memory. With E = diag(e^b):

    R = V - E K S;  N = T R;  O = scale (E Q S + P N);  S' = e^b_C S + K^T diag(e^(b_C - b)) N

With gates by key the rows of Q and K come with these factors, of K twice: `k` to read the state by, `w` to write it by. Where rows
of q and k are to be divided by their norms (Form.NORM) the factors of K do it, from memory (prepare.py), and those of Q, which come
with P (roles.py). With keys of over 128 columns the state as an operand goes through shared memory, and O is begun when N is there,
for want of registers.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .gates import LOG2_E
from .nouns import ROWS, C, wide


@tle.struct
class Outside:
    """The consumer's way past the pipes: pointers of states before and behind spans, None where a launch has none, with its head
    and the first of its columns of values."""

    initial: Any
    final: Any
    head: Any
    column: Any


@mimw.jit
def places(number, outside, problem, form):
    """Offsets in an array of states [.., HV, K, V] of the transposed state of this consumer."""
    of_head = (number.to(tl.int64) * problem.HV + outside.head) * form.K
    return (of_head + tl.arange(0, form.K)[None, :]) * form.V + outside.column + tl.arange(0, ROWS)[:, None]


@mimw.jit
def first_state(outside, span, problem, form):
    """S^T before the first chunk."""
    if form.TRANSITION:
        # Of no chunks is a part that forgets: its transition is 0.
        same = outside.column + tl.arange(0, ROWS)[:, None] == tl.arange(0, form.K)[None, :]
        return tl.where(same & (span.count > 0), 1.0, 0.0)
    elif outside.initial is None:
        return tl.zeros((ROWS, form.K), tl.float32)
    else:
        at = places(tl.maximum(span.initial, 0), outside, problem, form)
        return tl.load(outside.initial + at, mask=(span.initial >= 0) & (at >= 0), other=0.0).to(tl.float32)


@mimw.jit
def give(pipe, chunk, tile):
    """A transposed tile of results into a slot."""
    slot = pipe.acquire(chunk)
    tlx.local_store(tlx.local_trans(slot.rows), tile)
    pipe.commit(chunk)


@mimw.jit
def sums_of(slot):
    """b of a chunk, for powers of 2."""
    return tl.reshape(tlx.local_load(slot.b), (slot.b.shape[1], )) * LOG2_E


@mimw.jit
def factor_of(slot, number: tl.constexpr):
    """Factors of a chunk's rows of keys (`put_factors`)."""
    return tlx.local_load(tlx.local_slice(slot.factors, [number, 0], [1, C]))


@mimw.jit
def grown_of(slot, form):
    """e^b of a chunk's rows of keys; 1 where there are no gates, or rows have it already."""
    if form.NORM:
        return factor_of(slot, 0)
    elif form.GATE == "head":
        return tl.exp2(sums_of(slot))[None, :]
    else:
        return 1.0


@mimw.jit
def decays_of(slot, form):
    """(e^(b_C - b) of a chunk's rows of keys, e^b_C). Read anew, since registers are few."""
    left, decay = 1.0, 1.0
    if form.GATE == "key":
        decay = tl.exp2(sums_of(slot))[None, :]
    elif form.NORM:
        left = factor_of(slot, 1)
        if form.GATE == "head":
            decay = tl.exp2(tlx.local_load(tlx.local_slice(slot.factors, [3, C - 1], [1, 1])))
    elif form.GATE == "head":
        b = sums_of(slot)
        last = tl.sum(tl.where(tl.arange(0, C) == C - 1, b, 0.0), 0)
        left, decay = tl.exp2(last - b)[None, :], tl.exp2(last)
    return left, decay


@mimw.jit
def values_of(slot, me: tl.constexpr, form):
    """V^T of a chunk; 0 for a transition."""
    if form.TRANSITION:
        return 0.0
    else:
        return tlx.local_load(tlx.local_trans(tlx.local_slice(slot.v, [me * C, 0], [C, ROWS])))


@mimw.jit
def written(slot, form):
    """The keys that a chunk's new values are written by."""
    if form.GATE == "key":
        return slot.w
    else:
        return slot.k


@mimw.jit
def scores_of(slot, scores, chunk):
    """The slot with P of a chunk: that of its inputs, or of the pipe of scores."""
    if scores is None:
        return slot
    else:
        return scores.wait(chunk).slot


@mimw.jit
def left_operand(tile, place):
    """The tile as the left operand of products: as it lies in registers, or by way of shared memory, where there is a place."""
    if place is None:
        return tile
    else:
        tlx.local_store(place, tile)
        return place


@mimw.jit
def place_of_operand(states, chunk, place, form):
    """The memory for the state as an operand: a slot of `states`, if it is wanted there, too; else `place`, or None."""
    if form.STATES and wide(form):
        return states.acquire(chunk).rows
    else:
        return place


@mimw.jit
def late_outputs(before, new, slot, scores, chunk, form):
    """E Q S + P N, transposed, when R and N in fp32 need no registers any more."""
    out = tlx.async_dot_wait(0, tlx.async_dot(before, tlx.local_trans(slot.q)))
    scored = scores_of(slot, scores, chunk)
    out *= tlx.local_load(scored.grown) if form.NORM else grown_of(slot, form)
    return tlx.async_dot_wait(0, tlx.async_dot(new, tlx.local_trans(scored.P), out))


@mimw.jit
def compute(inputs, scores, results, befores, place, outside, span, problem, me: tl.constexpr, form):
    """Consumer `me`: its columns of values. `place` is shared memory for the state as an operand, where registers are too few."""
    state = first_state(outside, span, problem, form)
    for chunk in range(span.count):
        slot = inputs.wait(chunk).slot
        TYPE: tl.constexpr = written(slot, form).dtype
        into = place_of_operand(befores, chunk, place, form)
        before = left_operand(state.to(TYPE), into)
        if form.OUT and into is None:
            out = tlx.async_dot(before, tlx.local_trans(slot.q))
        if form.DELTA:
            read = tlx.async_dot(before, tlx.local_trans(slot.k))
        if form.STATES:
            if not wide(form):
                given = befores.acquire(chunk)
                tlx.local_store(given.rows, before)
            befores.commit(chunk)
        new = values_of(slot, me, form)
        grown = grown_of(slot, form)
        if form.DELTA:
            new = (new - tlx.async_dot_wait(0, read) * grown).to(TYPE)
        if form.OUT and into is None:
            out = tlx.async_dot_wait(0, out)
            if form.NORM:
                scored = scores_of(slot, scores, chunk)
                out *= tlx.local_load(scored.grown)
            else:
                out *= grown
        if form.DELTA:
            new = tlx.async_dot_wait(0, tlx.async_dot(new, tlx.local_trans(slot.T)))
        if form.OUT and into is None:
            if not form.NORM:
                scored = scores_of(slot, scores, chunk)
            out = tlx.async_dot(new.to(TYPE), tlx.local_trans(scored.P), out)
        if form.STATES:
            give(results, chunk, new.to(TYPE))
        left, decay = decays_of(slot, form)
        state = tlx.async_dot((new * left).to(TYPE), written(slot, form), state * decay)
        if form.OUT:
            if into is None:
                out = tlx.async_dot_wait(1, out)
            else:
                out = late_outputs(before, new.to(TYPE), slot, scores, chunk, form)
            if scores is not None:
                scores.release(chunk)
            give(results, chunk, (out * problem.scale).to(TYPE))
        state = tlx.async_dot_wait(0, state)
        inputs.release(chunk)
    if outside.final is not None:
        at = places(tl.maximum(span.final, 0), outside, problem, form)
        tl.store(outside.final + at, state, mask=(span.final >= 0) & (at >= 0))
