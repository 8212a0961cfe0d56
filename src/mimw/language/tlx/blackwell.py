"""The product of two tiles in microscaling formats.

Input: the arguments of a kernel's call. Output: Triton's op, or an error with the author's line. For example:

    tlx.dot_scaled(a, sa, "e4m3", b, sb, "e4m3", tiles_per_warp=[2])      ValueError: tiles_per_warp requires 2 entries, got 1
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import word
from ..refuse import refuse
from .arguments import is_int

__all__ = ["dot_scaled"]

@word
def dot_scaled(lhs, lhs_scale, lhs_format: tl.constexpr, rhs, rhs_scale, rhs_format: tl.constexpr, acc=None,
               fast_math: tl.constexpr = False, lhs_k_pack: tl.constexpr = True, rhs_k_pack: tl.constexpr = True,
               out_dtype: tl.constexpr = tl.float32, tiles_per_warp: tl.constexpr = None, _semantic=None) -> tl.tensor:
    """`tl.dot_scaled`: the product of two tiles in microscaling formats, in whose errors and meanings it is that.

    args:      lhs, rhs              tiles of rank 2 or 3; fp4 packed in pairs into u8, along K or (`k_pack` false) along the other
                                     dimension; fp8 as such or as u8
               lhs_scale, rhs_scale  u8 (e8m0), one for 32 elements along K, of shapes (M, K / 32) and (N, K / 32); None is 1
               lhs_format, rhs_format  "e2m1", "e4m3", "e5m2", "bf16" or "fp16"
               tiles_per_warp        (opt) a positive int for each dimension: a schedule of tiles for AMD, which is checked, and
                                     which Triton's own choice there stands for
    errors:    ValueError for `tiles_per_warp` of another length or with entries below 1; AssertionError for other formats and
               shapes
    lowers to: tt.dot_scaled: tcgen05.mma with block scales on sm_100 where the shapes allow, scaled MFMA on gfx950, and elsewhere
               products of the operands as bf16 (with an fp16 operand on AMD as fp16)
    example:   acc = tlx.dot_scaled(a, a_scale, "e4m3", b, b_scale, "e4m3", acc)
    """
    if tiles_per_warp is not None:
        rank = len(lhs.shape)
        if len(tiles_per_warp) != rank:
            refuse(ValueError, f"tiles_per_warp requires {rank} entries, got {len(tiles_per_warp)}")
        if not all(is_int(tiles) and tiles > 0 for tiles in tiles_per_warp):
            refuse(ValueError, f"tiles_per_warp entries must be positive, got {list(tiles_per_warp)}")
    return tl.dot_scaled(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc, fast_math, lhs_k_pack, rhs_k_pack, out_dtype,
                         _semantic=_semantic)
