"""Conversions whose rounding random bits decide.

Input: the arguments of a kernel's call. Output: an op of `ir/ops/rounding.py`. For example:

    tlx.stoch_round(x, tl.float8e4nv, tl.randint(seed, at))      stoch_round %x fp8e4nv[..] %random
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import word
from ..refuse import refuse
from .arguments import needs_tensor_memory

__all__ = ["stoch_round"]

_DESTINATIONS = (tl.float8e5, tl.float8e4nv, tl.float16, tl.bfloat16)


@word
def stoch_round(src, dst_ty: tl.constexpr, rand_bits, _semantic=None) -> tl.tensor:
    """`src` rounded to `dst_ty` by random bits: up with the probability of what rounding down would cut off.

    args:      src        fp32 tile or scalar
               dst_ty     tl.float8e5, tl.float8e4nv, tl.float16 or tl.bfloat16
               rand_bits  32 random bits for each element, of the shape of `src`. One instruction rounds neighbours along the last
                          dimension, 4 to fp8 and 2 to fp16 or bf16, by the random bits of the first of them: 16 bits for
                          each element (13 to fp16), which in fp8 two elements share in opposite order
    returns:   what exceeds the largest finite number becomes that number, NaN stays NaN
    errors:    AssertionError below compute capability 10.0, for other types and shapes; ValueError for a tile and a scalar
    lowers to: PTX ISA, "cvt": cvt.rs.satfinite.{e4m3x4, e5m2x4, f16x2, bf16x2}.f32
    example:   y = tlx.stoch_round(x, tl.bfloat16, tl.randint(seed, offsets).to(tl.uint32, bitcast=True))
    """
    needs_tensor_memory("stoch_round", _semantic)
    src, rand_bits = _semantic.to_tensor(src), _semantic.to_tensor(rand_bits)
    if src.dtype != tl.float32:
        refuse(AssertionError, f"stoch_round only supports fp32 source, got {src.dtype}: no other type is supported by the chip",
               mend="cast it: `src.to(tl.float32)`")
    if dst_ty not in _DESTINATIONS:
        refuse(AssertionError, f"stoch_round only supports fp8/fp16/bf16 destination, got {dst_ty}; supported are "
               f"{', '.join(map(str, _DESTINATIONS))}")
    if src.type.is_block() != rand_bits.type.is_block():
        refuse(ValueError, "stoch_round: src and rand_bits must both be block tensors or both scalars, got "
                           f"{src.type} and {rand_bits.type}")
    if src.type.is_block() and src.type.get_block_shapes() != rand_bits.type.get_block_shapes():
        refuse(AssertionError, f"stoch_round: rand_bits must have the shape of src, got {rand_bits.type} for {src.type}")
    if rand_bits.dtype not in (tl.uint32, tl.int32):
        refuse(AssertionError, f"stoch_round: rand_bits must be 32-bit integers, got {rand_bits.dtype}",
               mend="take them from tl.randint, or cast them: `rand_bits.to(tl.uint32)`")
    type_, builder = tl.block_type(dst_ty, src.shape) if src.type.is_block() else dst_ty, _semantic.builder
    return tl.tensor(builder.record("stoch_round", src.handle, type_.to_ir(builder), rand_bits.handle).results[0], type_)
