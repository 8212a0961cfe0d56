"""The role of a consumer of the backward recurrence: ROWS columns of values, chunk after chunk, with D in registers.

Input: the pipes `inputs` and `scores`, and D behind the last chunk. Output: results in pipes, and D before the first chunk:

    compute(inputs.reader("consumer0"), scores.reader("consumer0"), results[0].writer(), ...)

All is transposed, so that sums are the left operand of the next product as they lie in registers, and all is divided by the scale,
which results alone are multiplied by: with E = diag(e^b),

    dN^T = dO^T P + e^(b_C - b) (D^T K^T);  dv^T = dN^T T;  D^T = e^b_C D^T + (E dO)^T Q - (E dv)^T K

The last product is the delta rule's; without it dv is dN. With gates by key the rows of Q and K come with these factors.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..linear_attention.compute import (
    decays_of,
    first_state,
    give,
    grown_of,
    left_operand,
    place_of_operand,
    places,
    scores_of,
    written,
)
from ..linear_attention.nouns import ROWS, C, wide


@mimw.jit
def compute(inputs, scores, results, behinds, place, outside, span, problem, me: tl.constexpr, form):
    """Consumer `me`: its columns of values. `place` is shared memory for D as an operand, where registers are too few; where D is a
    result, too, that is the result's, with the scale."""
    D = first_state(outside, span, problem, form) / problem.scale
    for turn in range(span.count):
        slot = inputs.wait(turn).slot
        TYPE: tl.constexpr = slot.q.dtype
        scaled: tl.constexpr = form.STATES and wide(form)
        into = place_of_operand(behinds, turn, place, form)
        behind = left_operand((D * problem.scale if scaled else D).to(TYPE), into)
        if form.STATES or form.DELTA:
            dN = tlx.async_dot(behind, tlx.local_trans(written(slot, form)))
        if form.STATES:
            if not scaled:
                given = behinds.acquire(turn)
                tlx.local_store(given.rows, (D * problem.scale).to(TYPE))
            behinds.commit(turn)
        do = tlx.local_trans(tlx.local_slice(slot.v, [me * C, 0], [C, ROWS]))
        left, decay = decays_of(slot, form)
        if scaled:
            left = left / problem.scale
        rows = tlx.local_load(do).to(tl.float32) * grown_of(slot, form)
        if form.STATES or form.DELTA:
            dN = tlx.async_dot_wait(0, dN)
            rows = tl.where(dN == dN, rows, dN)     # so that it has the layout of sums, which operands have: no way through memory
        D = tlx.async_dot(rows.to(TYPE), slot.q, D * decay)
        P = scores_of(slot, scores, turn).P
        if form.STATES or form.DELTA:
            dv = tlx.async_dot(do, P, dN * left)
            D, dv = tlx.async_dot_wait(0, D), tlx.async_dot_wait(0, dv)
            if form.DELTA:
                dv = tlx.async_dot_wait(0, tlx.async_dot(dv.to(TYPE), slot.T))
                D = tlx.async_dot((dv * -grown_of(slot, form)).to(TYPE), slot.k, D)
            if form.STATES:
                give(results, turn, (dv * problem.scale).to(TYPE))
        D = tlx.async_dot_wait(0, D)
        if scores is not None:
            scores.release(turn)
        inputs.release(turn)
    if outside.final is not None:
        at = places(tl.maximum(span.final, 0), outside, problem, form)
        tl.store(outside.final + at, D * problem.scale, mask=(span.final >= 0) & (at >= 0))
