"""Which blocks of queries look at a block of keys.

Input: the first key and the `Problem` (nouns.py). Output: the first block of queries, how many
there are, and which of these need a mask. For example, with BM = 64, BN = 128, CAUSAL, 256 queries and keys:

    span(128, Problem(1, 256, 256, None, None, 0), 64, 128, True)   (2, 2, 2, 2): blocks 2 and 3, both of which cross the diagonal
    span(0, Problem(1, 256, 256, None, None, 0), 64, 128, True)     (0, 4, 2, 4): the first two of four cross it
    span(0, Problem(1, 256, 256, 10, None, 0), 64, 128, True)       (0, 3, 2, 2): query 137 is the last that sees one of the keys

The window of a query at position p = query + seq_k - seq_q reaches from key p - left to key p + right; None is no bound, CAUSAL a
right of 0. Blocks of queries that see none of the keys are not looked at; where that is all of them, one is, and its mask hides
all keys.
"""

import triton.language as tl

import mimw


@mimw.jit
def span(key, problem, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """(first block of queries, number of blocks, how many of them, from the first on, hold a query that does not see all keys to
    its right, from which number on they hold one that does not see all keys to its left)."""
    seq_q, seq_k, left, right = problem.seq_q, problem.seq_k, problem.left, problem.right
    blocks = tl.cdiv(seq_q, BM)
    ahead = seq_k - seq_q
    first, early = 0, 0
    if CAUSAL or right is not None:
        reach = ahead if CAUSAL else ahead + right
        first = tl.minimum(tl.maximum(key - reach, 0) // BM, blocks - 1)
        early = tl.minimum(tl.cdiv(tl.maximum(key + BN - 1 - reach, 0), BM), blocks) - first
    if left is None:
        return first, blocks - first, early, blocks - first
    else:
        end = tl.minimum(tl.cdiv(tl.maximum(key + BN + left - ahead, 0), BM), blocks)
        count = tl.maximum(end - first, 1)
        early = tl.minimum(early, count)
        late = tl.maximum(key + left - ahead + 1, 0) // BM - first
        return first, count, early, tl.maximum(tl.minimum(late, count), early)
