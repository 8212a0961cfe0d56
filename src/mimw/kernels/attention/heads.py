"""Heads whose width is no power of two, as Triton's tiles are: 96 = 64 + 32 and 192 = 128 + 64, as two tiles of a slot.

A head of 96 may be one tile, too (`Configuration.whole`), and has no rest then.

Input: slots of pipes with the field `rows`, and `rest` where heads have a rest; sums of p V as
`Columns` (nouns.py). Output: the products of whole heads. For example, with heads of 96:

    scores_of(q, k)                 q.rows k.rows^T + q.rest k.rest^T
    weigh(p, v, acc)                acc.first + p v.rows, acc.rest + p v.rest
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from .nouns import Columns, Inputs


@triton.constexpr_function
def has_rest(slot):
    """True if the heads of a slot, or of a pipe, have a rest."""
    return "rest" in slot.fields


@mimw.jit
def dots(acc):
    """The number of products that add to the sums."""
    if acc.rest is None:
        return 1
    else:
        return 2


@mimw.jit
def pipe_of(capacity: tl.constexpr, readers: tl.constexpr, name: tl.constexpr, rows, rest):
    """A pipe of heads: `rest` is None for those without one."""
    if rest is None:
        return tle.pipe(capacity=capacity, readers=readers, name=name, rows=rows)
    else:
        return tle.pipe(capacity=capacity, readers=readers, name=name, rows=rows, rest=rest)


@mimw.jit
def alloc(COUNT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, DTYPE: tl.constexpr):
    """An array of tiles, or None for those of no width."""
    if WIDTH == 0:
        return None
    else:
        return tle.gpu.alloc([COUNT, ROWS, WIDTH], DTYPE)


@mimw.jit
def pipes(DTYPE: tl.constexpr, form):
    """(queries, results, keys, values): the first two have a pipe for each consumer, one over the other."""
    ROWS: tl.constexpr = form.BM // form.CONSUMERS
    SLOTS: tl.constexpr = form.Q_STAGES
    queries, results = (), ()
    for c in tl.static_range(form.CONSUMERS):
        tiles, rest = alloc(SLOTS, ROWS, form.D, DTYPE), alloc(SLOTS, ROWS, form.REST, DTYPE)
        queries = queries + (pipe_of(SLOTS, None, "queries", tiles, rest), )
        if form.V_REST == 0:
            results = results + (tle.pipe(capacity=SLOTS, over=queries[c], name="results", rows=tiles), )
        else:
            results = results + (tle.pipe(capacity=SLOTS, over=queries[c], name="results", rows=tiles, rest=rest), )
    keys = pipe_of(form.K_STAGES, consumers(form.CONSUMERS), "keys", alloc(form.K_STAGES, form.BN, form.D, DTYPE),
                   alloc(form.K_STAGES, form.BN, form.REST, DTYPE))
    values = pipe_of(form.V_STAGES, consumers(form.CONSUMERS), "values", alloc(form.V_STAGES, form.BN, form.V_D, DTYPE),
                     alloc(form.V_STAGES, form.BN, form.V_REST, DTYPE))
    return queries, results, keys, values


@mimw.jit
def inputs_of(keys, values, me: tl.constexpr):
    """The ends of consumer `me` of the pipes of keys and values."""
    name: tl.constexpr = consumer(me)
    return Inputs(keys.reader(name), values.reader(name), me)


@mimw.jit
def scores_of(q, k):
    """The product of queries and keys, begun."""
    scores = tlx.async_dot(q.rows, tlx.local_trans(k.rows))
    if has_rest(q):
        scores = tlx.async_dot(q.rest, tlx.local_trans(k.rest), scores)
    return scores


@mimw.jit
def weigh(p, v, acc):
    """acc + p v, begun."""
    if has_rest(v):
        return Columns(tlx.async_dot(p, v.rows, acc.first), tlx.async_dot(p, v.rest, acc.rest))
    else:
        return Columns(tlx.async_dot(p, v.rows, acc.first), None)


@mimw.jit
def waited(acc):
    """The sums when all products are over."""
    if acc.rest is None:
        return Columns(tlx.async_dot_wait(0, acc.first), None)
    else:
        return Columns(tlx.async_dot_wait(0, acc.first), tlx.async_dot_wait(0, acc.rest))


@mimw.jit
def shrunk(acc, factor):
    """The sums times a factor for each row."""
    if acc.rest is None:
        return Columns(acc.first * factor, None)
    else:
        return Columns(acc.first * factor, acc.rest * factor)


@mimw.jit
def nothing(ROWS: tl.constexpr, v):
    """Sums of nothing, for values like those of slot `v`."""
    if has_rest(v):
        return Columns(tl.zeros((ROWS, v.rows.shape[1]), tl.float32), tl.zeros((ROWS, v.rest.shape[1]), tl.float32))
    else:
        return Columns(tl.zeros((ROWS, v.rows.shape[1]), tl.float32), None)


@mimw.jit
def write(slot, acc, factor, dtype: tl.constexpr):
    """The sums times a factor for each row, rounded, to a slot."""
    tlx.local_store(slot.rows, (acc.first * factor).to(dtype))
    if has_rest(slot):
        tlx.local_store(slot.rest, (acc.rest * factor).to(dtype))
