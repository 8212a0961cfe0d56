"""The roles that move chunks of the recurrence: `load` brings them by TMA, `store` takes results out.

Input: descriptors, and the ends of the pipes `inputs`, and of those of results. Output: filled slots, or tensors. For example:

    load(inputs.writer(), descs, span, head, column, problem, form)
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import ROWS, C


@tle.struct
class Descriptors:
    """Of q, k and v (a chunk of a head), of b, T and P (one place of a chunk and head); None for those that a form lacks."""

    q: Any
    k: Any
    v: Any
    b: Any
    T: Any
    P: Any


@mimw.jit
def load(inputs, descs, span, head, column, problem, form):
    """Chunk after chunk of a span: what products take, each in the order in which consumers need it."""
    of_key = head // (problem.HV // problem.H) * form.K
    for chunk in range(span.count):
        slot = inputs.acquire(chunk)
        row, place = span.first + chunk * C, (span.chunk + chunk) * problem.HV + head
        if descs.b is not None:
            tle.gpu.copy(descs.b, slot.b, [1, C], [place, 0])
        tle.gpu.copy(descs.k, slot.k, [C, form.K], [span.batch, row, of_key])
        if form.OUT:
            tle.gpu.copy(descs.q, slot.q, [C, form.K], [span.batch, row, of_key])
        if not form.TRANSITION:
            for me in tl.static_range(form.CONSUMERS):
                part = tlx.local_slice(slot.v, [me * C, 0], [C, ROWS])
                tle.gpu.copy(descs.v, part, [C, ROWS], [span.batch, row, head * form.V + column + me * ROWS])
        if form.DELTA:
            tle.gpu.copy(descs.T, slot.T, [C, C], [place * C, 0])
        if form.OUT:
            tle.gpu.copy(descs.P, slot.P, [C, C], [place * C, 0])
        inputs.commit(chunk)


@mimw.jit
def store(results, tensor, span, column, form):
    """Whole chunks of o, or of N, of every consumer."""
    for chunk in range((span.end - span.first) // C):
        for me in tl.static_range(form.CONSUMERS):
            result = results[me].reader()
            slot = result.wait(chunk).slot
            tlx.async_descriptor_store(tensor, slot.rows,
                                       [span.batch, span.first + chunk * C, column + me * ROWS])
            tlx.async_descriptor_store_wait(0)
            result.release(chunk)


@mimw.jit
def store_states(befores, states, span, head, column, problem, form):
    """The state before each chunk, of every consumer."""
    for chunk in range(span.count):
        for me in tl.static_range(form.CONSUMERS):
            before = befores[me].reader()
            slot = before.wait(chunk).slot
            row = ((span.chunk + chunk) * problem.HV + head) * form.V + column + me * ROWS
            tlx.async_descriptor_store(states, slot.rows, [row, 0])
            tlx.async_descriptor_store_wait(0)
            before.release(chunk)
