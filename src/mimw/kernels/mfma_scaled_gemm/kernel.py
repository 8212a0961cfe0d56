"""`C = A B^T` of numbers in microscaling formats on gfx950: a scale for 32 of them along K, and products by scaled MFMA.

Input: pointers of A, B, their scales and C, sizes, strides, and the constants of a launch (nouns.py). Output: C is written:

    grid, args, meta = arguments(a, b, c, scale_a, scale_b)
    mfma_scaled_gemm[grid](*args, **meta)

A program computes one tile of C. Tiles of A and B go straight to LDS up to two steps ahead (streams.py), so do their scales; two
main loops take them from there: `ping_pong` by eight waves, `interleave` by four.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..gemm.tiles import output_tiles, tile_origin
from ..mfma_gemm.order import tile_of_xcd
from . import interleave, ping_pong
from .operands import part, scales_of
from .output import store


@mimw.jit
def mfma_scaled_gemm(a, b, c, scale_a, scale_b, sizes, steps, FORM: tl.constexpr):
    """C[m, n] = sum over k of A[m, k] scale_a[m, k // 32] B[n, k] scale_b[n, k // 32], summed in fp32."""
    tile = tile_of_xcd(tl.program_id(0), output_tiles(sizes.M, sizes.N, FORM), FORM.XCDS)
    m, n = tile_origin(tile, sizes.M, sizes.N, FORM)
    m, n = tlx.assume_uniform(m), tlx.assume_uniform(n)
    HALF_M: tl.constexpr = FORM.BM // 2
    HALF_N: tl.constexpr = FORM.BN // 2
    count = tl.cdiv(sizes.K, FORM.BK)
    upper = part(a, m, sizes.M, steps.a, FORM, HALF_M, sizes.K, FORM.A_FORMAT)
    lower = part(a, m + HALF_M, sizes.M, steps.a, FORM, HALF_M, sizes.K, FORM.A_FORMAT)
    scales_a = scales_of(scale_a, m, sizes.M, steps.scale_a, sizes.K, FORM, FORM.BM)
    scales_b = scales_of(scale_b, n, sizes.N, steps.scale_b, sizes.K, FORM, FORM.BN)
    if FORM.PING_PONG:
        columns = part(b, n, sizes.N, steps.b, FORM, FORM.BN, sizes.K, FORM.B_FORMAT)
        sums = ping_pong.multiply(upper, lower, columns, scales_a, scales_b, count, FORM)
        store(sums[0], c, m, n, sizes, steps.c)
        store(sums[1], c, m + HALF_M, n, sizes, steps.c)
    else:
        left = part(b, n, sizes.N, steps.b, FORM, HALF_N, sizes.K, FORM.B_FORMAT)
        right = part(b, n + HALF_N, sizes.N, steps.b, FORM, HALF_N, sizes.K, FORM.B_FORMAT)
        sums = interleave.multiply(upper, lower, left, right, scales_a, scales_b, count, FORM)
        store(sums[0], c, m, n, sizes, steps.c)
        store(sums[1], c, m, n + HALF_N, sizes, steps.c)
        store(sums[2], c, m + HALF_M, n, sizes, steps.c)
        store(sums[3], c, m + HALF_M, n + HALF_N, sizes, steps.c)
