"""Scores of attention in plain Triton: the keys that queries see, rules for scores, one step of an online softmax.

Input: rows of queries, blocks of keys, and products of both. Output: which keys count, and exponents. For example:

    begin, end = keys_seen(first, seq_q, seq_k, rules, form)    blocks of keys for queries from `first` on
    p, highest, shrink = exponents(scores, highest)             sums from before, times `shrink`, and sums of p are sums of all
"""

import triton.language as tl

import mimw

LOG2_E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@mimw.jit
def keys_seen(first, seq_q, seq_k, rules, form):
    """(first, end) of the keys that one of the queries from `first` on sees, in whole blocks."""
    begin, end = 0, seq_k
    reach = first + form.BM + seq_k - seq_q
    if form.CAUSAL:
        end = min(seq_k, reach)
    if rules.right is not None:
        end = min(seq_k, reach + rules.right)
    if rules.left is not None:
        begin = max(0, first + seq_k - seq_q - rules.left) // form.BN * form.BN
    return begin, end


@mimw.jit
def sloped(scores, slope, position, keys):
    """Scores less ALiBi's slope times the distance of a query and a key."""
    return scores - slope * tl.abs((position[:, None] - keys[None, :]).to(tl.float32))


@mimw.jit
def within(seen, position, keys, rules):
    """`seen` without the keys that are outside of a query's window."""
    if rules.left is not None:
        seen = seen & (keys[None, :] >= position[:, None] - rules.left)
    if rules.right is not None:
        seen = seen & (keys[None, :] <= position[:, None] + rules.right)
    return seen


@mimw.jit
def exponents(scores, highest):
    """(powers of 2 of the scores less the highest, the highest scores so far, factors of what was summed before)."""
    before, highest = highest, tl.maximum(highest, tl.max(scores, 1))
    base = tl.where(highest == float("-inf"), 0.0, highest)
    return tl.exp2(scores - base[:, None]), highest, tl.exp2(before - base)
