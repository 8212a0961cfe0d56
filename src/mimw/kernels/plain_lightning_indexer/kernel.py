"""The scores of the lightning indexer for every GPU, number of heads and columns: plain Triton.

Input: pointers of queries, keys, their scales, weights, bounds and scores. Output: scores are written. For example:

    grid, args, meta = arguments(q, k, weights, scores, k_scale)
    plain_lightning_indexer[grid](*args, **meta)

Program (i, j) scores the keys from number j BK on against tile i of the queries, the heads of one after the other, and fills with
-inf what a query does not look at. Tiles of heads and columns are powers of two; what is beyond them is 0.
"""

import triton.language as tl

import mimw

from ..lightning_indexer.nouns import Rules
from ..lightning_indexer.schedule import bounds_of


@mimw.jit
def keys_at(k, scales, table, batch, key, there, problem, strides, form):
    """(columns x keys, the keys' scales): 0 for keys that are not there."""
    page, row = tl.zeros_like(key).to(tl.int64), key
    if table is not None:
        page = tl.load(table + batch.to(tl.int64) * problem.table_step + key // form.PAGE, mask=there, other=0).to(tl.int64)
        there, row = there & (page >= 0) & (page < problem.pages), key % form.PAGE
    column = tl.arange(0, form.D_TILE)
    at = k + page * strides.page + row.to(tl.int64) * strides.row
    rows = tl.load(at[None, :] + column[:, None], mask=there[None, :] & (column < form.D)[:, None], other=0.0)
    scale = tl.full(key.shape, 1.0, tl.float32)
    if scales is not None:
        scale = tl.load(scales + page * strides.scale_page + row, mask=there, other=0.0)
    return rows if form.DIRECT else rows.to(tl.float16), scale


@mimw.jit
def sums_of(q, weights, row, rows, form):
    """Of each key, the sum over heads of weights times what is above 0."""
    head, column = tl.arange(0, form.H_TILE), tl.arange(0, form.D_TILE)
    there = head < form.H
    heads = tl.load(q + (row * form.H + head)[:, None] * form.D + column[None, :], mask=there[:, None] & (column < form.D)[None, :],
                    other=0.0)
    factor = tl.load(weights + row * form.H + head, mask=there, other=0.0)
    product = tl.dot(heads if form.DIRECT else heads.to(tl.float16), rows)
    return tl.sum(tl.maximum(product, 0.0, propagate_nan=tl.PropagateNan.ALL) * factor[:, None], 0)


@mimw.jit
def plain_lightning_indexer(q, k, scales, weights, scores, starts, ends, lengths, table, problem, strides, FORM: tl.constexpr):
    """scores (B, S, T), rows problem.stride apart. The arguments are those of `lightning_indexer`, without descriptors."""
    rules = Rules(problem, starts, ends, lengths)
    tiles = tl.cdiv(problem.S, FORM.QUERIES)
    batch, first = tl.program_id(0) // tiles, tl.program_id(0) % tiles * FORM.QUERIES
    key_of_block = tl.program_id(1) * FORM.BK
    key = key_of_block + tl.arange(0, FORM.BK)
    length = problem.T
    if lengths is not None:
        length = tl.minimum(tl.maximum(tl.load(lengths + batch), 0), problem.T)
    rows, scale = keys_at(k, scales, table, batch, key, key < length, problem, strides, FORM)
    for query in range(first, tl.minimum(first + FORM.QUERIES, problem.S)):
        row = (batch * problem.S + query).to(tl.int64)
        start, end = bounds_of(batch, query, length, rules, FORM)
        sums = tl.full((FORM.BK, ), 0.0, tl.float32)
        if (key_of_block < end) & (start < key_of_block + FORM.BK):
            sums = sums_of(q, weights, row, rows, FORM) * scale
        inside = (key >= start) & (key < end)
        if FORM.FILL:
            sums, inside = tl.where(inside, sums, float("-inf")), key < problem.T
        tl.store(scores + row * problem.stride + key, sums.to(scores.dtype.element_ty), mask=inside)
