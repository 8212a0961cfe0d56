"""What comes before and after the products: a number for each query, sums of 0, and at the end dQ out of its sums.

Input: O, dO and the log-sum-exps of the forward kernel; afterwards the sums of sums.py. Output: lse and delta, as the products want
them; dQ. For example:

    before[grid](o, do, lse, None, rows, sums, ...) delta = the sum of each row of O dO, lse in base 2, sums = 0
    after[grid](sums, dq, ...)                      dq = scale * sums, in dq's type

Both are bound by memory and are plain Triton kernels. Both begin with the last head: what the first one leaves in the L2 cache is
what the products begin with, and the second one begins with what they leave.
"""

import triton.language as tl

import mimw

from .sums import tile_of

LOG2_E = tl.constexpr(1.4426950408889634)


@mimw.jit
def last_first():
    """(block, head, batch) of a program, from the last one on."""
    return (tl.num_programs(0) - 1 - tl.program_id(0), (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64),
            (tl.num_programs(2) - 1 - tl.program_id(2)).to(tl.int64))


@mimw.jit
def before(o, do, lse, dlse, rows, sums, o_batch, o_head, o_row, do_batch, do_head, do_row, heads, seq_q, padded, D: tl.constexpr,
           COLUMNS: tl.constexpr, BM: tl.constexpr, SUMS: tl.constexpr):
    """Of BM queries of a head: rows[0] = log2(e) lse, rows[1] = delta - dlse, sums = 0. Queries beyond the end, or that see
    no key, get lse = inf, with which all their probabilities are 0."""
    block, head, batch = last_first()
    queries = block * BM + tl.arange(0, BM)
    columns = tl.arange(0, COLUMNS)
    there = queries < seq_q
    inside = there[:, None] & (columns < D)[None, :]
    at = queries.to(tl.int64)[:, None]
    out = tl.load(o + batch * o_batch + head * o_head + at * o_row + columns[None, :], mask=inside, other=0.0)
    slope = tl.load(do + batch * do_batch + head * do_head + at * do_row + columns[None, :], mask=inside, other=0.0)
    delta = tl.sum(out.to(tl.float32) * slope.to(tl.float32), 1)
    if dlse is not None:
        delta -= tl.load(dlse + (batch * heads + head) * seq_q + queries, mask=there, other=0.0)
    number = tl.load(lse + (batch * heads + head) * seq_q + queries, mask=there, other=float("inf")) * LOG2_E
    number = tl.where(number == float("-inf"), float("inf"), number)
    row = (batch * heads + head) * padded
    tl.store(rows + row + queries, number)
    tl.store(rows + tl.num_programs(2) * heads * padded + row + queries, delta)
    if SUMS:
        elements = tl.arange(0, BM * COLUMNS)
        tl.store(sums + (row + block * BM) * COLUMNS + elements, tl.zeros((BM * COLUMNS, ), tl.float32))


@mimw.jit
def after(sums, dq, scale, dq_batch, dq_head, dq_row, heads, seq_q, padded, D: tl.constexpr, COLUMNS: tl.constexpr,
          SHARE_COLUMNS: tl.constexpr, BM: tl.constexpr):
    """dq = scale * sums for BM queries of a head."""
    block, head, batch = last_first()
    start = sums + ((batch * heads + head) * padded + block * BM) * COLUMNS
    SIZE: tl.constexpr = 64 * SHARE_COLUMNS
    for number in tl.static_range(BM * COLUMNS // SIZE):
        tile = tile_of(tl.load(start + number * SIZE + tl.arange(0, SIZE)), SHARE_COLUMNS)
        queries = (block * BM + (number * 64 if SHARE_COLUMNS == COLUMNS else 0) + tl.arange(0, 64))[:, None]
        columns = ((0 if SHARE_COLUMNS == COLUMNS else number * SHARE_COLUMNS) + tl.arange(0, SHARE_COLUMNS))[None, :]
        at = batch * dq_batch + head * dq_head + queries.to(tl.int64) * dq_row + columns
        tl.store(dq + at, (tile * scale).to(dq.dtype.element_ty), mask=(queries < seq_q) & (columns < D))
