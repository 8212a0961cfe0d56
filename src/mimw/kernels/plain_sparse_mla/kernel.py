"""Sparse MLA for every GPU, type and number of heads: plain Triton, an online softmax over blocks of listed rows.

Input: pointers of contiguous q, kv, lists of rows with their lengths, out and lse. Output: out and lse are written. For example:

    grid, args, meta = arguments(q, kv, indices, lengths, out, lse)
    plain_sparse_mla[grid](*args, **meta)

Program (s, i, j) computes BH heads, from j BH on, of query s and of KV head i of all batches' KV heads. Rows that do not count
read as zeros and weigh nothing. With EXACT fp32 products are fp32's own.
"""

import triton.language as tl

import mimw

from ..plain_attention.scores import LN2, LOG2_E, exponents


@mimw.jit
def columns(rows, there, first, width, WIDTH: tl.constexpr):
    """Columns first .. first + width of the rows at the pointers `rows`, as a tile of WIDTH; zeros elsewhere."""
    at = tl.arange(0, WIDTH)
    return tl.load(rows[:, None] + (first + at)[None, :], mask=there[:, None] & (at < width)[None, :], other=0.0)


@mimw.jit
def plain_sparse_mla(q, kv, indices, lengths, out, lse, problem, FORM: tl.constexpr):
    """out[b, s, h, :DV] and lse[b, s, h] of BH heads; rows have W columns, the first DV of which are values, too."""
    TF32: tl.constexpr = not FORM.EXACT
    H, HKV, W, DV = problem.H, problem.HKV, problem.W, problem.DV
    query, batch, group = tl.program_id(0), tl.program_id(1) // HKV, tl.program_id(1) % HKV
    share = H // HKV
    within = tl.program_id(2) * FORM.BH + tl.arange(0, FORM.BH)
    there = within < share
    line = batch.to(tl.int64) * problem.S + query
    row = line * H + group * share + within
    length = tl.minimum(tl.load(lengths + line * HKV + group), problem.TOPK)
    wide = columns(q + row * W, there, 0, DV, FORM.DV_TILE)
    tail = columns(q + row * W, there, DV, W - DV, FORM.DT_TILE)
    highest, total = tl.full((FORM.BH, ), float("-inf"), tl.float32), tl.zeros((FORM.BH, ), tl.float32)
    acc = tl.zeros((FORM.BH, FORM.DV_TILE), tl.float32)
    for start in range(0, length, FORM.BK):
        entry = start + tl.arange(0, FORM.BK)
        listed = tl.load(indices + (line * HKV + group) * problem.TOPK + entry, mask=entry < length, other=-1)
        counts = (listed >= 0) & (listed < problem.SKV)
        if FORM.CAUSAL:
            counts = counts & (listed <= query)
        rows = kv + ((batch.to(tl.int64) * problem.SKV + listed) * HKV + group) * W
        values = columns(rows, counts, 0, DV, FORM.DV_TILE)
        scores = tl.dot(wide, tl.trans(values), allow_tf32=TF32)
        scores = tl.dot(tail, tl.trans(columns(rows, counts, DV, W - DV, FORM.DT_TILE)), scores, allow_tf32=TF32)
        scores = tl.where(counts[None, :], scores * (problem.scale * LOG2_E), float("-inf"))
        p, highest, shrink = exponents(scores, highest)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(values.dtype), values, acc * shrink[:, None], allow_tf32=TF32)
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    at = tl.arange(0, FORM.DV_TILE)
    tl.store(out + row[:, None] * DV + at[None, :], acc.to(out.dtype.element_ty), mask=there[:, None] & (at < DV)[None, :])
    logarithm = highest + tl.log2(total)
    if not FORM.BASE_2:
        logarithm = logarithm * LN2
    tl.store(lse + row, tl.where(total == 0.0, float("inf"), logarithm), mask=there)
