"""MLA decoding for every GPU, type and number of heads: plain Triton, an online softmax over blocks of keys, keys split evenly.

Input: pointers of q, of the parts of the cache, page table and lengths, and nouns of a launch. Output: out and lse, or, with SPLITS
above 1, parts in `room`, of which `plain_combine` (../plain_attention_decode) makes them. For example:

    for kernel, grid, args, meta in arguments(q, cache, lengths, out, lse, room): kernel[grid](*args, **meta)

Program (i, j) takes split i of the keys for BM rows: queries of all heads of a sequence. Keys that do not count read as zeros.
"""

import triton.language as tl

import mimw

from ..plain_attention.scores import LN2, LOG2_E
from .nouns import Cache


@mimw.jit
def part_of(array, part, pages, rows, counts, columns, WIDTH: tl.constexpr):
    """Columns of a part of some keys' rows; zeros for keys that do not count, whatever lies there."""
    first = pages * part.page + rows.to(tl.int64) * part.row + part.first
    return tl.load(array + first[:, None] + columns[None, :], mask=counts[:, None] & (columns < WIDTH)[None, :], other=0.0)


@mimw.jit
def keys_of(cache, problem, batch, keys, counts, kind: tl.constexpr, FORM: tl.constexpr):
    """(values, other columns) of some keys, of q's type."""
    if cache.table is None:
        pages, rows = batch + tl.zeros_like(keys).to(tl.int64), keys
    else:
        at = cache.table + batch * problem.table_row + keys // problem.page
        pages, rows = tl.load(at, mask=counts, other=0).to(tl.int64), keys % problem.page
    columns, others = tl.arange(0, FORM.DV_TILE), tl.arange(0, FORM.DT_TILE)
    values = part_of(cache.values, cache.places.head, pages, rows, counts, columns, FORM.DV)
    if cache.scales is not None:
        scale = part_of(cache.scales, cache.places.scales, pages, rows, counts, columns // 128, FORM.DV // 128)
        values = (values.to(tl.float32) * scale).to(tl.bfloat16)        # as the layout's readers have it
    return values.to(kind), part_of(cache.tail, cache.places.tail, pages, rows, counts, others, FORM.DT).to(kind)


@mimw.jit
def plain_mla_decode(q, arrays, table, lengths, out, lse, room, k_scale, scale, problem, places, FORM: tl.constexpr):
    """out (batch, queries, heads, DV) and lse (batch, heads, queries), or one of SPLITS parts of them, as
    `plain_attention_decode` has these."""
    TF32: tl.constexpr = not FORM.EXACT
    BN: tl.constexpr = FORM.BN
    tiles = tl.cdiv(problem.queries * problem.heads, FORM.BM)
    split, batch = tl.program_id(0), (tl.program_id(1) // tiles).to(tl.int64)
    packed = tl.program_id(1) % tiles * FORM.BM + tl.arange(0, FORM.BM)
    counts = packed < problem.queries * problem.heads
    query, head = packed // problem.heads, packed % problem.heads
    columns, others = tl.arange(0, FORM.DV_TILE), tl.arange(0, FORM.DT_TILE)
    at = (batch * problem.queries * problem.heads + packed) * (FORM.DV + FORM.DT)
    wide = tl.load(q + at[:, None] + columns[None, :], mask=counts[:, None] & (columns < FORM.DV)[None, :], other=0.0)
    narrow = tl.load(q + at[:, None] + (FORM.DV + others)[None, :], mask=counts[:, None] & (others < FORM.DT)[None, :], other=0.0)
    length = tl.minimum(tl.maximum(tl.load(lengths + batch), 0).to(tl.int32), problem.capacity)
    last = query * 0 + length - 1
    if FORM.CAUSAL:
        last = query + (length - problem.queries)
    scale = scale * LOG2_E
    if k_scale is not None:
        scale *= tl.load(k_scale)
    cache = Cache(arrays.head, arrays.tail, arrays.scales, table, places)
    each = tl.cdiv(tl.cdiv(length, BN), FORM.SPLITS) * BN
    highest, total = tl.full((FORM.BM, ), float("-inf"), tl.float32), tl.zeros((FORM.BM, ), tl.float32)
    acc = tl.zeros((FORM.BM, FORM.DV_TILE), tl.float32)
    for start in range(split * each, tl.minimum((split + 1) * each, length), BN):
        keys = start + tl.arange(0, BN)
        block, rest = keys_of(cache, problem, batch, keys, keys < length, wide.dtype, FORM)
        scores = tl.dot(wide, tl.trans(block), allow_tf32=TF32)
        scores = tl.dot(narrow, tl.trans(rest), scores, allow_tf32=TF32) * scale
        scores = tl.where(keys[None, :] <= last[:, None], scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores - base[:, None]), tl.exp2(before - base)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(block.dtype), block, acc * shrink[:, None], allow_tf32=TF32)
    if k_scale is not None:
        acc *= tl.load(k_scale)
    line = (batch * problem.heads + head) * problem.queries + query
    written = counts[:, None] & (columns < FORM.DV)[None, :]
    if FORM.SPLITS == 1:
        acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
        rows = (batch * problem.queries * problem.heads + packed) * FORM.DV
        tl.store(out + rows[:, None] + columns[None, :], acc.to(out.dtype.element_ty), mask=written)
        tl.store(lse + line, (highest + tl.log2(total)) * LN2, mask=counts)
    else:
        lines = tl.num_programs(1) // tiles * problem.heads * problem.queries
        place = split.to(tl.int64) * lines + line
        tl.store(room + place[:, None] * FORM.DV + columns[None, :], acc, mask=written)
        stats = room + FORM.SPLITS * lines.to(tl.int64) * FORM.DV
        tl.store(stats + place * 2, highest, mask=counts)
        tl.store(stats + place * 2 + 1, total, mask=counts)
