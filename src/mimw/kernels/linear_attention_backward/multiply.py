"""The role of gradients by roles that multiplies: of place after place dq and dk, and what dg and dbeta are made of.

Input: the pipes `values` and `rows` of by_roles.py. Output: the pipe `results`, which finish.py stores:

    compute(values.reader(), rows.reader(), held, results.writer(), scores, count, problem, FORM)

`__init__` has the derivation. The diagonal of P and the end's own row, which know no decay, are left out of db.

Eight warps make each product together: a warp group has half of its columns, so dP and dA take 16 registers of a thread each,
and the sums of 128 columns 32 each. Scores go through shared memory, where all 64 columns meet.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..linear_attention.gates import LOG2_E
from ..linear_attention.nouns import C
from ..linear_attention.prepare import between
from .gates import diagonal
from .nouns import BY_HEAD

PARTS = tl.constexpr(8)         # of a row in an accumulator: two warp groups' columns, of each those of four lanes


@tle.struct
class Sums:
    """Sums over columns of values: do N^T and dv N^T, and on the diagonal what S D sums up to, which are there; and do S, dv S
    and N D, under way."""

    dP: Any
    dA: Any
    q: Any
    up: Any
    end: Any
    shared: Any


@mimw.jit
def add(a, b, acc, FIRST: tl.constexpr):
    """a b on top of acc, of the first block alone."""
    if FIRST:
        return tlx.async_dot(a, b)
    else:
        return tlx.async_dot(a, b, acc)


@mimw.jit
def parts_of_rows(x, WIDTH: tl.constexpr):
    """Sums of a tile's rows, (C, WIDTH), in PARTS: each of the columns of one thread, so that none is moved."""
    return tl.reshape(tl.sum(tl.sum(tl.reshape(x, (C, 2, WIDTH // 16, 4, 2)), 4), 2), (C, PARTS))


@mimw.jit
def on_diagonal(x):
    """The diagonal of a tile (C, C), in PARTS, all but one of which are 0."""
    at = tl.arange(0, C)
    return parts_of_rows(tl.where(at[:, None] == at[None, :], x, 0.0), C)


@mimw.jit
def sum_values(values, turn, zero, form):
    """The sums over all values of a place. The last block is still held, since three products of it may be under way."""
    BLOCKS: tl.constexpr = form.V // form.BV
    LATE: tl.constexpr = 3 if form.DELTA else 2
    AT_ONCE: tl.constexpr = LATE + (2 if form.DELTA else 1) + (1 if form.GATE == BY_HEAD else 0)
    dP, dA, dq, up, end, shared = None, None, None, None, None, None
    for block in tl.static_range(BLOCKS):
        slot, FIRST = values.wait(turn * BLOCKS + block + zero).slot, block == 0
        if form.GATE == BY_HEAD:
            shared = add(slot.S, tlx.local_trans(slot.D), shared, FIRST)
        dP = add(slot.do, tlx.local_trans(slot.N), dP, FIRST)
        if form.DELTA:
            dA = add(slot.dv, tlx.local_trans(slot.N), dA, FIRST)
        dq = add(slot.do, slot.S, dq, FIRST)
        if form.DELTA:
            up = add(slot.dv, slot.S, up, FIRST)
        end = add(slot.N, slot.D, end, FIRST)
        if block > 0:
            dP = tlx.async_dot_wait(AT_ONCE, dP)
            values.release(turn * BLOCKS + block - 1)
    dP = tlx.async_dot_wait(LATE, dP)
    if form.DELTA:
        dA = tlx.async_dot_wait(LATE, dA)
    if form.GATE == BY_HEAD:
        shared = tlx.async_dot_wait(LATE, shared)
    return Sums(dP, dA, dq, up, end, shared)


@mimw.jit
def place_scores(of, b, dP, dA, scale, form):
    """Scores below the diagonal, with the decay between their rows, to where they are operands, as they are and turned."""
    if form.GATE == BY_HEAD:
        factor = between(b, False)
    else:
        factor = tl.where(tl.arange(0, C)[:, None] > tl.arange(0, C)[None, :], 1.0, 0.0)
    tlx.local_store(dP, (of.dP * (factor * scale)).to(dP.dtype))
    if form.DELTA:
        tlx.local_store(dA, (of.dA * -factor).to(dA.dtype))


@mimw.jit
def rise(x, b, factor, form):
    """x e^b, times a number."""
    if form.GATE == BY_HEAD:
        return x * (tl.exp2(b * LOG2_E) * factor)[:, None]
    else:
        return x * factor


@mimw.jit
def last_of(b):
    """b of the chunk's last row, from where b lies."""
    return tl.sum(tl.sum(tlx.local_load(tlx.local_slice(b, [0, C - 1], [1, 1])), 1), 0)


@mimw.jit
def compute(values, rows, held, results, scores, count, problem, form):
    """dq and dk of place after place; `held` are the buffers of `rows`. The compiler does not know that `zero` is 0: addresses
    that it knows it moves out of the loop, and has no registers for that. (There are fewer than 2^30 places.)"""
    BLOCKS: tl.constexpr = form.V // form.BV
    turn = 0
    for place in range(tl.program_id(0), count, tl.num_programs(0)):
        zero = place >> 30
        of = sum_values(values, turn, zero, form)
        rows.wait(turn)
        q, k, b, dP, dA, rest = held.q[zero], held.k[zero], None, scores.dP[zero], None, None
        if form.DELTA:
            dA = scores.dA[zero]
        if form.GATE == BY_HEAD:
            b = tl.reshape(tlx.local_load(held.b[0]), (C, ))
        place_scores(of, b, dP, dA, problem.scale, form)
        own = diagonal(of.dP) * problem.scale
        if form.DELTA:
            rest = on_diagonal(of.dA)
        dq, end = tlx.async_dot_wait(0, of.q), tlx.async_dot_wait(0, of.end)
        if form.DELTA:
            up = tlx.async_dot_wait(0, of.up)
        values.release(turn * BLOCKS + BLOCKS - 1)

        down = tlx.async_dot(tlx.local_trans(dP), q)
        if form.DELTA:
            down = tlx.async_dot(tlx.local_trans(dA), k, down)
        dq = tlx.async_dot(dP, k, rise(dq, b, problem.scale, form))
        if form.DELTA:
            up = tlx.async_dot(dA, k, rise(up, b, -1.0, form))
        queries, keys = tlx.local_load(q), tlx.local_load(k)
        if form.GATE == BY_HEAD:
            last = last_of(held.b[0]) * LOG2_E
            end = end * tl.exp2(last - b * LOG2_E)[:, None]
            behind = on_diagonal(of.shared) * tl.exp2(last)
            ends = parts_of_rows(keys * end, form.K) + behind
        dq, down = tlx.async_dot_wait(0, dq), tlx.async_dot_wait(0, down)
        if form.DELTA:
            up = tlx.async_dot_wait(0, up)
        rows.release(turn)

        if form.GATE == BY_HEAD:
            if form.DELTA:
                db = queries * dq + keys * (up - down)
            else:
                db = queries * dq - keys * down
            db = parts_of_rows(db, form.K) + behind
        given = results.acquire(2 * turn)
        tlx.local_store(given.rows, (dq + own[:, None] * keys).to(given.rows.dtype))
        results.commit(2 * turn)
        given = results.acquire(2 * turn + 1)
        if form.GATE == BY_HEAD:
            tlx.local_store(given.db, db)
            tlx.local_store(given.ends, ends)
        if form.DELTA:
            tlx.local_store(given.rest, rest)
            down += up
        tlx.local_store(given.rows, (down + end + own[:, None] * queries).to(given.rows.dtype))
        results.commit(2 * turn + 1)
        turn += 1
