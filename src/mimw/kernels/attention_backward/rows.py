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
def before(o, do, lse, dlse, rows, sums, of_o, of_do, numbers, FORM: tl.constexpr):
    """Of BM queries of a head: rows[0] = log2(e) lse, rows[1] = delta - dlse, sums = 0. Queries beyond the end, or that see
    no key, get lse = inf, with which all their probabilities are 0."""
    block, head, batch = last_first()
    queries = block * FORM.BM + tl.arange(0, FORM.BM)
    columns = tl.arange(0, FORM.DV_COLUMNS)
    there = queries < numbers.seq_q
    inside = there[:, None] & (columns < FORM.DV)[None, :]
    at = queries.to(tl.int64)[:, None]
    out = tl.load(o + batch * of_o.batch + head * of_o.head + at * of_o.row + columns[None, :], mask=inside, other=0.0)
    slope = tl.load(do + batch * of_do.batch + head * of_do.head + at * of_do.row + columns[None, :], mask=inside, other=0.0)
    delta = tl.sum(out.to(tl.float32) * slope.to(tl.float32), 1)
    if dlse is not None:
        delta -= tl.load(dlse + (batch * numbers.heads + head) * numbers.seq_q + queries, mask=there, other=0.0)
    number = tl.load(lse + (batch * numbers.heads + head) * numbers.seq_q + queries, mask=there, other=float("inf")) * LOG2_E
    number = tl.where(number == float("-inf"), float("inf"), number)
    row = (batch * numbers.heads + head) * numbers.padded
    tl.store(rows + row + queries, number)
    tl.store(rows + tl.num_programs(2) * numbers.heads * numbers.padded + row + queries, delta)
    if FORM.SHARE_COLUMNS:
        start = sums + (row + block * FORM.BM) * FORM.COLUMNS
        for part in tl.static_range(FORM.COLUMNS // 64):
            tl.store(start + part * FORM.BM * 64 + tl.arange(0, FORM.BM * 64), tl.zeros((FORM.BM * 64, ), tl.float32))


@mimw.jit
def after(sums, dq, scale, of_dq, numbers, FORM: tl.constexpr):
    """dq = scale * sums for BM queries of a head."""
    block, head, batch = last_first()
    BM: tl.constexpr = FORM.BM
    COLUMNS: tl.constexpr = FORM.COLUMNS
    SHARE_COLUMNS: tl.constexpr = FORM.SHARE_COLUMNS
    SIZE: tl.constexpr = 64 * SHARE_COLUMNS
    start = sums + ((batch * numbers.heads + head) * numbers.padded + block * BM) * COLUMNS
    for number in tl.static_range(BM * COLUMNS // SIZE):
        tile = tile_of(tl.load(start + number * SIZE + tl.arange(0, SIZE)), SHARE_COLUMNS)
        queries = (block * BM + (number * 64 if SHARE_COLUMNS == COLUMNS else 0) + tl.arange(0, 64))[:, None]
        columns = ((0 if SHARE_COLUMNS == COLUMNS else number * SHARE_COLUMNS) + tl.arange(0, SHARE_COLUMNS))[None, :]
        at = batch * of_dq.batch + head * of_dq.head + queries.to(tl.int64) * of_dq.row + columns
        tl.store(dq + at, (tile * scale).to(dq.dtype.element_ty), mask=(queries < numbers.seq_q) & (columns < FORM.D))
