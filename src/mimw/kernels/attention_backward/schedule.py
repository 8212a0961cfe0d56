"""Which blocks of queries look at a block of keys.

Input: the first key and `shape` = (query heads, seq_q, seq_k, 0). Output: the first block of queries, how many
there are, and how many of these need the causal mask. For example, with BM = 64, BN = 128, CAUSAL, 256 queries and keys:

    span(128, (1, 256, 256, 0), 64, 128, True, False)   (2, 2, 2, 0): blocks 2 and 3, both of which cross the diagonal
    span(0, (1, 256, 256, 0), 64, 128, True, False)     (0, 4, 2, 0)
"""

import triton.language as tl

import mimw


@mimw.jit
def span(key, shape, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, TURNED: tl.constexpr):
    """(first block of queries, number of blocks, how many of them, from the first on, hold a query that does not see all keys, and
    with which of them to begin).

    With TURNED the programs of a head begin with different blocks, so that not all of them add to the same dQ at the same time. A
    causal mask sees to that by itself.
    """
    _, seq_q, seq_k, _ = shape
    blocks = tl.cdiv(seq_q, BM)
    first, masked, turn = 0, 0, 0
    if CAUSAL:
        # Query i sees keys up to i + seq_k - seq_q.
        sees_one = tl.maximum(key - (seq_k - seq_q), 0)
        sees_all = tl.maximum(key + BN - 1 - (seq_k - seq_q), 0)
        first = sees_one // BM
        masked = tl.minimum(tl.cdiv(sees_all, BM), blocks) - first
    elif TURNED:
        turn = tl.program_id(0) * blocks // tl.num_programs(0)
    return first, blocks - first, masked, turn


@mimw.jit
def block_at(i, first, blocks, turn):
    """Which block of queries is number `i` of a program's `blocks`."""
    return first + i + turn - tl.where(i + turn >= blocks, blocks, 0)
