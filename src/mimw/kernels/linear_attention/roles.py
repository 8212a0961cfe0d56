"""The roles beside the consumers: `load` brings chunks by TMA, `score` multiplies queries and keys, `store` takes results out.

Input: descriptors, and the ends of the pipes `inputs` and `scores`, and of those of results. Output: filled slots, or tensors:

    load(inputs.writer(), descs, span, head, column, problem, form)
    score(inputs.reader("score"), scores.writer(), None, span, form)
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_varlen.maps import FAR
from .blackwell import product
from .compute import factor_of
from .nouns import ROWS, C
from .prepare import FACTORS, between, decayed, diagonal, shrink_of


@tle.struct
class Descriptors:
    """Of v (a chunk of a head), and of q and k: of a head, too, or with gates by key, as w then, of a place (a chunk and head, as
    those of b, T, P and factors are); None for those that a form lacks. Chunks of heads end with their sequence
    (attention_varlen/maps.py)."""

    q: Any
    k: Any
    w: Any
    v: Any
    b: Any
    T: Any
    P: Any
    factors: Any = None


@mimw.jit
def rows_at(span, chunk, head, column):
    """The coordinates of a chunk of a head in a map that ends with its sequence: rows behind it read as zeros, and are not
    stored."""
    return [FAR, span.end, head, FAR - (span.end - span.first - chunk * C), column]


@mimw.jit
def load(inputs, descs, span, head, column, problem, form):
    """Chunk after chunk of a span: what products take, each in the order in which consumers need it."""
    of_key = head // (problem.HV // problem.H)
    for chunk in range(span.count):
        slot = inputs.acquire(chunk)
        place = (span.chunk + chunk) * problem.HV + head
        if form.GATE == "key":
            if form.DELTA:
                tle.gpu.copy(descs.k, slot.k, [C, form.K], [place * C, 0])
            if form.OUT:
                tle.gpu.copy(descs.q, slot.q, [C, form.K], [place * C, 0])
                tle.gpu.copy(descs.P, slot.P, [C, C], [place * C, 0])
            tle.gpu.copy(descs.w, slot.w, [C, form.K], [place * C, 0])
        else:
            tle.gpu.copy(descs.k, slot.k, [C, form.K], rows_at(span, chunk, of_key, 0))
            if form.OUT:
                tle.gpu.copy(descs.q, slot.q, [C, form.K], rows_at(span, chunk, of_key, 0))
        if form.NORM:
            tle.gpu.copy(descs.factors, slot.factors, [FACTORS, C], [place * FACTORS, 0])
        elif form.GATE != "none":
            tle.gpu.copy(descs.b, slot.b, [1, slot.b.shape[1]], [place, 0])
        if not form.TRANSITION:
            for me in tl.static_range(form.CONSUMERS):
                part = tlx.local_slice(slot.v, [me * C, 0], [C, ROWS])
                tle.gpu.copy(descs.v, part, [C, ROWS], rows_at(span, chunk, head, column + me * ROWS))
        if form.DELTA:
            tle.gpu.copy(descs.T, slot.T, [C, C], [place * C, 0])
        inputs.commit(chunk)


@mimw.jit
def queries_by(rows, slot, scoring, phase):
    """Q times rows, transposed, of a chunk; by way of tensor memory, where there is some."""
    if scoring is None:
        return tlx.async_dot_wait(0, tlx.async_dot(slot.q, tlx.local_trans(rows)))
    else:
        return product(scoring, slot.q, tlx.local_trans(rows), phase)


@mimw.jit
def score(inputs, scores, scoring, span, form):
    """P of chunk after chunk, for all consumers; `scoring` of blackwell.py, or None. Of rows that are to be divided by their norms
    also what Q S is multiplied by."""
    for chunk in range(span.count):
        slot = inputs.wait(chunk).slot
        if form.NORM:
            of_rows = shrink_of(diagonal(queries_by(slot.q, slot, scoring, 0)))
            products = queries_by(slot.k, slot, scoring, 1)
            if form.GATE == "head":
                of_rows += tl.reshape(factor_of(slot, 3), (C, ))
            products = decayed(products, of_rows, tl.reshape(factor_of(slot, 2), (C, )), True)
        else:
            products = queries_by(slot.k, slot, scoring, chunk & 1)
            if form.GATE == "head":
                products *= between(tl.reshape(tlx.local_load(slot.b), (C, )), True)
            else:
                products = tl.where(tl.arange(0, C)[:, None] >= tl.arange(0, C)[None, :], products, 0.0)
        TYPE: tl.constexpr = slot.k.dtype
        inputs.release(chunk)
        given = scores.acquire(chunk)
        tlx.local_store(given.P, products.to(TYPE))
        if form.NORM:
            tlx.local_store(given.grown, tl.exp2(of_rows)[None, :])
        scores.commit(chunk)


@mimw.jit
def store(results, tensor, span, head, column, form):
    """Chunks of o, or of N, of every consumer."""
    for chunk in range(span.count):
        for me in tl.static_range(form.CONSUMERS):
            result = results[me].reader()
            slot = result.wait(chunk).slot
            tlx.async_descriptor_store(tensor, slot.rows, rows_at(span, chunk, head, column + me * ROWS))
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
