"""The gradients of q, k, the gate and beta of each chunk, of all chunks in parallel.

Input: what the forward was given and keeps, D behind each chunk and dv. Output: dq and dk of each head of v, dg and dbeta:

    gradients[(chunks, HV)](given, work, results, table, problem, FORM)
    far_gradients[(chunks / per, HV)](given, work, results, table, chunks, per, problem, FORM)      of the few that are not NEAR

A program has a chunk and a head of v, or looks for such ones; `__init__` has the derivation. What knows no decay, the diagonal of
P and the end's own row, is left out of db, where it would only cancel.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from ..linear_attention.nouns import C
from .few import own_chunks, without
from .gates import decay_behind, diagonal, falling, far_of, for_columns, for_rows, near, rising, sums_of
from .nouns import BY_HEAD, BY_KEY, NO_GATE, chunk_of, numbers_of, product, rows_of, state_of, store_numbers, store_rows


@tle.struct
class Scores:
    """Gradients of scores: of P below the diagonal (C, C) and on it (C), of k k^T with beta, below the diagonal (C, C), and for
    dbeta the sum over values of N dv (C)."""

    dP: Any
    own: Any
    dA: Any
    rest: Any


@mimw.jit
def of_scores(given, dv, here, head, problem, form):
    """Those of a head."""
    heads, at = problem.HV, tl.arange(0, C)
    dP, dA = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    rest = tl.zeros((C, ), tl.float32)
    for value in range(0, form.V, form.BV):
        N = rows_of(given.N, here, head, heads, form.V, value, form.BV)
        dP = product(rows_of(given.do, here, head, heads, form.V, value, form.BV), tl.trans(N), form, dP)
        if form.DELTA:
            dR = rows_of(dv, here, head, heads, form.V, value, form.BV)
            dA = product(dR, tl.trans(N), form, dA)
            rest += tl.sum(N.to(tl.float32) * dR.to(tl.float32), 1)
    dP *= problem.scale
    below = at[:, None] > at[None, :]
    return Scores(tl.where(below, dP, 0.0), diagonal(dP), tl.where(below, -dA, 0.0), rest)


@mimw.jit
def through(left, states, here, head, heads, begin, form):
    """left S, of rows (C, V) and S^T or D^T: (C, K_TILE)."""
    found = tl.zeros((C, form.K_TILE), tl.float32)
    for value in range(0, form.V, form.BV):
        x = rows_of(left, here, head, heads, form.V, value, form.BV)
        found = product(x, state_of(states, here, head, heads, value, begin, form).to(x.dtype), form, found)
    return found


@mimw.jit
def shared(states, D, here, head, heads, begin, form):
    """The sum over values of S D: (K_TILE)."""
    found = tl.zeros((form.K_TILE, ), tl.float32)
    for value in range(0, form.V, form.BV):
        S = state_of(states, here, head, heads, value, begin, form).to(tl.float32)
        found += tl.sum(S * state_of(D, here, head, heads, value, begin, form).to(tl.float32), 0)
    return found


@mimw.jit
def by_gate(x, form):
    """(C, K) as the gate has it: (C) of a gate a head."""
    return tl.sum(x, 1) if form.GATE == BY_HEAD else x


@mimw.jit
def of_columns(given, work, results, scores, b, begin, here, head, problem, form):
    """(db as the gate has it, what belongs to b of the chunk's last row (K_TILE)) of K_TILE columns from `begin` on, whose dq and
    dk it stores."""
    heads, rows = problem.HV, tl.arange(0, C)
    q = rows_of(given.q, here, head // form.GROUP, problem.H, form.K, begin, form.K_TILE)
    k = rows_of(given.k, here, head // form.GROUP, problem.H, form.K, begin, form.K_TILE)
    dq = rising(through(given.do, given.states, here, head, heads, begin, form) * problem.scale, b, form)
    dq += for_rows(scores.dP, k, b, form)
    db = by_gate(q * dq, form)
    store_rows(results.dq, dq + scores.own[:, None] * k, here, head, heads, form.K, begin, form.K_TILE)

    dk = for_columns(scores.dP, q, b, form)
    if form.DELTA:
        dk += for_columns(scores.dA, k, b, form)
    db -= by_gate(k * dk, form)
    dk += scores.own[:, None] * q
    if form.DELTA:
        up = for_rows(scores.dA, k, b, form)
        up -= rising(through(results.dv, given.states, here, head, heads, begin, form), b, form)
        db += by_gate(k * up, form)
        dk += up

    of_end = falling(through(given.N, work.D, here, head, heads, begin, form), b, form)
    store_rows(results.dk, dk + of_end, here, head, heads, form.K, begin, form.K_TILE)
    if form.GATE == NO_GATE:
        return db, tl.zeros((form.K_TILE, ), tl.float32)
    else:
        ends = tl.where((rows < here.rows - 1)[:, None], k * of_end, 0.0)
        of_last = shared(given.states, work.D, here, head, heads, begin, form) * decay_behind(b, form)
        return db - by_gate(ends, form), of_last + tl.sum(ends, 0)


@mimw.jit
def of_chunk(given, work, results, here, head, problem, form):
    """All gradients of a chunk and head, K_TILE columns of keys after the other."""
    heads = problem.HV
    scores = of_scores(given, results.dv, here, head, problem, form)
    if form.DELTA:
        beta = numbers_of(given.beta, here, head, heads, 1.0)
        store_numbers(results.dbeta, scores.rest / (beta * beta), here, head, heads)
    if form.GATE == BY_KEY:
        for begin in range(0, form.K, form.K_TILE):
            b = sums_of(given.g, here, head, heads, begin, form)
            db, of_last = of_columns(given, work, results, scores, b, begin, here, head, problem, form)
            dg = tl.cumsum(db, 0, reverse=True) + of_last[None, :]
            store_rows(results.dg, dg, here, head, heads, form.K, begin, form.K_TILE)
    else:
        b, db, end = sums_of(given.g, here, head, heads, 0, form), tl.zeros((C, ), tl.float32), 0.0
        for begin in range(0, form.K, form.K_TILE):
            more, of_last = of_columns(given, work, results, scores, b, begin, here, head, problem, form)
            if form.GATE == BY_HEAD:
                db, end = db + more, end + tl.sum(of_last, 0)
        if form.GATE == BY_HEAD:
            store_numbers(results.dg, tl.cumsum(db, 0, reverse=True) + end, here, head, heads)


@mimw.jit
def gradients(given, work, results, table, problem, FORM: tl.constexpr):
    """Chunk program_id(0), head program_id(1) of HV, unless its gates by column need cuts. Each row of dg is the sum of db from it
    on, and what belongs to the chunk's last row."""
    head, here = tl.program_id(1), chunk_of(table, tl.program_id(0))
    if near(work.b, here, head, problem.HV, FORM):
        of_chunk(given, work, results, here, head, problem, FORM)


@mimw.jit
def far_gradients(given, work, results, table, count, per, problem, FORM: tl.constexpr):
    """The same of those of `per` chunks, of `count`, whose gates by column need cuts (gates.py)."""
    head = tl.program_id(1)
    chunks = far_of(work.b, own_chunks(per, count), count, head, problem.HV, FORM)
    while tl.min(chunks, 0) < count:
        slot = tl.min(chunks, 0)
        of_chunk(given, work, results, chunk_of(table, slot), head, problem, FORM)
        chunks = without(chunks, slot, count)
