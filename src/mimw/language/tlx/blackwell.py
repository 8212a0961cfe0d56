"""The product of two tiles in microscaling formats.

Input: the arguments of a kernel's call. Output: Triton's op, or an error with the author's line. For example:

    tlx.dot_scaled(a, sa, "e4m3", b, sb, "e4m3", tiles_per_warp=[2])      ValueError: tiles_per_warp requires 2 entries, got 1
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import capability, word
from ..refuse import refuse
from .arguments import is_int

__all__ = ["dot_scaled"]

_SCALED = ("e2m1", "e4m3", "e5m2")
_BLOCK, _ONE = 32, 127      # elements of a scale; the e8m0 of 1 (OCP Microscaling Formats 1.0)


@word
def dot_scaled(lhs, lhs_scale, lhs_format: tl.constexpr, rhs, rhs_scale, rhs_format: tl.constexpr, acc=None,
               fast_math: tl.constexpr = False, lhs_k_pack: tl.constexpr = True, rhs_k_pack: tl.constexpr = True,
               out_dtype: tl.constexpr = tl.float32, tiles_per_warp: tl.constexpr = None, _semantic=None) -> tl.tensor:
    """`tl.dot_scaled`: the product of two tiles in microscaling formats, in whose errors and meanings it is that.

    args:      lhs, rhs              tiles of rank 2 or 3; fp4 packed in pairs into u8, along K or (`k_pack` false) along the other
                                     dimension; fp8 as such or as u8
               lhs_scale, rhs_scale  u8 (e8m0), one for 32 elements along K, of shapes (M, K / 32) and (N, K / 32); None is 1
               lhs_format, rhs_format  "e2m1", "e4m3", "e5m2", "bf16" or "fp16"
               tiles_per_warp        (opt) a positive int for each dimension: on gfx950 so many instructions of a warp lie side by
                                     side, powers of two, if the operands are fp4 or fp8, packed along K, and large enough; else,
                                     and on other chips, a hint without effect
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
        if capability(_semantic) is None and lhs_k_pack and rhs_k_pack:
            lhs_scale = _given_scale(lhs_scale, lhs, lhs_format, 1, _semantic)
            rhs_scale = _given_scale(rhs_scale, rhs, rhs_format, 0, _semantic)
    product = tl.dot_scaled(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc, fast_math, lhs_k_pack, rhs_k_pack,
                            out_dtype, _semantic=_semantic)
    if tiles_per_warp is not None:
        _semantic.builder.maker(product.handle).set_attr("tiles", tuple(tiles_per_warp))
    return product


def _given_scale(scale, operand, format_: str, along_k: int, semantic):
    """The scales of an operand that is packed along K; ones for those that are left out, of an operand that may have some."""
    if scale is not None or format_ not in _SCALED or len(operand.shape) != 2:
        return scale
    shape = [int(extent) for extent in operand.type.shape]
    blocks = shape[along_k] * (2 if format_ == "e2m1" else 1) // _BLOCK
    return semantic.full([shape[1 - along_k], blocks], _ONE, tl.uint8) if blocks else None
