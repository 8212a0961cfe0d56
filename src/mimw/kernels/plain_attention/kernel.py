"""Attention forward for every stride, head dim and GPU: plain Triton, an online softmax, masks at the edges, and rules for scores.

Input: pointers of q, k, v, o and lse, and nouns of a launch (nouns.py). Output: o and lse are written. For example:

    grid, args, meta = arguments(q, k, v, o, lse)
    plain_attention[grid](*args, **meta)

Program (i, j) computes BM queries of one head of one batch, or of one of the packed sequences. Rows that see no key become 0, and
their lse -inf, or the head's sink. With EXACT fp32 products are fp32's own. Windows, soft caps, sinks, slopes and score_mods (MOD)
are what `mimw.kernels.attention` says of them; each is None for a launch without it.
"""

import triton.language as tl

import mimw

from .nouns import matrix_of, sequence, store_tile, tile
from .scores import LN2, LOG2_E, exponents, keys_seen, sloped, within


@mimw.jit
def with_sink(sums, sinks, head):
    """The sums with the head's sink in the denominators."""
    highest, total, acc = sums
    sink = tl.load(sinks + head).to(tl.float32) * LOG2_E
    before, highest = highest, tl.maximum(highest, sink)
    shrink = tl.where(before == float("-inf"), 0.0, tl.exp2(before - highest))
    total = total * shrink + tl.where(sink == float("-inf"), 0.0, tl.exp2(sink - highest))
    return highest, total, acc * shrink[:, None]


@mimw.jit(do_not_specialize=["total_q"])
def plain_attention(q, k, v, o, lse, rules, problem, steps, packed, total_q, FORM: tl.constexpr, MOD: tl.constexpr = None):
    """o = softmax(scale q k^T) v for queries from program_id(0) * BM on, of head program_id(1) of all batches' heads. Batches may
    be `packed` sequences of heads of `total_q` rows: then the problem's lengths say nothing."""
    TF32: tl.constexpr = not FORM.EXACT
    first = tl.program_id(0) * FORM.BM
    batch, head = (tl.program_id(1) // problem.heads).to(tl.int64), (tl.program_id(1) % problem.heads).to(tl.int64)
    shared = head // problem.group
    seq_q, seq_k = problem.seq_q, problem.seq_k
    if packed is not None:
        start, seq_q = sequence(packed.queries, batch)
        key_start, seq_k = sequence(packed.keys, batch)
        q += start * steps.q.row
        o += start * steps.o.row
        k += key_start * steps.k.row
        v += key_start * steps.v.row
        lse += head * total_q + start
    else:
        lse += tl.program_id(1).to(tl.int64) * seq_q
    rows, columns, values = first + tl.arange(0, FORM.BM), tl.arange(0, FORM.D_TILE), tl.arange(0, FORM.DV_TILE)
    queries = tile(matrix_of(q, steps.q, batch, head, seq_q, FORM.D), rows, columns)
    highest, total = tl.full((FORM.BM, ), float("-inf"), tl.float32), tl.zeros((FORM.BM, ), tl.float32)
    acc = tl.zeros((FORM.BM, FORM.DV_TILE), tl.float32)
    begin, end = keys_seen(first, seq_q, seq_k, rules, FORM)
    if packed is not None:
        end = tl.where(first < seq_q, end, 0)
    if rules.slopes is not None:
        slope = tl.load(rules.slopes + batch * rules.slopes_step + head) * LOG2_E
    for start in range(begin, end, FORM.BN):
        keys = start + tl.arange(0, FORM.BN)
        block = tile(matrix_of(k, steps.k, batch, shared, seq_k, FORM.D), keys, columns)
        scores = tl.dot(queries, tl.trans(block), allow_tf32=TF32) * (problem.scale * LOG2_E if MOD is None else problem.scale)
        if MOD is not None:
            scores = MOD(scores, batch, head, rows[:, None], keys[None, :], rules.tables, False) * LOG2_E
        position = rows + (seq_k - seq_q)
        if rules.softcap is not None:   # tanh(x) as 1 - 2 / (1 + exp(2 x)), which any GPU has: wrong by a rounding of the cap
            scores = rules.softcap * LOG2_E * (1 - 2 / (1 + tl.exp2(scores * (2 / rules.softcap))))
        if rules.slopes is not None:
            scores = sloped(scores, slope, position, keys)
        seen = within((keys < seq_k)[None, :], position, keys, rules)
        if FORM.CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + (seq_k - seq_q))
        p, highest, shrink = exponents(tl.where(seen, scores, float("-inf")), highest)
        total = total * shrink + tl.sum(p, 1)
        block = tile(matrix_of(v, steps.v, batch, shared, seq_k, FORM.DV), keys, values)
        acc = tl.dot(p.to(block.dtype), block, acc * shrink[:, None], allow_tf32=TF32)
    if rules.sinks is not None:
        highest, total, acc = with_sink((highest, total, acc), rules.sinks, head)
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    store_tile(matrix_of(o, steps.o, batch, head, seq_q, FORM.DV), rows, values, acc)
    tl.store(lse + rows, (highest + tl.log2(total)) * LN2, mask=rows < seq_q)
