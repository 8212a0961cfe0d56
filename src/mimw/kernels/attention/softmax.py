"""The online softmax of blocks of scores, in base 2: scores times `scale`, which includes log2(e), are exponents of 2.

Input: a block of scores, and the highest score and the sum of each row so far. Output: the block's probabilities, the
new highest scores and sums, and the factor by which earlier results shrink. For example, for a row with the scores 1 3
and scale 1:

    softmax(scores, 2.0, 1.0, 1.0, False)       p = 2^-2 2^0, highest 3, total 1 * 2^-1 + 1.25 = 1.75, shrink 2^-1
"""

import triton.language as tl

import mimw


@mimw.jit
def masked(scores, query, key, seq_q, seq_k, CAUSAL: tl.constexpr):
    """The scores of queries from `query` and keys from `key` on, -inf where a query may not look."""
    keys = key + tl.arange(0, scores.shape[1])[None, :]
    if CAUSAL:
        queries = query + tl.arange(0, scores.shape[0])[:, None]
        return tl.where(keys <= queries + (seq_k - seq_q), scores, float("-inf"))
    return tl.where(keys < seq_k, scores, float("-inf"))


@mimw.jit
def softmax(scores, highest, total, scale, MASKED: tl.constexpr):
    """One block more: (probabilities, highest score, sum of probabilities, by what earlier results shrink)."""
    new = tl.maximum(highest, tl.max(scores, 1))
    base = new * scale
    if MASKED:
        base = tl.where(new == float("-inf"), 0.0, base)  # a row that sees nothing yet
    shrink = tl.exp2(highest * scale - base)
    p = tl.exp2(scores * scale - base[:, None])
    return p, new, total * shrink + tl.sum(p, 1), shrink


@mimw.jit
def first_softmax(scores, query, key, scale, seq_q, seq_k, CAUSAL: tl.constexpr, MASKED: tl.constexpr):
    """(probabilities, highest score, sum of probabilities) of a tile's first block, which is the one that may need a mask."""
    if MASKED:
        scores = masked(scores, query, key, seq_q, seq_k, CAUSAL)
    ROWS: tl.constexpr = scores.shape[0]
    highest, total = tl.full((ROWS, ), float("-inf"), tl.float32), tl.zeros((ROWS, ), tl.float32)
    p, highest, total, _ = softmax(scores, highest, total, scale, MASKED)
    return p, highest, total
