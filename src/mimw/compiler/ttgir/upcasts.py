"""Readers of small floats that become larger ones for a product: pairs of fp4, and those that are scaled at once.

Input: `ttg.fp4_to_fp`, `amdg.scaled_upcast_*`. Output: ours. For example:

    %3 = ttg.fp4_to_fp %1 {axis = 1 : i32} : tensor<64x32xi8> -> tensor<64x64xbf16>      unpack_fp4 %1 1
    %4 = amdg.scaled_upcast_fp8 %1 scale %2 : ..                                         fp_to_fp, fp_ext, fmul, fp_trunc

Triton makes these of `tl.dot_scaled` on chips whose products take no scales (sm_80, sm_90, gfx942). A scale is one power of two for
each element, so that the product is exact before it is rounded.
"""

from __future__ import annotations

from ...ir import Scalar, like
from .reading import Here, reads


@reads("ttg.fp4_to_fp")
def unpacked(here: Here):
    return here.op("unpack_fp4", here.operands[0], here.integer("axis"), here.types[0])


@reads("amdg.scaled_upcast_fp4", "amdg.scaled_upcast_fp8", one_cta=True)
def scaled(here: Here):
    value, scale = here.operands
    (type_, ) = here.types
    wide = like(type_, Scalar("fp32"))
    number, factor, product = (here.value(wide) for _ in range(3))
    widened = (here.op("unpack_fp4", value, here.integer("axis"), wide, results=(number, )) if here.name.endswith("fp4") else
               here.op("fp_to_fp", value, wide, None, results=(number, )))
    ops = [widened, here.op("fp_ext", scale, wide, results=(factor, ))]
    if type_ == wide:
        return [*ops, here.op("fmul", number, factor)]
    return [*ops, here.op("fmul", number, factor, results=(product, )), here.op("fp_trunc", product, type_)]
