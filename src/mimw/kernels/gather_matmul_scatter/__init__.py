"""A product of picked rows, its rows sent where they belong, for Hopper and Blackwell: bf16, fp16, tf32 (fp32 inputs), fp8.

Input: a (M, K), b (K, N), row numbers `source` and `target`, both (R). Output: rows of c, (M', N): c[target] = a[source] b.

    arguments(a, b, c, source, target, programs)               (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

Sums are fp32. `blackwell_kernel` is for chips with tensor memory: it has been simulated and compiled, and never run.
"""

from __future__ import annotations

import mimw

from ..checks import PROGRAMS
from ..contract import Contract
from ..products import TYPES, lying
from .blackwell import gather_matmul_scatter_blackwell as blackwell_kernel
from .configs import Configuration
from .kernel import gather_matmul_scatter as kernel

CONTRACT = Contract(f"a: {TYPES} (M, K) tma-all", "b: =a|fp8 (K, N)", f"c: {TYPES} (rows, N) tma-all", "source: i32 (R)",
                    "target: i32 (R)", PROGRAMS)

__all__ = ["CONTRACT", "Configuration", "arguments", "blackwell_kernel", "kernel"]


def arguments(a, b, c, source, target, programs: int, chosen: Configuration | None = None,
              blackwell: bool = False) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c[target[i], :] = a[source[i], :] b for each i.

    args:      a         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               b         (K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns (`x.T` of an (N, K))
               c         (M', N), rows contiguous, of any of these types; rows that `target` does not name stay as they are
               source    (R), int32: rows of a; one outside, or negative, counts as a row of zeros
               target    (R), int32: rows of c; one outside, or negative, is left out. Of equal ones any may win
               programs  how many persistent programs: one per SM, never more than output tiles
               blackwell for `blackwell_kernel`
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(a=a, b=b, c=c, source=source, target=target, programs=programs)
    b, b_is_nk = lying(b, memory="tma-all")
    chosen = chosen or Configuration()
    meta = chosen.meta(a.dtype.itemsize, c.dtype.itemsize, b_is_nk, blackwell)
    describe = mimw.TensorDescriptor.from_tensor
    bn, bk, pieces = (getattr(meta["TILES"], name).value for name in ("BN", "BK", "PIECES"))
    b_block = [bn, bk] if b_is_nk else [bk, bn]
    tiles = -(-of.R // chosen.bm) * -(-of.N // chosen.bn)
    args = (describe(a, [1, bk]), describe(b, b_block), describe(c, [1, bn // pieces]), source, target, of.R, of.N, of.K, of.rows)
    return (min(programs, tiles), ), args, {**meta, "num_warps": 4}

