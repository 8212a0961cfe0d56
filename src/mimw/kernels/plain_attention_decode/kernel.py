"""Attention with a cache of keys and values for every stride, head dim, page size and GPU: plain Triton, keys split evenly.

Input: pointers of q, caches, page table and lengths with their strides. Output: o and lse, or, with SPLITS above 1, parts in
`room`, of which `plain_combine` makes them. For example:

    launches = arguments(q, k_cache, v_cache, lengths, o, lse, room)
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

Program (i, j) takes split i of the keys for BM rows: queries of heads that share a head of K and V. A row that sees no key
becomes 0, and its lse -inf, or the head's sink. With EXACT fp32 products are fp32's own.
"""

import triton.language as tl

import mimw

LOG2_E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@mimw.jit
def keys_of(cache, table, table_row, batch, keys, counts, head, page, page_step, row_step, head_step, columns, step,
            WIDTH: tl.constexpr):
    """Rows of a cache, zeros for keys that do not count: what lies there may be NaN."""
    if table is not None:
        numbers = tl.load(table + batch * table_row + keys // page, mask=counts, other=0).to(tl.int64)
        rows = keys % page
    else:
        numbers, rows = batch + tl.zeros_like(keys), keys
    at = (numbers * page_step + rows.to(tl.int64) * row_step)[:, None] + head * head_step + columns.to(tl.int64)[None, :] * step
    return tl.load(cache + at, mask=counts[:, None] & (columns < WIDTH)[None, :], other=0.0)


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
def plain_attention_decode(q, k, v, table, lengths, o, lse, room, sinks, k_scale, v_scale, scale_step, scale, softcap, left,
                           queries, heads, group, page, capacity, table_row, q_b, q_s, q_h, q_d, k_p, k_s, k_h, k_d, v_p, v_s, v_h,
                           v_d, o_b, o_s, o_h, o_d, D: tl.constexpr, DV: tl.constexpr, D_TILE: tl.constexpr, DV_TILE: tl.constexpr,
                           BM: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr, EXACT: tl.constexpr):
    """o (batch, queries, heads, DV) and lse (batch, heads, queries), or one of SPLITS parts: sums of p V, then (highest score
    in base 2, sum of probabilities), each as (SPLITS, batch, heads, queries, ...)."""
    PRECISION: tl.constexpr = "ieee" if EXACT else "tf32"
    tiles = tl.cdiv(queries * group, BM)
    split, shared = tl.program_id(0), tl.program_id(1) // tiles % (heads // group)
    batch = (tl.program_id(1) // tiles // (heads // group)).to(tl.int64)
    packed = tl.program_id(1) % tiles * BM + tl.arange(0, BM)
    counts = packed < queries * group
    query, head = packed // group, shared * group + packed % group
    columns, values = tl.arange(0, D_TILE), tl.arange(0, DV_TILE)
    at = batch * q_b + query.to(tl.int64)[:, None] * q_s + head.to(tl.int64)[:, None] * q_h + columns.to(tl.int64)[None, :] * q_d
    rows = tl.load(q + at, mask=counts[:, None] & (columns < D)[None, :], other=0.0)
    length = tl.minimum(tl.maximum(tl.load(lengths + batch), 0).to(tl.int32), capacity)
    last = query + (length - queries)
    lowest = 0
    if left is not None:
        lowest = tl.maximum(length - queries - left, 0) // BN * BN
    each = tl.cdiv(tl.cdiv(length - lowest, BN), SPLITS) * BN
    highest, total = tl.full((BM, ), float("-inf"), tl.float32), tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, DV_TILE), tl.float32)
    if k_scale is not None:
        scale *= tl.load(k_scale + shared * scale_step)
    for start in range(lowest + split * each, tl.minimum(lowest + (split + 1) * each, length), BN):
        keys = start + tl.arange(0, BN)
        there = keys < length
        block = keys_of(k, table, table_row, batch, keys, there, shared.to(tl.int64), page, k_p, k_s, k_h, columns, k_d, D)
        block = block.to(rows.dtype)
        scores = tl.dot(rows, tl.trans(block), input_precision=PRECISION) * (scale * LOG2_E)
        if softcap is not None:     # tanh(x) as 1 - 2 / (1 + exp(2 x)), which any GPU has
            scores = softcap * LOG2_E * (1 - 2 / (1 + tl.exp2(scores * (2 / softcap))))
        seen = keys[None, :] <= last[:, None]
        if left is not None:
            seen = seen & (keys[None, :] >= last[:, None] - left)
            there = there & (keys >= length - queries - left)
        scores = tl.where(seen, scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores - base[:, None]), tl.exp2(before - base)
        total = total * shrink + tl.sum(p, 1)
        block = keys_of(v, table, table_row, batch, keys, there, shared.to(tl.int64), page, v_p, v_s, v_h, values, v_d, DV)
        block = block.to(rows.dtype)
        acc = tl.dot(p.to(block.dtype), block, acc * shrink[:, None], input_precision=PRECISION)
    if v_scale is not None:
        acc *= tl.load(v_scale + shared * scale_step)
    line = (batch * heads + head) * queries + query
    if SPLITS == 1:
        highest, total, acc = with_sink(highest, total, acc, head, counts, sinks)
        at = batch * o_b + query.to(tl.int64)[:, None] * o_s + head.to(tl.int64)[:, None] * o_h + values.to(tl.int64)[None, :] * o_d
        tl.store(o + at, acc.to(o.dtype.element_ty), mask=counts[:, None] & (values < DV)[None, :])
        tl.store(lse + line, (highest + tl.log2(total)) * LN2, mask=counts)
    else:
        lines = tl.num_programs(1) // tiles // (heads // group) * heads * queries
        place = split.to(tl.int64) * lines + line
        tl.store(room + place[:, None] * DV + values[None, :], acc, mask=counts[:, None] & (values < DV)[None, :])
        stats = room + SPLITS * lines.to(tl.int64) * DV
        tl.store(stats + place * 2, highest, mask=counts)
        tl.store(stats + place * 2 + 1, total, mask=counts)


@mimw.jit
def plain_combine(o, lse, room, sinks, queries, heads, o_b, o_s, o_h, o_d, DV: tl.constexpr, DV_TILE: tl.constexpr,
                  SPLITS: tl.constexpr, PARTS: tl.constexpr):
    """One row by each program: the parts in the order of keys, PARTS of them at a time."""
    line, lines = tl.program_id(0), tl.num_programs(0).to(tl.int64)
    values = tl.arange(0, DV_TILE)
    highest, total = tl.full((1, ), float("-inf"), tl.float32), tl.zeros((1, ), tl.float32)
    acc = tl.zeros((1, DV_TILE), tl.float32)
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
    at = (line // queries // heads).to(tl.int64) * o_b + query.to(tl.int64) * o_s + head.to(tl.int64) * o_h
    tl.store(o + at + values.to(tl.int64)[None, :] * o_d, acc.to(o.dtype.element_ty), mask=(values < DV)[None, :])
    tl.store(lse + line + one, (highest + tl.log2(total)) * LN2)
