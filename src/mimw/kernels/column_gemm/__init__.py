"""Products of few rows for Hopper, as in decoding, by whole columns: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs, fp32 sums.

Input: x (M, K) of up to 128 rows, weights w (K, N) that lie as (N, K). Output: c = row_scale column_scale x w + bias. For example:

    arguments(x, w, c, programs)                            (grid, args, meta) of a launch or `mimw.simulate` of `kernel`
    arguments(x8, w8, c, programs, row_scale=r, column_scale=s)
"""

from __future__ import annotations

from ..checks import PROGRAMS
from ..contract import Contract
from ..descriptors import described
from ..products import TYPES, lying, matrices
from .configs import Configuration, configuration, suits
from .kernel import column_gemm as kernel

CONTRACT = Contract(*matrices("(M, K)", "(K, N)", "(M, N)", ("x", "w", "c")), "row_scale?: fp32 (M|1) contiguous",
                    "column_scale?: fp32 (N|1) contiguous", f"bias?: {TYPES} (N) contiguous", PROGRAMS,
                    "M <= 128 -- more rows are for `gemm`")

__all__ = ["CONTRACT", "Configuration", "arguments", "configuration", "kernel", "suits"]


def arguments(x, w, c, programs: int, chosen: Configuration | None = None, *, row_scale=None, column_scale=None,
              bias=None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = row_scale column_scale x w + bias, by default c = x w.

    args:      x         (M, K), M up to 128, rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               w         (K, N), columns contiguous, as `linear.weight.T` has them
               c         (M, N), rows contiguous, of any of these types
               programs  how many programs: one per SM, never more than tiles
               chosen    by default the one for these sizes; its tiles have all rows
               row_scale, column_scale     fp32, (M, ) and (N, ), or one element for all rows, or columns
               bias      (N, ) of any of these types, added to each row
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(x=x, w=w, c=c, row_scale=row_scale, column_scale=column_scale, bias=bias, programs=programs)
    m, n, k, in_bytes, out_bytes = of.M, of.N, of.K, x.dtype.itemsize, c.dtype.itemsize
    w, w_is_nk = lying(w, "w")
    if not w_is_nk:
        CONTRACT.refuse("w must be contiguous along K: pass the transpose of an (N, K) row-major matrix, or take `skinny_gemm`")
    chosen = chosen or configuration(m, n, k, in_bytes, out_bytes, programs)
    if m > chosen.rows:
        CONTRACT.refuse(f"x has {m} rows, the tiles of {chosen} have {chosen.rows}")
    each = {f"EACH_{name}": scale.shape[0] == length for name, scale, length in
            (("ROW", row_scale, m), ("COLUMN", column_scale, n)) if scale is not None}
    args = *map(described, (x, w, c), chosen.blocks(in_bytes, out_bytes)), m, n, k, chosen.form(in_bytes, out_bytes, **each)
    given = [row_scale, column_scale, bias]
    while given and given[-1] is None:
        given.pop()
    tiles, meta = -(-n // chosen.tn), {"num_warps": 4}
    if chosen.split > 1:
        return (tiles * chosen.split, ), (*args, *given), {**meta, "ctas_per_cga": (chosen.split, 1, 1)}
    return (min(programs, tiles), ), (*args, *given), meta
