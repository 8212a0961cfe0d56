"""Which program scores which queries against which keys, and where a query's keys begin and end.

Input: the number of a piece of work, the launch's numbers and the form (nouns.py). Output: the piece, or the bounds of a query. For
example, with 8 queries a piece, chunks of 1024 keys, S = T = 2048, and CAUSAL:

    pieces(problem, form)           512: 256 times 8 queries, two chunks each
    work_of(0, rules, form)         the last 8 queries and the first 1024 keys; number 256 has the other 1024 keys

Pieces of one chunk of keys follow each other: programs that run side by side read the same keys, which L2 holds. Of these the last
queries, which with CAUSAL see most keys, come first.
"""

import triton
import triton.language as tl

import mimw

from .nouns import Work


@triton.constexpr_function
def queries_of(form):
    """The queries of a piece of work."""
    return form.QUERIES.value * (form.CONSUMERS.value if form.APART.value else 1)


@triton.constexpr_function
def keys_of(form):
    """The keys of a slot that a consumer looks at."""
    return form.BK.value // (1 if form.APART.value else form.CONSUMERS.value)


@triton.constexpr_function
def page_rows(form):
    """Keys of a slot that lie in one page."""
    return min(form.PAGE.value, form.BK.value) if form.PAGE.value else form.BK.value


@mimw.jit
def pieces(problem, form):
    """The number of pieces of work."""
    return tl.cdiv(problem.S, queries_of(form)) * problem.B * tl.cdiv(problem.T, form.CHUNK)


@mimw.jit
def bounds_of(batch, query, length, rules, form):
    """(start, end): the keys of a query, or of a tile of queries; nothing for a query that there is not."""
    problem = rules.problem
    there = query < problem.S
    row = batch * problem.S + query
    start = row * 0
    if rules.starts is not None:
        start = tl.maximum(tl.load(rules.starts + row, mask=there, other=0), 0)
    end = row * 0 + length
    if form.CAUSAL:
        end = length - problem.S + query + 1
    if rules.ends is not None:
        end = tl.minimum(tl.load(rules.ends + row, mask=there, other=0), length)
    return start, tl.where(there, end, 0)


@mimw.jit
def work_of(number, rules, form):
    """Piece number `number`."""
    problem = rules.problem
    MANY: tl.constexpr = queries_of(form)
    tiles = tl.cdiv(problem.S, MANY)
    chunk, at = number // (tiles * problem.B), number % (tiles * problem.B)
    batch, query = at // tiles, (tiles - 1 - at % tiles) * MANY
    length = problem.T
    if rules.lengths is not None:
        length = tl.minimum(tl.maximum(tl.load(rules.lengths + batch), 0), problem.T)
    first = chunk * form.CHUNK
    stop = tl.minimum(first + form.CHUNK, problem.T)
    start, end = bounds_of(batch, query + tl.arange(0, MANY), length, rules, form)
    lowest, highest = tl.min(tl.where(start < end, start, stop), 0), tl.max(tl.where(start < end, end, 0), 0)
    lowest, highest = tl.maximum(lowest, first), tl.minimum(highest, stop)
    low = lowest // form.BK
    return Work(batch, query, length, first, stop, low, tl.maximum(low, tl.cdiv(highest, form.BK)))
