"""`C = A B` for every stride and every GPU: plain Triton, a batch of matrices, masks at the edges.

Input: pointers of A, B and C with three strides each, and the extents. Output: C is written. For example:

    kernel, grid, args, meta = arguments(a, b, c)
    plain_matmul[grid](*args, **meta)

Program p computes one BM x BN tile of one matrix of the batch. Addresses are 64 bits, and a stride of 0 is one more stride,
so operands may be broadcast. With EXACT fp32 products are fp32's own, as torch's precision "highest" asks.
"""

import triton.language as tl

import mimw


@mimw.jit
def plain_matmul(a, b, c, source, target, M, N, K, A_ROWS, C_ROWS, a_z, a_m, a_k, b_z, b_k, b_n, c_z, c_m, c_n,
                 BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, EXACT: tl.constexpr,
                 WIDEN: tl.constexpr):
    """C[z, m, n] = sum over k of A[z, m, k] B[z, k, n], summed in fp32. With WIDEN the operands become fp16 first: fp8, exactly.

    With `source` and `target`, M row numbers each, C[z, target[m], n] = sum over k of A[z, source[m], k] B[z, k, n]: rows outside
    of A are zeros, those outside of C are left out.
    """
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    z, tile = tl.program_id(0) // (tiles_m * tiles_n), tl.program_id(0) % (tiles_m * tiles_n)
    per_band = GROUP_M * tiles_n
    first = (tile // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    m = (first + tile % per_band % height) * BM + tl.arange(0, BM).to(tl.int64)
    n = (tile % per_band // height) * BN + tl.arange(0, BN).to(tl.int64)
    k = tl.arange(0, BK).to(tl.int64)
    z = z.to(tl.int64)
    rows, read, to, write = m, m < M, m, m < M
    if source is not None:
        rows = tl.load(source + m, mask=m < M, other=-1).to(tl.int64)
        to = tl.load(target + m, mask=m < M, other=-1).to(tl.int64)
        read, write = (rows >= 0) & (rows < A_ROWS), (to >= 0) & (to < C_ROWS)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        inside = start + k < K
        at = a + z * a_z + rows[:, None] * a_m + (start + k)[None, :] * a_k
        left = tl.load(at, mask=read[:, None] & inside[None, :], other=0.0)
        at = b + z * b_z + (start + k)[:, None] * b_k + n[None, :] * b_n
        right = tl.load(at, mask=inside[:, None] & (n < N)[None, :], other=0.0)
        if WIDEN:
            left, right = left.to(tl.float16), right.to(tl.float16)
        acc = tl.dot(left, right, acc, input_precision="ieee" if EXACT else "tf32")
    at = c + z * c_z + to[:, None] * c_m + n[None, :] * c_n
    tl.store(at, acc.to(c.dtype.element_ty), mask=write[:, None] & (n < N)[None, :])
