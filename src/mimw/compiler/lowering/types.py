"""IR types and layouts as MLIR types.

Input: a type, and the layout that was chosen for the value. Output: an MLIR type:

    bf16[128, 64] in blocked([1, 8], ...)        tensor<128x64xbf16, #ttg.blocked<...>>
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Barrier, Buffer, Descriptor, DescriptorSlots, Pointer, Scalar, Tensor, Type, Value
from ...ir.layouts import NvmmaShared, RegisterLayout, SharedLayout, SwizzledShared
from ..constraints.solution import Layouts
from ..triton_port.builder import GluonOpBuilder, barrier_layout, to_gluon

_SCALARS = {"i1": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "i128": "int128", "fp16": "half",
            "bf16": "bf16", "fp32": "float", "fp64": "double"}


def lifted(layout: SharedLayout, rank: int) -> SharedLayout:
    """A layout of as many bytes for a buffer whose outer dimensions `layout` leaves out: they are only ever indexed."""
    if not isinstance(layout, (NvmmaShared, SwizzledShared)) or layout.rank >= rank:
        return layout
    if isinstance(layout, NvmmaShared):
        return replace(layout, rank=rank, transposed=False)
    return SwizzledShared(1, 1, 1, tuple(reversed(range(rank))))


class Types:
    """Makes MLIR types; `of` looks a value's layout up, the other methods take it as an argument."""

    def __init__(self, builder: GluonOpBuilder, layouts: Layouts):
        self.builder, self.layouts = builder, layouts
        self._attributes: dict[RegisterLayout | SharedLayout, object] = {}

    def attribute(self, layout: RegisterLayout | SharedLayout):
        """The layout as an MLIR attribute."""
        if layout not in self._attributes:
            self._attributes[layout] = to_gluon(layout, self.builder.options.num_ctas)._to_ir(self.builder)
        return self._attributes[layout]

    def element(self, type_: Type):
        if isinstance(type_, Pointer):
            return self.builder.get_ptr_ty(self.element(type_.pointee), type_.space)
        return getattr(self.builder, f"get_{_SCALARS.get(type_.name, type_.name)}_ty")()

    def tensor(self, type_: Tensor, layout: RegisterLayout):
        return self.builder.get_distributed_ty(self.element(type_.element), list(type_.shape), self.attribute(layout))

    def buffer(self, element: Type, shape, layout: SharedLayout):
        """A memory descriptor of an allocation."""
        return self.builder.get_shared_mem_desc_ty(self.element(element), list(shape), self.attribute(layout), list(shape))

    def view(self, type_: Buffer, placement):
        """A memory descriptor of a single buffer that lies as `placement` says."""
        return self.builder.get_shared_mem_desc_ty(self.element(type_.element), list(type_.shape),
                                                   self.attribute(lifted(placement.layout, len(type_.shape))),
                                                   list(placement.allocated))

    def slots(self):
        """A pointer to memory for descriptors."""
        return self.builder.get_ptr_ty(self.builder.get_int8_ty(), "global")

    def barrier(self, count: int):
        shape = [count, 1] if count else [1]
        return self.builder.get_shared_mem_desc_ty(self.builder.get_int64_ty(), shape,
                                                   barrier_layout()._to_ir(self.builder), shape)

    def descriptor(self, type_: Descriptor, layout: SharedLayout):
        block = self.builder.get_block_ty(self.element(type_.element), list(type_.shape))
        return self.builder.get_tensor_descriptor_layout_type(block, type_.signed, self.attribute(layout))

    def of(self, value: Value):
        """The MLIR type of a value that is not a buffer (a buffer's type depends on how it was viewed)."""
        match value.type:
            case Tensor():
                return self.tensor(value.type, self.layouts.registers[value])
            case Descriptor():
                return self.descriptor(value.type, self.layouts.descriptors[value])
            case Barrier(count):
                return self.barrier(count)
            case DescriptorSlots():
                return self.slots()
            case Scalar() | Pointer():
                return self.element(value.type)
            case Buffer():
                raise TypeError(f"{value!r}: the type of a buffer is that of its MLIR value")
        raise TypeError(f"{value!r} has no MLIR type")
