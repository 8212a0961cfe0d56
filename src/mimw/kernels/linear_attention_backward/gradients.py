"""The gradients of q, k, the gate and beta of each chunk, of all chunks in parallel.

Input: what the forward was given and keeps, D behind each chunk and dv. Output: dq and dk, summed over the heads of v that read one
of k, dg and dbeta. A program has a chunk and a head of k; `__init__` has the derivation.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .beta import gradient_of_beta
from .gates import diagonal, falling, for_columns, for_rows, rising, sums_of
from .nouns import BY_HEAD, BY_KEY, NO_GATE, C, chunk_of, product, rows_of, state_of, store_rows


@tle.struct
class Head:
    """A head of v of a chunk: which, the tiles of q and k that it reads, and the gate's sums."""

    number: Any
    q: Any
    k: Any
    b: Any


@mimw.jit
def of_scores(given, results, here, one, problem, form):
    """(dP below the diagonal (C, C), and on it (C); -dv N^T below the diagonal, the gradient of scores of keys (C, C)) of a head."""
    heads = problem.heads * form.GROUP
    dP, dA = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    for value in range(0, form.V, form.BV):
        N = rows_of(given.N, here, one.number, heads, form.V, value, form.BV)
        dP = product(rows_of(given.do, here, one.number, heads, form.V, value, form.BV), tl.trans(N), form, dP)
        if form.DELTA:
            dA = product(rows_of(results.dv, here, one.number, heads, form.V, value, form.BV), tl.trans(N), form, dA)
    dP *= problem.scale
    at = tl.arange(0, C)
    below = at[:, None] > at[None, :]
    return tl.where(below, dP, 0.0), diagonal(dP), tl.where(below, -dA, 0.0)


@mimw.jit
def through(left, states, here, head, heads, form):
    """left S, of rows (C, V) and S^T or D^T: (C, K_TILE)."""
    found = tl.zeros((C, form.K_TILE), tl.float32)
    for value in range(0, form.V, form.BV):
        x = rows_of(left, here, head, heads, form.V, value, form.BV)
        found = product(x, state_of(states, here, head, heads, value, form).to(x.dtype), form, found)
    return found


@mimw.jit
def shared(states, D, here, head, heads, form):
    """The sum over values of S D: (K_TILE)."""
    found = tl.zeros((form.K_TILE, ), tl.float32)
    for value in range(0, form.V, form.BV):
        S = state_of(states, here, head, heads, value, form).to(tl.float32)
        found += tl.sum(S * state_of(D, here, head, heads, value, form).to(tl.float32), 0)
    return found


@mimw.jit
def store_gate(dg, db, of_last, here, head, heads, form):
    """dg, of db (C, K) and what belongs to the chunk's last row (K): each row's is the sum of db from it on."""
    if form.GATE == BY_HEAD:
        rows = tl.arange(0, C)
        found = tl.cumsum(tl.sum(db, 1), 0, reverse=True) + tl.sum(of_last, 0)
        tl.store(dg + (here.first + rows) * heads + head, found.to(dg.dtype.element_ty), mask=rows < here.rows)
    elif form.GATE == BY_KEY:
        store_rows(dg, tl.cumsum(db, 0, reverse=True) + of_last[None, :], here, head, heads, form.K, 0, form.K_TILE)


@mimw.jit
def of_head(given, D, results, here, one, problem, form):
    """(dq, dk) of one head of v, (C, K) in fp32; it stores dg and dbeta. What knows no decay, the diagonal of P and the end's own row,
    is left out of db, where it would only cancel."""
    heads, k, b, rows = problem.heads * form.GROUP, one.k, one.b, tl.arange(0, C)
    dP, own, dA = of_scores(given, results, here, one, problem, form)
    dq = rising(through(given.do, given.states, here, one.number, heads, form) * problem.scale, b, form)
    dq += for_rows(dP, k, b, form)
    dk = for_columns(dP, one.q, b, form)
    of_end = falling(through(given.N, D, here, one.number, heads, form), b, form)
    if form.DELTA:
        gradient_of_beta(given, D, results, here, one, problem, form)
        up = for_rows(dA, k, b, form) - rising(through(results.dv, given.states, here, one.number, heads, form), b, form)
        dk += for_columns(dA, k, b, form)
        db = k * (up - dk)
        dk += up
    else:
        db = -(k * dk)
    if form.GATE != NO_GATE:
        ends = tl.where((rows < here.rows - 1)[:, None], k * of_end, 0.0)
        of_last = tl.sum(ends, 0) + shared(given.states, D, here, one.number, heads, form) * tl.exp(tl.min(b, 0))
        store_gate(results.dg, one.q * dq + db - ends, of_last, here, one.number, heads, form)
    return dq + own[:, None] * k, dk + own[:, None] * one.q + of_end


@mimw.jit
def gradients(given, D, results, problem, FORM: tl.constexpr):
    """Chunk program_id(0), head program_id(1) of H."""
    head, heads = tl.program_id(1), problem.heads * FORM.GROUP
    here = chunk_of(given.table, tl.program_id(0), problem)
    q = rows_of(given.q, here, head, problem.heads, FORM.K, 0, FORM.K_TILE)
    k = rows_of(given.k, here, head, problem.heads, FORM.K, 0, FORM.K_TILE)
    dq, dk = tl.zeros((C, FORM.K_TILE), tl.float32), tl.zeros((C, FORM.K_TILE), tl.float32)
    for number in range(head * FORM.GROUP, head * FORM.GROUP + FORM.GROUP):
        of_q, of_k = of_head(given, D, results, here, Head(number, q, k, sums_of(given.g, here, number, heads, FORM)), problem, FORM)
        dq, dk = dq + of_q, dk + of_k
    store_rows(results.dq, dq, here, head, problem.heads, FORM.K, 0, FORM.K_TILE)
    store_rows(results.dk, dk, here, head, problem.heads, FORM.K, 0, FORM.K_TILE)
