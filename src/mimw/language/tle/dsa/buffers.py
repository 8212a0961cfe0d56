"""Arrays in local memories: allocation, their values as tensors and back, views of parts.

Input: the arguments of a kernel's call. Output: `local_alloc` in the space, and the ops of `ir/ops/dsa.py`. For example:

    a = tle.dsa.alloc([50], tl.float32, tle.dsa.ascend.UB)      %a = local_alloc buffer<fp32[50] in ub>
    t = tle.dsa.to_tensor(a)                                    %t = dsa_to_tensor %a : fp32[50]
    h = tle.dsa.subview(a, [0], [25], [2])                      %h = dsa_subview %a, [0], [25], [2]
"""

from __future__ import annotations

from math import prod

import triton.language.core as tl

from ....ir import Buffer
from ...core import HandleType, HandleValue, unwrap, word
from ...refuse import refuse
from ..ascend import UB, address_space
from .boxes import box_of, checked_extents, exact_shapes


class buffer_type(HandleType):
    """An array of `shape` in the memory `space`; extents may be any positive ints."""

    def __init__(self, element_ty, shape, space: address_space):
        self.element_ty, self.shape, self.space = element_ty, tuple(unwrap(shape)), space

    @property
    def scalar(self):
        return self.element_ty

    def to_ir(self, builder) -> Buffer:
        return Buffer(stored_type(self.element_ty).to_ir(builder), self.shape, 0, self.space.space)

    def mangle(self) -> str:
        return f"dsa_{self.element_ty.mangle()}S{'_'.join(map(str, self.shape))}S_{self.space.space}"

    def __str__(self) -> str:
        return f"buffer<{self.element_ty}{list(self.shape)} in {self.space.name}>"


class buffer(HandleValue, of=buffer_type):
    """An array in a local memory: `.shape`, `.dtype`, `.space`, and `.type` with all of them."""

    is_local_memory = True

    @property
    def dtype(self):
        return self.type.element_ty

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def space(self) -> address_space:
        return self.type.space


def stored_type(dtype):
    """The type in which elements lie in memory: a truth value takes a byte."""
    return tl.int8 if dtype == tl.int1 else dtype


def is_buffer(name: str, parameter: str, value) -> buffer:
    """`value`, or ValueError unless it is a buffer of `tle.dsa`."""
    if not isinstance(value, buffer):
        given = value.type if isinstance(value, tl.tensor) else value
        refuse(ValueError, f"tle.dsa.{name}: `{parameter}` must be a buffer of tle.dsa, got {given}",
               mend="tle.dsa.alloc makes one, and tle.dsa.to_buffer makes one of a tensor")
    return value


@word
def alloc(shape, dtype, mem_addr_space, _semantic=None):
    """Reserve an array in a local memory.

    args:      shape  - extents, positive compile-time ints; any numbers, powers of two or not
               dtype  - element type; bool takes a byte
               mem_addr_space - tle.dsa.ascend.UB, L1, L0A, L0B or L0C
    returns:   buffer with `.shape`, `.dtype`, `.space` and `.type`; its contents are undefined
    errors:    ValueError for anything else; SharedMemoryError where it does not fit
    lowers to: on a GPU registers, or ttg.local_alloc of the extents rounded up to powers of two
    """
    shape = checked_extents("alloc", "shape", shape)
    if not isinstance(dtype, tl.dtype) or dtype.is_block() or dtype.is_ptr() or dtype == tl.void:
        refuse(ValueError, f"tle.dsa.alloc: dtype must be a scalar tl.dtype such as tl.float16, got {dtype}")
    return allocated("alloc", "mem_addr_space", shape, dtype, mem_addr_space, _semantic)


def allocated(name: str, parameter: str, shape: tuple[int, ...], dtype, space, semantic) -> buffer:
    """A new buffer in `space`."""
    if not isinstance(space, address_space):
        refuse(ValueError, f"tle.dsa.{name}: `{parameter}` must be an address space, got {space!r}",
               mend="tle.dsa.ascend.UB, .L1, .L0A, .L0B or .L0C")
    type_ = buffer_type(dtype, shape, space)
    return type_.value(semantic.builder.record("local_alloc", type_.to_ir(semantic.builder), None, layout=None).results[0])


@word
def to_tensor(buffer, writable: tl.constexpr = True, target_shape=None, _semantic=None) -> tl.tensor:
    """The value of a buffer, as it is now: later writes to the buffer do not change the tensor.

    args:      buffer       - a buffer, or a subview of one
               writable     - whether the compiler may update the tensor where it lies; no effect on values
               target_shape - (opt) another shape of as many elements, which then follow in row-major order
    returns:   tensor of the buffer's shape, or of `target_shape`. Elements that were never written are undefined
    errors:    ValueError; on a GPU also for extents that are no powers of two, which tensors cannot have there
    lowers to: on a GPU ttg.local_load, or nothing where the buffer is in registers
    """
    is_buffer("to_tensor", "buffer", buffer)
    if not isinstance(writable, bool):
        refuse(ValueError, f"tle.dsa.to_tensor: `writable` must be a compile-time bool, got {writable!r}")
    target = buffer.shape if target_shape is None else checked_extents("to_tensor", "target_shape", target_shape)
    if prod(target) != prod(buffer.shape):
        refuse(ValueError, f"tle.dsa.to_tensor: target_shape {list(target)} has {prod(target)} elements, the buffer "
                           f"{list(buffer.shape)} has {prod(buffer.shape)}")
    exact_shapes("to_tensor", buffer.shape, _semantic)
    exact_shapes("to_tensor", target, _semantic)
    handle = _semantic.builder.record("dsa_to_tensor", buffer.handle, writable=writable).results[0]
    found = tl.tensor(handle, tl.block_type(stored_type(buffer.dtype), list(buffer.shape)))
    if target != buffer.shape:
        found = _semantic.reshape(found, list(target), can_reorder=False)
    return _semantic.not_equal(found, 0) if buffer.dtype == tl.int1 else found


@word
def to_buffer(tensor, space=None, bind_buffer=None, _semantic=None):
    """A new buffer with a tensor's value.

    args:      tensor      - block tensor
               space       - tle.dsa.ascend.UB, L1, L0A, L0B or L0C; by default UB
               bind_buffer - None: this release binds no buffer to a tensor
    returns:   buffer of the tensor's shape and dtype
    errors:    TypeError for a scalar; ValueError for anything else
    lowers to: on a GPU ttg.local_store, or nothing where the buffer is in registers
    """
    if not isinstance(tensor, tl.tensor) or not tensor.type.is_block():
        refuse(TypeError, "tle.dsa.to_buffer: `tensor` must be a block tensor, got "
                          f"{f'the scalar {tensor.type}' if isinstance(tensor, tl.tensor) else tensor}",
               mend="a number becomes a block by tl.full([1], x, x.dtype)")
    if tensor.dtype.is_ptr():
        refuse(TypeError, f"tle.dsa.to_buffer: `tensor` must hold numbers, got {tensor.type}")
    if bind_buffer is not None:
        refuse(ValueError, f"tle.dsa.to_buffer: `bind_buffer` must be None, got {bind_buffer}",
               mend="copy the value: tle.dsa.to_buffer makes a buffer of its own")
    made = allocated("to_buffer", "space", tuple(tensor.type.shape), tensor.dtype, UB if space is None else space, _semantic)
    value = _semantic.cast(tensor, tl.int8) if tensor.dtype == tl.int1 else tensor
    _semantic.builder.record("dsa_to_buffer", made.handle, value.handle)
    return made


@word
def subview(src_buffer, offsets, sizes, strides, _semantic=None):
    """Elements of a buffer as a buffer of their own: element j is src_buffer[offsets + j * strides]. Not a copy: writes through
    either are seen in both.

    args:      src_buffer - a buffer, or a subview, whose strides these multiply
               offsets    - one a dimension: an int or an integer scalar. Out of the buffer at run time is undefined
               sizes, strides - one a dimension: positive compile-time ints
    returns:   buffer of the shape `sizes`, in the same memory
    errors:    ValueError for a rank, an int or a box that does not fit; TypeError for a run-time size or stride
    lowers to: nothing; on a GPU its elements are reached one by one, by their positions in shared memory
    """
    is_buffer("subview", "src_buffer", src_buffer)
    offsets, sizes, strides = box_of("subview", src_buffer.shape, offsets, sizes, strides, _semantic, run_time=TypeError)
    handle = _semantic.builder.record("dsa_subview", src_buffer.handle, offsets, sizes, strides).results[0]
    return buffer_type(src_buffer.dtype, sizes, src_buffer.space).value(handle)
