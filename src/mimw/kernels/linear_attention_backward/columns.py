"""The role of a consumer of gradients by roles: K_TILE = 64 columns of keys of place after place.

Input: the pipes `values` and `rows` of by_roles.py. Output: dq and dk of its columns; of the first consumer also dg and dbeta:

    compute(values.reader("consumer0"), rows.reader("consumer0"), parts, Turned(..), beta, written, ..)

`__init__` has the derivation. The diagonal of P and the end's own row, which know no decay, are left out of db.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..linear_attention.nouns import C
from .gates import decay, decay_behind, diagonal, falling, rising
from .nouns import BY_HEAD, chunk_of, numbers_of, store_numbers, store_rows

FEW = tl.constexpr(16)          # rows


@tle.struct
class Products:
    """Sums over columns of values: do N^T and dv N^T; do S, dv S and N D of a consumer's columns; and the sum of S D."""

    dP: Any
    dA: Any
    q: Any
    up: Any
    end: Any
    shared: Any


@mimw.jit
def mine(buffer, me: tl.constexpr, form):
    """A consumer's part of a slot."""
    return tlx.local_slice(buffer, [me * C, 0], [C, form.K_TILE])


@mimw.jit
def add(a, b, acc, FIRST: tl.constexpr):
    """a b on top of acc, of the first block alone."""
    if FIRST:
        return tlx.async_dot(a, b)
    else:
        return tlx.async_dot(a, b, acc)


@mimw.jit
def sum_of_products(S, D, me: tl.constexpr, form):
    """Of a consumer's parts, some rows at a time for want of registers."""
    found = tl.zeros((FEW, ), tl.float32)
    for row in tl.static_range(0, C, FEW):
        one = tlx.local_load(tlx.local_slice(S, [me * C + row, 0], [FEW, form.K_TILE])).to(tl.float32)
        found += tl.sum(one * tlx.local_load(tlx.local_slice(D, [me * C + row, 0], [FEW, form.K_TILE])).to(tl.float32), 1)
    return tl.sum(found, 0)


@mimw.jit
def sum_values(values, turn, me: tl.constexpr, form):
    """The sums over all values of a place."""
    BLOCKS: tl.constexpr = form.V // form.BV
    dP, dA, dq, up, end, shared = None, None, None, None, None, 0.0
    for block in tl.static_range(BLOCKS):
        slot, FIRST = values.wait(turn * BLOCKS + block).slot, block == 0
        S, D = mine(slot.S, me, form), mine(slot.D, me, form)
        dP, dq = add(slot.do, tlx.local_trans(slot.N), dP, FIRST), add(slot.do, S, dq, FIRST)
        if form.DELTA:
            dA, up = add(slot.dv, tlx.local_trans(slot.N), dA, FIRST), add(slot.dv, S, up, FIRST)
        end = add(slot.N, D, end, FIRST)
        if form.GATE == BY_HEAD:
            shared += sum_of_products(slot.S, slot.D, me, form)
        dP, dq, end = tlx.async_dot_wait(0, dP), tlx.async_dot_wait(0, dq), tlx.async_dot_wait(0, end)
        if form.DELTA:
            dA, up = tlx.async_dot_wait(0, dA), tlx.async_dot_wait(0, up)
        values.release(turn * BLOCKS + block)
    return Products(dP, dA, dq, up, end, shared)


@mimw.jit
def operand(scores, b, place, form):
    """Scores below the diagonal, with the decay between their rows, as a left operand; in `place`, too, to be turned."""
    at = tl.arange(0, C)
    scores = tl.where(at[:, None] > at[None, :], scores, 0.0)
    if form.GATE == BY_HEAD:
        scores *= decay(b)
    scores = scores.to(place.dtype)
    tlx.local_store(place, scores)
    return scores


@mimw.jit
def compute(values, rows, parts, turned, beta, written, table, count, problem, me: tl.constexpr, form):
    """Consumer `me`: dq and dk of its columns of keys; the first one stores dg and dbeta, the other hands it its share of dg."""
    turn = 0
    for place in range(tl.program_id(0), count, tl.num_programs(0)):
        head, here = place % problem.HV, chunk_of(table, place // problem.HV)
        if form.DELTA and me == 0:
            weight = numbers_of(beta, here, head, problem.HV, 1.0)
        of = sum_values(values, turn, me, form)
        slot, b = rows.wait(turn).slot, None
        if form.GATE == BY_HEAD:
            b = tl.reshape(tlx.local_load(slot.b), (C, ))
        own = diagonal(of.dP) * problem.scale
        q, k = mine(slot.q, me, form), mine(slot.k, me, form)
        scores = operand(of.dP * problem.scale, b, turned.dP, form)
        dq = tlx.async_dot(scores, k, rising(of.q * problem.scale, b, form))
        down = tlx.async_dot(tlx.local_trans(turned.dP), q)
        if form.DELTA:
            rest = diagonal(of.dA)
            of_keys = operand(-of.dA, b, turned.dA, form)
            up = tlx.async_dot(of_keys, k, -rising(of.up, b, form))
            down = tlx.async_dot(tlx.local_trans(turned.dA), k, down)
        end = falling(of.end, b, form)
        queries, keys = tlx.local_load(q), tlx.local_load(k)
        dq, down = tlx.async_dot_wait(0, dq), tlx.async_dot_wait(0, down)
        if form.DELTA:
            up = tlx.async_dot_wait(0, up)
        rows.release(turn)
        column = me * form.K_TILE
        store_rows(written.dq, dq + own[:, None] * keys, here, head, problem.HV, form.K, column, form.K_TILE)
        dk = down + own[:, None] * queries + end
        if form.DELTA:
            dk += up
        store_rows(written.dk, dk, here, head, problem.HV, form.K, column, form.K_TILE)
        if form.GATE == BY_HEAD:
            ends = tl.where((tl.arange(0, C) < here.rows - 1)[:, None], keys * end, 0.0)
            db = queries * dq - keys * down - ends
            if form.DELTA:
                db += keys * up
            dg = tl.cumsum(tl.sum(db, 1), 0, reverse=True) + of.shared * decay_behind(b, form) + tl.sum(tl.sum(ends, 1), 0)
            hand_on(parts, turn, dg, written.dg, here, head, problem, me)
        if form.DELTA and me == 0:
            store_numbers(written.dbeta, rest / (weight * weight), here, head, problem.HV)
        turn += 1


@mimw.jit
def hand_on(parts, turn, dg, into, here, head, problem, me: tl.constexpr):
    """The first consumer stores the sum of dg, the other one hands on its own."""
    if me == 1:
        tlx.local_store(parts.writer().acquire(turn).dg, dg[None, :])
        parts.writer().commit(turn)
    else:
        if parts is not None:
            dg += tl.reshape(tlx.local_load(parts.reader().wait(turn).slot.dg), (C, ))
            parts.reader().release(turn)
        store_numbers(into, dg, here, head, problem.HV)
