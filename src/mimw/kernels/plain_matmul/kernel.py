"""`C = A B` for every stride and every GPU: plain Triton, a batch of matrices, masks at the edges.

Input: pointers of A, B and C, and nouns of a launch (nouns.py). Output: C is written. For example:

    kernel, grid, args, meta = arguments(a, b, c)
    plain_matmul[grid](*args, **meta)

Program p computes one BM x BN tile of one matrix of the batch. Addresses are 64 bits, and a stride of 0 is one more stride,
so operands may be broadcast. With EXACT fp32 products are fp32's own, as torch's precision "highest" asks.
"""

import triton.language as tl

import mimw


@mimw.jit
def plain_matmul(a, b, c, source, target, problem, steps, FORM: tl.constexpr):
    """C[z, m, n] = sum over k of A[z, m, k] B[z, k, n], summed in fp32. With WIDEN the operands become fp16 first: fp8, exactly.

    With `source` and `target`, M row numbers each, C[z, target[m], n] = sum over k of A[z, source[m], k] B[z, k, n]: rows outside
    of A are zeros, those outside of C are left out.
    """
    BM: tl.constexpr = FORM.BM
    BN: tl.constexpr = FORM.BN
    BK: tl.constexpr = FORM.BK
    GROUP_M: tl.constexpr = FORM.GROUP_M
    tiles_m, tiles_n = tl.cdiv(problem.M, BM), tl.cdiv(problem.N, BN)
    z, tile = tl.program_id(0) // (tiles_m * tiles_n), tl.program_id(0) % (tiles_m * tiles_n)
    per_band = GROUP_M * tiles_n
    first = (tile // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    m = (first + tile % per_band % height) * BM + tl.arange(0, BM).to(tl.int64)
    n = (tile % per_band // height) * BN + tl.arange(0, BN).to(tl.int64)
    k = tl.arange(0, BK).to(tl.int64)
    z = z.to(tl.int64)
    rows, read, to, write = m, m < problem.M, m, m < problem.M
    if source is not None:
        rows = tl.load(source + m, mask=m < problem.M, other=-1).to(tl.int64)
        to = tl.load(target + m, mask=m < problem.M, other=-1).to(tl.int64)
        read, write = (rows >= 0) & (rows < problem.a_rows), (to >= 0) & (to < problem.c_rows)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, problem.K, BK):
        inside = start + k < problem.K
        at = a + z * steps.a.batch + rows[:, None] * steps.a.row + (start + k)[None, :] * steps.a.column
        left = tl.load(at, mask=read[:, None] & inside[None, :], other=0.0)
        at = b + z * steps.b.batch + (start + k)[:, None] * steps.b.row + n[None, :] * steps.b.column
        right = tl.load(at, mask=inside[:, None] & (n < problem.N)[None, :], other=0.0)
        if FORM.WIDEN:
            left, right = left.to(tl.float16), right.to(tl.float16)
        acc = tl.dot(left, right, acc, allow_tf32=not FORM.EXACT)
    at = c + z * steps.c.batch + to[:, None] * steps.c.row + n[None, :] * steps.c.column
    tl.store(at, acc.to(c.dtype.element_ty), mask=write[:, None] & (n < problem.N)[None, :])
