"""Tensor descriptors made in device memory, in slots that tasks share.

Input: the arguments of a kernel's call. Output: ops `descriptor_slots`, `fill_descriptor_slot` and
`view_descriptor_slot`. For example:

    slots = tlx.allocate_tensor_descriptor(2)                                %slots = descriptor_slots count=2 : ..
    tlx.make_tensor_descriptor(slot, pointer, [128, 64], [64, 1], [64, 64])  fill_descriptor_slot %slot, %pointer, ..
    tlx.reinterpret_tensor_descriptor(slot, [64, 64], tl.float16)            view_descriptor_slot %slot : desc<..>
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import word
from ..refuse import refuse
from .arguments import is_int, needs_hopper
from .tdm import mover_chip
from .types import tensor_descriptor_ptr

__all__ = ["allocate_tensor_descriptor", "make_tensor_descriptor", "reinterpret_tensor_descriptor"]

_NO_SLOTS = "make it where it is used, by make_tensor_descriptor(None, ...) there"


@word
def allocate_tensor_descriptor(num: tl.constexpr, _semantic=None) -> tensor_descriptor_ptr:
    """Reserve slots for `num` descriptors in global memory, private to the CTA; their contents are undefined.

    args:      num - positive constexpr int, else ValueError
    errors:    TargetError below sm_90, NotImplementedError on gfx942 and gfx950
    not:       without an allocator: the launch takes the memory from `triton.set_allocator`
    lowers to: ttg.global_scratch_alloc, 128 bytes a slot, 128-byte aligned
    example:   slots = tlx.allocate_tensor_descriptor(2)
    """
    if not is_int(num) or num < 1:
        refuse(ValueError, f"allocate_tensor_descriptor: num must be a positive constexpr int, got {num!r}")
    _needs_descriptors("allocate_tensor_descriptor", _semantic, instead=_NO_SLOTS)
    return tensor_descriptor_ptr(_semantic.builder.record("descriptor_slots", num).results[0], num)


def _needs_descriptors(name: str, semantic, **otherwise: str) -> None:
    """An error on chips without an engine that copies by descriptors, unless the words become others there."""
    if mover_chip(semantic) is None:
        needs_hopper(name, semantic, **otherwise)


def _single_slot(name: str, slot, semantic) -> tensor_descriptor_ptr:
    """`slot`, an array of one indexed; an error for larger arrays."""
    if slot.num > 1:
        refuse(KernelError, f"{name}: `desc_ptr` must be one slot, but it is an array of {slot.num}",
                            mend="index it: `desc_ptr[i]`")
    return slot.at(0, semantic) if slot.num else slot


@word
def make_tensor_descriptor(desc_ptr, base, shape, strides, block_shape: tl.constexpr, padding_option: tl.constexpr = "zero",
                           _semantic=None) -> tl.tensor_descriptor:
    """Build a descriptor in device memory; executed by all threads of the task.

    args:      desc_ptr       - a slot (or array of one), overwritten; None takes memory of its own, one place per call site
               base           - scalar pointer, 16-byte aligned
               shape, strides - scalars in elements, a dimension each (rank 1 to 5); the last stride is constexpr 1, the others
                                are multiples of 16 bytes
               block_shape    - constexpr extents; the last one has at least 16 bytes
               padding_option - what out of bounds elements read as: "zero" or (floating point only) "nan"
    orders:    the descriptor -> this task's later uses of it; for other tasks, a barrier between and then
               `reinterpret_tensor_descriptor` (or the captured result)
    errors:    TypeError for a `desc_ptr` that is no slot or a `base` that is no scalar pointer; KernelError for an
               array of several slots; ValueError for the other limits; TargetError below sm_90, NotImplementedError on
               Ascend. On gfx942 and gfx950 it is its parts, and `desc_ptr` None
    not:       while a copy through the slot's old descriptor may still run, which `mimw.check` reports: SourceOverwritten under
               a store, SlotReusedEarly under a load
    lowers to: ttng.tensormap_create, ttng.tensormap_fenceproxy_acquire (PTX tensormap.replace, tensormap.cp_fenceproxy); on
               gfx1250 tt.make_tensor_descriptor, which is a value in registers, and stores of its numbers to the slot
    example:   desc = tlx.make_tensor_descriptor(slots[0], x_ptr, [M, N], [N, 1], [64, 64])
    """
    if desc_ptr is not None and not isinstance(desc_ptr, tensor_descriptor_ptr):
        refuse(TypeError, f"make_tensor_descriptor: desc_ptr must be a tensor_descriptor_ptr or None, got "
                          f"{type(desc_ptr).__name__}")
    _check_tensor(base, shape, strides, block_shape, padding_option)
    _needs_descriptors("make_tensor_descriptor", _semantic, mapped="descriptors")
    element = base.dtype.element_ty
    _semantic._check_tensor_descriptor_alignment_static(strides, element.primitive_bitwidth // 8)
    block = tl.block_type(element, tl._unwrap_shape(block_shape))
    slot = None if desc_ptr is None else _single_slot("make_tensor_descriptor", desc_ptr, _semantic).handle
    shape = [_semantic.make_scalar(extent, tl.int32) for extent in shape]
    strides = [_semantic.make_scalar(stride, tl.int64) for stride in strides]
    builder = _semantic.builder
    handle = builder.record(
        "fill_descriptor_slot", slot, base.handle, tuple(extent.handle for extent in shape),
        tuple(stride.handle for stride in strides), _semantic._str_to_padding_option(padding_option),
        type=builder.create_tensor_descriptor_type(block.to_ir(builder), element.is_int_signed())).results[0]
    return tl.tensor_descriptor(handle, shape, strides, block)


def _check_tensor(base, shape, strides, block_shape, padding_option) -> None:
    if not isinstance(base, tl.tensor) or not base.dtype.is_ptr() or base.type.is_block():
        refuse(TypeError, f"make_tensor_descriptor: base must be a scalar pointer, got {base}")
    if not 1 <= len(shape) <= 5:
        refuse(ValueError, f"make_tensor_descriptor: the rank must be 1 to 5, got {len(shape)}")
    if not len(shape) == len(strides) == len(block_shape):
        refuse(ValueError, f"make_tensor_descriptor: shape, strides and block_shape must have one length, "
                           f"got {len(shape)}, {len(strides)} and {len(block_shape)}")
    element = base.dtype.element_ty
    inner = block_shape[-1] * element.primitive_bitwidth // 8
    if inner < 16:
        refuse(ValueError, f"make_tensor_descriptor: the last block dimension must have at least 16 bytes, got {inner}")
    if not is_int(strides[-1]) or strides[-1] != 1:
        refuse(ValueError, f"make_tensor_descriptor: the last stride must be constexpr 1, got {strides[-1]}")
    if padding_option not in ("zero", "nan"):
        refuse(ValueError, f"make_tensor_descriptor: padding_option must be 'zero' or 'nan', got {padding_option!r}")
    if padding_option == "nan" and element.is_int():
        refuse(ValueError, f"make_tensor_descriptor: padding_option 'nan' needs a floating-point type, got {element}")


@word
def reinterpret_tensor_descriptor(desc_ptr, block_shape: tl.constexpr, dtype: tl.constexpr,
                                  _semantic=None) -> tl.tensor_descriptor_base:
    """The descriptor that was made in a slot, by this task or another.

    args:      desc_ptr    - a slot (or array of one), else TypeError
               block_shape - that of the descriptor
               dtype       - its element type
    orders:    the maker's writes -> uses of the result, if a barrier lies between the maker and this call
    errors:    TypeError as said; KernelError for an array of several slots; TargetError below sm_90,
               NotImplementedError on gfx942 and gfx950
    not:       a conversion: another block shape or dtype than the maker's is undefined (the simulator refuses it). The result has
               no shape and strides.
    lowers to: ttng.tensormap_fenceproxy_acquire, ttng.reinterpret_tensor_descriptor; on gfx1250 loads of those numbers
    example:   desc = tlx.reinterpret_tensor_descriptor(slots[0], [64, 64], tl.float16)
    """
    if not isinstance(desc_ptr, tensor_descriptor_ptr):
        refuse(TypeError, f"reinterpret_tensor_descriptor: desc_ptr must be a tensor_descriptor_ptr, got {type(desc_ptr).__name__}")
    _needs_descriptors("reinterpret_tensor_descriptor", _semantic, instead=_NO_SLOTS)
    builder = _semantic.builder
    block = tl.block_type(dtype, tl._unwrap_shape(block_shape))
    slot = _single_slot("reinterpret_tensor_descriptor", desc_ptr, _semantic)
    type_ = builder.create_tensor_descriptor_type(block.to_ir(builder), dtype.is_int_signed())
    return tl.tensor_descriptor_base(builder.record("view_descriptor_slot", slot.handle, type=type_).results[0], block)
