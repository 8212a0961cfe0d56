"""What a consumer does with a product of keys and heads: sums over the heads of each query, and their way out.

Input: a product, ROWS keys x the heads of QUERIES queries, in registers. Output: scores are written. For example:

    factors = weights_of(weights, batch, query, problem, form)          once for a piece of work
    target = target_of(scores, work, query, rules, form)
    store(staged, sums_of(product, factors, form), scale, target, key, form)

A sum over heads is a chain of multiply-adds over tiles of 8 heads, the narrowest that tensor cores lay out: two heads of a key are
in a thread. The tree of `tl.sum` over all heads would multiply half of them apart from their sum.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .schedule import bounds_of, keys_of

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
def sum_of(heads, weights, first: tl.constexpr, form):
    """Of each key, the sum over the heads of one query of weights times what is above 0. NaN stays NaN."""
    found = halves((heads, ), form.HEADS)
    acc = tl.maximum(found[0], 0.0, propagate_nan=tl.PropagateNan.ALL) * weights[first][None, :]
    for i in tl.static_range(1, form.HEADS // EACH):
        acc += tl.maximum(found[i], 0.0, propagate_nan=tl.PropagateNan.ALL) * weights[first + i][None, :]
    return tl.sum(acc, 1)


@mimw.jit
def sums_of(product, weights, form):
    """A tile of sums, one a key, for each query."""
    found = ()
    for i in tl.static_range(form.QUERIES):
        heads = tle.extract_tile(product, [0, i], [form.ROWS, form.HEADS])
        found = found + (sum_of(heads, weights, i * (form.HEADS // EACH), form), )
    return found


@mimw.jit
def scales_of(cache, key, work, form):
    """The scales of a consumer's keys from number `key` on, once for each query, as `store` has its tile; asked for in front of the
    product. None without any (`cache.scales`), 1 for keys in pages, whose scales come with them."""
    if cache.scales is None:
        return None
    else:
        if form.PAGE > 0:
            return 1.0
        else:
            keys = tl.broadcast_to((key + tl.arange(0, keys_of(form)))[None, :], (form.QUERIES, keys_of(form)))
            return tl.load(cache.scales + keys, mask=keys < work.length, other=0.0)


@mimw.jit
def store(staged, found, scale, target, key, form):
    """Sums of ROWS after ROWS keys from number `key` on, each of them one of each query, times the keys' scales to where the scores
    are: those outside of a query's bounds are -inf, or left as they are. The tile goes through `staged`, to be whole rows."""
    KEYS: tl.constexpr = staged.shape[1]
    flat = tlx.local_reshape(staged, [form.QUERIES * KEYS])
    for part in tl.static_range(KEYS // form.ROWS):
        for i in tl.static_range(form.QUERIES):
            tlx.local_store(tlx.local_slice(flat, [i * KEYS + part * form.ROWS], [form.ROWS]), found[part * form.QUERIES + i])
    sums = tlx.local_load(staged)
    if scale is not None:
        sums = sums * scale
    keys = (key + tl.arange(0, KEYS))[None, :]
    pointers = target.rows[:, None] + keys
    if (key >= target.low) & (key + KEYS <= target.high):
        tl.store(pointers, sums.to(target.rows.dtype.element_ty))
    else:
        inside = (keys >= target.start[:, None]) & (keys < target.end[:, None])
        if form.FILL:
            sums = tl.where(inside, sums, float("-inf"))
            inside = (keys < target.stop) & target.there[:, None]
        tl.store(pointers, sums.to(target.rows.dtype.element_ty), mask=inside)
