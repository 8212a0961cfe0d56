"""What a consumer does with a product of keys and heads: sums over the heads of each query, and their way out.

Input: a product, ROWS keys x the heads of QUERIES queries, in registers. Output: scores are written. For example:

    factors = weights_of(weights, batch, query, problem, form)          once for a piece of work
    target = target_of(scores, work, query, rules, form)
    stage(staged, product, factors, scale, 0, form)                     for each product of a slot
    store(staged, target, key, form)

A sum over heads is a chain of multiply-adds over tiles of 8 heads, the narrowest that tensor cores lay out: two heads of a key are
in a thread. The tree of `tl.sum` over all heads would multiply half of them apart from their sum.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .schedule import bounds_of

EACH = tl.constexpr(8)      # heads of a tile


@tle.struct
class Target:
    """The place of a consumer's scores: rows of some queries, which of them there are, the first key of each and the one behind its
    last, the same for those that all look at (none, if a query is not there), and the end of the keys of the piece of work."""

    rows: Any
    there: Any
    start: Any
    end: Any
    low: Any
    high: Any
    stop: Any


@mimw.jit
def weights_of(weights, batch, query, problem, form):
    """Tiles of EACH weights of each query's heads, 0 for a query that there is not."""
    found = ()
    for at in tl.static_range(0, form.QUERIES * form.HEADS, EACH):
        head = tl.arange(0, EACH) + at
        row = (batch * problem.S + query).to(tl.int64) * form.HEADS
        found = found + (tl.load(weights + row + head, mask=query + head // form.HEADS < problem.S, other=0.0), )
    return found


@mimw.jit
def target_of(scores, work, query, rules, form):
    """The target of queries from number `query` on."""
    number = query + tl.arange(0, form.QUERIES)
    start, end = bounds_of(work.batch, number, work.length, rules, form)
    rows = scores + (work.batch * rules.problem.S + number).to(tl.int64) * rules.problem.stride
    return Target(rows, number < rules.problem.S, start, end, tl.max(start, 0), tl.min(end, 0), work.end)


@mimw.jit
def halves(pieces, WIDTH: tl.constexpr):
    """Each piece cut in two, down to EACH columns."""
    if WIDTH == EACH:
        return pieces
    else:
        found = ()
        for i in tl.static_range(len(pieces)):
            for half in tl.static_range(2):
                found = found + (tle.extract_tile(pieces[i], [0, half], [pieces[i].shape[0], WIDTH // 2]), )
        return halves(found, WIDTH // 2)


@mimw.jit
def sum_of(heads, weights, first: tl.constexpr, scale, form):
    """Of each key, the sum over the heads of one query of weights times what is above 0. NaN stays NaN."""
    found = halves((heads, ), form.HEADS)
    acc = tl.maximum(found[0], 0.0, propagate_nan=tl.PropagateNan.ALL) * weights[first][None, :]
    for i in tl.static_range(1, form.HEADS // EACH):
        acc += tl.maximum(found[i], 0.0, propagate_nan=tl.PropagateNan.ALL) * weights[first + i][None, :]
    return tl.sum(acc, 1) * scale


@mimw.jit
def stage(staged, product, weights, scale, part: tl.constexpr, form):
    """The scores of a product, to columns number `part` on of the rows of `staged`, one a query."""
    KEYS: tl.constexpr = staged.shape[1]
    flat = tlx.local_reshape(staged, [form.QUERIES * KEYS])
    for i in tl.static_range(form.QUERIES):
        heads = tle.extract_tile(product, [0, i], [form.ROWS, form.HEADS])
        found = sum_of(heads, weights, i * (form.HEADS // EACH), scale, form)
        tlx.local_store(tlx.local_slice(flat, [i * KEYS + part], [form.ROWS]), found)


@mimw.jit
def store(staged, target, key, form):
    """Staged scores of keys from number `key` on; those outside of a query's bounds are -inf, or left as they are."""
    KEYS: tl.constexpr = staged.shape[1]
    keys = (key + tl.arange(0, KEYS))[None, :]
    pointers = target.rows[:, None] + keys
    sums = tlx.local_load(staged)
    if (key >= target.low) & (key + KEYS <= target.high):
        tl.store(pointers, sums.to(target.rows.dtype.element_ty))
    else:
        inside = (keys >= target.start[:, None]) & (keys < target.end[:, None])
        if form.FILL:
            sums = tl.where(inside, sums, float("-inf"))
            inside = (keys < target.stop) & target.there[:, None]
        tl.store(pointers, sums.to(target.rows.dtype.element_ty), mask=inside)
