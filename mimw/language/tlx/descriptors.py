"""Tensor descriptors made in device memory. Not offered yet: each word checks its arguments, then says so."""

from __future__ import annotations

import triton.language.core as tl

from ..core import not_yet, word
from .arguments import is_int
from .types import tensor_descriptor_ptr


@word
def allocate_tensor_descriptor(num: tl.constexpr, _semantic=None) -> tensor_descriptor_ptr:
    """Global scratch for `num` descriptors of 128 bytes, private to the CTA; not offered yet."""
    if not is_int(num) or num < 1:
        raise ValueError(f"allocate_tensor_descriptor: num must be a positive constexpr int, got {num!r}")
    raise not_yet(_semantic, "allocate_tensor_descriptor")


@word
def make_tensor_descriptor(desc_ptr, base, shape, strides, block_shape: tl.constexpr, padding_option: tl.constexpr = "zero",
                           _semantic=None):
    """Build a descriptor in device memory; not offered yet.

    not:       TypeError for a `desc_ptr` that is no slot; ValueError for a rank outside 1..5, unequal lengths, a last block
               extent below 16 bytes, a last stride that is not 1, and NaN padding of integers
    """
    if desc_ptr is not None and not isinstance(desc_ptr, tensor_descriptor_ptr):
        raise TypeError(f"make_tensor_descriptor: desc_ptr must be a tensor_descriptor_ptr or None, got {type(desc_ptr).__name__}")
    if not 1 <= len(shape) <= 5:
        raise ValueError(f"make_tensor_descriptor: the rank must be 1 to 5, got {len(shape)}")
    if not len(shape) == len(strides) == len(block_shape):
        raise ValueError(f"make_tensor_descriptor: shape, strides and block_shape must have one length, "
                         f"got {len(shape)}, {len(strides)} and {len(block_shape)}")
    element = base.dtype.element_ty
    inner = block_shape[-1] * element.primitive_bitwidth // 8
    if inner < 16:
        raise ValueError(f"make_tensor_descriptor: the last block dimension must have at least 16 bytes, got {inner}")
    if not is_int(strides[-1]) or strides[-1] != 1:
        raise ValueError(f"make_tensor_descriptor: the last stride must be constexpr 1, got {strides[-1]}")
    if padding_option not in ("zero", "nan"):
        raise ValueError(f"make_tensor_descriptor: padding_option must be 'zero' or 'nan', got {padding_option!r}")
    if padding_option == "nan" and element.is_int():
        raise ValueError(f"make_tensor_descriptor: padding_option 'nan' needs a floating-point type, got {element}")
    raise not_yet(_semantic, "make_tensor_descriptor", hint="use tl.make_tensor_descriptor or a host descriptor")


@word
def reinterpret_tensor_descriptor(desc_ptr, block_shape: tl.constexpr, dtype: tl.constexpr, _semantic=None):
    """An existing descriptor slot as a descriptor of that block shape and dtype; not offered yet."""
    if not isinstance(desc_ptr, tensor_descriptor_ptr):
        raise TypeError(f"reinterpret_tensor_descriptor: desc_ptr must be a tensor_descriptor_ptr, got {type(desc_ptr).__name__}")
    raise not_yet(_semantic, "reinterpret_tensor_descriptor")
