"""Attention with a cache of keys and values for every stride, head dim, page size and GPU: plain Triton, keys split evenly.

Input: pointers of q, caches, page table and lengths, and nouns of a launch (nouns.py). Output: o and lse, or, with SPLITS above 1,
parts in `room`, of which `plain_combine` makes them. For example:

    launches = arguments(q, k_cache, v_cache, lengths, o, lse, room)
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

Program (i, j) takes split i of the keys for BM rows: queries of heads that share a head of K and V. A row that sees no key
becomes 0, and its lse -inf, or the head's sink. With EXACT fp32 products are fp32's own.
"""

import triton.language as tl

import mimw

from .nouns import Cache

LOG2_E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@mimw.jit
def rows_of(cache, batch, head, keys, counts, columns):
    """Rows of a cache, zeros for keys that do not count: what lies there may be NaN."""
    if cache.table is not None:
        at = cache.table + batch * cache.problem.table_row + keys // cache.problem.page
        numbers = tl.load(at, mask=counts, other=0).to(tl.int64)
        rows = keys % cache.problem.page
    else:
        numbers, rows = batch + tl.zeros_like(keys), keys
    steps = cache.steps
    first = (numbers * steps.batch + rows.to(tl.int64) * steps.row)[:, None] + head * steps.head
    at = first + columns.to(tl.int64)[None, :] * steps.column
    return tl.load(cache.array + at, mask=counts[:, None] & (columns < cache.WIDTH)[None, :], other=0.0)


@mimw.jit
def place_of(steps, batch, query, head, columns):
    """Offsets of columns of queries of heads."""
    first = batch * steps.batch + query.to(tl.int64)[:, None] * steps.row + head.to(tl.int64)[:, None] * steps.head
    return first + columns.to(tl.int64)[None, :] * steps.column


@mimw.jit
def with_sink(highest, total, acc, head, counts, sinks):
    """Highest scores, sums and results with a sink in the denominators; scores are in base 2."""
    if sinks is not None:
        sink = tl.load(sinks + head, mask=counts, other=float("-inf")).to(tl.float32) * LOG2_E
        before, highest = highest, tl.maximum(highest, sink)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        total = total * tl.exp2(before - base) + tl.exp2(sink - base)
        acc = acc * tl.exp2(before - base)[:, None]
    return highest, total, acc / tl.where(total == 0.0, 1.0, total)[:, None]


@mimw.jit
def plain_attention_decode(q, k, v, table, lengths, o, lse, room, rules, problem, steps, FORM: tl.constexpr):
    """o (batch, queries, heads, DV) and lse (batch, heads, queries), or one of SPLITS parts: sums of p V, then (highest score
    in base 2, sum of probabilities), each as (SPLITS, batch, heads, queries, ...)."""
    TF32: tl.constexpr = not FORM.EXACT
    BM: tl.constexpr = FORM.BM
    BN: tl.constexpr = FORM.BN
    DV: tl.constexpr = FORM.DV
    SPLITS: tl.constexpr = FORM.SPLITS
    tiles = tl.cdiv(problem.queries * problem.group, BM)
    split, shared = tl.program_id(0), tl.program_id(1) // tiles % (problem.heads // problem.group)
    batch = (tl.program_id(1) // tiles // (problem.heads // problem.group)).to(tl.int64)
    packed = tl.program_id(1) % tiles * BM + tl.arange(0, BM)
    counts = packed < problem.queries * problem.group
    query, head = packed // problem.group, shared * problem.group + packed % problem.group
    columns, values = tl.arange(0, FORM.D_TILE), tl.arange(0, FORM.DV_TILE)
    at = place_of(steps.q, batch, query, head, columns)
    rows = tl.load(q + at, mask=counts[:, None] & (columns < FORM.D)[None, :], other=0.0)
    length = tl.minimum(tl.maximum(tl.load(lengths + batch), 0).to(tl.int32), problem.capacity)
    last = query + (length - problem.queries)
    lowest = 0
    if rules.left is not None:
        lowest = tl.maximum(length - problem.queries - rules.left, 0) // BN * BN
    each = tl.cdiv(tl.cdiv(length - lowest, BN), SPLITS) * BN
    highest, total = tl.full((BM, ), float("-inf"), tl.float32), tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, FORM.DV_TILE), tl.float32)
    scale = rules.scale
    if rules.k_scale is not None:
        scale *= tl.load(rules.k_scale + shared * rules.scale_step)
    for start in range(lowest + split * each, tl.minimum(lowest + (split + 1) * each, length), BN):
        keys = start + tl.arange(0, BN)
        there = keys < length
        block = rows_of(Cache(k, steps.k, table, problem, FORM.D), batch, shared.to(tl.int64), keys, there, columns)
        block = block.to(rows.dtype)
        scores = tl.dot(rows, tl.trans(block), allow_tf32=TF32) * (scale * LOG2_E)
        if rules.softcap is not None:     # tanh(x) as 1 - 2 / (1 + exp(2 x)), which any GPU has
            scores = rules.softcap * LOG2_E * (1 - 2 / (1 + tl.exp2(scores * (2 / rules.softcap))))
        seen = keys[None, :] <= last[:, None]
        if rules.left is not None:
            seen = seen & (keys[None, :] >= last[:, None] - rules.left)
            there = there & (keys >= length - problem.queries - rules.left)
        scores = tl.where(seen, scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores - base[:, None]), tl.exp2(before - base)
        total = total * shrink + tl.sum(p, 1)
        block = rows_of(Cache(v, steps.v, table, problem, DV), batch, shared.to(tl.int64), keys, there, values)
        block = block.to(rows.dtype)
        acc = tl.dot(p.to(block.dtype), block, acc * shrink[:, None], allow_tf32=TF32)
    if rules.v_scale is not None:
        acc *= tl.load(rules.v_scale + shared * rules.scale_step)
    line = (batch * problem.heads + head) * problem.queries + query
    if SPLITS == 1:
        highest, total, acc = with_sink(highest, total, acc, head, counts, rules.sinks)
        at = place_of(steps.o, batch, query, head, values)
        tl.store(o + at, acc.to(o.dtype.element_ty), mask=counts[:, None] & (values < DV)[None, :])
        tl.store(lse + line, (highest + tl.log2(total)) * LN2, mask=counts)
    else:
        lines = tl.num_programs(1) // tiles // (problem.heads // problem.group) * problem.heads * problem.queries
        place = split.to(tl.int64) * lines + line
        tl.store(room + place[:, None] * DV + values[None, :], acc, mask=counts[:, None] & (values < DV)[None, :])
        stats = room + SPLITS * lines.to(tl.int64) * DV
        tl.store(stats + place * 2, highest, mask=counts)
        tl.store(stats + place * 2 + 1, total, mask=counts)


@mimw.jit
def plain_combine(o, lse, room, sinks, queries, heads, steps, FORM: tl.constexpr):
    """One row by each program: the parts in the order of keys, PARTS of them at a time."""
    DV: tl.constexpr = FORM.DV
    SPLITS: tl.constexpr = FORM.SPLITS
    PARTS: tl.constexpr = FORM.PARTS
    line, lines = tl.program_id(0), tl.num_programs(0).to(tl.int64)
    values = tl.arange(0, FORM.DV_TILE)
    highest, total = tl.full((1, ), float("-inf"), tl.float32), tl.zeros((1, ), tl.float32)
    acc = tl.zeros((1, FORM.DV_TILE), tl.float32)
    stats = room + SPLITS * lines * DV
    for first in range(0, SPLITS, PARTS):
        split = first + tl.arange(0, PARTS)
        place = split * lines + line
        score = tl.load(stats + place * 2, mask=split < SPLITS, other=float("-inf"))
        weight = tl.load(stats + place * 2 + 1, mask=split < SPLITS, other=0.0)
        inside = (split < SPLITS)[:, None] & (values < DV)[None, :]
        part = tl.load(room + place[:, None] * DV + values[None, :], mask=inside, other=0.0)
        before, highest = highest, tl.maximum(highest, tl.max(score, 0, keep_dims=True))
        base = tl.where(highest == float("-inf"), 0.0, highest)
        shrink, factor = tl.exp2(before - base), tl.exp2(score - base)
        total = total * shrink + tl.sum(weight * factor, 0, keep_dims=True)
        acc = acc * shrink[:, None] + tl.sum(part * factor[:, None], 0, keep_dims=True)
    head, query = line // queries % heads, line % queries
    one = tl.zeros((1, ), tl.int32)
    highest, total, acc = with_sink(highest, total, acc, head + one, one == 0, sinks)
    at = (line // queries // heads).to(tl.int64) * steps.batch + query.to(tl.int64) * steps.row + head.to(tl.int64) * steps.head
    tl.store(o + at + values.to(tl.int64)[None, :] * steps.column, acc.to(o.dtype.element_ty), mask=(values < DV)[None, :])
    tl.store(lse + line + one, (highest + tl.log2(total)) * LN2)
