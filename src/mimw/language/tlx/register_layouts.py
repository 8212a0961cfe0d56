"""Layouts of tiles in registers that an author may require; plain immutable values, constructible on the host.

Input: the fields of a layout. Output: the value, and of `layout` by `to_ir` the form that the solver takes. For
example, 256 elements over 128 threads, 2 neighbours each:

    layout(((32, 4), (2, )), ((2, 64), (1, ))).to_ir()      ThreadValue(threads=((32, 2), (4, 64)), values=((2, 1), ))
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import layouts as ir_layouts
from ..core import unwrap
from ..refuse import refuse
from .fixed_list import fixed, tuples
from .layouts import _is_power_of_two, layout_encoding, shared_layout_encoding

__all__ = ["DummyRegisterLayoutEncoding", "amd_mfma_layout", "dot_operand_layout", "layout"]


def _leaves(modes) -> list[int]:
    return [leaf for mode in modes for leaf in _leaves(mode)] if isinstance(modes, tuple) else [modes]


@dataclass(frozen=True, init=False)
class layout(layout_encoding):
    """Threads and values to positions of a row-major tile: `layout(((thread modes), (value modes)), stride)`.

    Extents are powers of two. The first log2(warp size) thread bits are lanes, the rest warps; values are registers; a
    zero stride replicates. `layout(swizzled_layout(...))` gives the shared layout back, and so does any shared one.
    example:   x = tlx.require_layout(x, tlx.layout(((32, 4), 4), ((4, 128), 1)))
    """

    shape: tuple
    stride: tuple

    def __new__(cls, shape, stride=None):
        shape = unwrap(shape)
        return shape if isinstance(shape, shared_layout_encoding) else super().__new__(cls)

    def __init__(self, shape, stride=None):
        shape, stride = tuples(unwrap(shape)), tuples(unwrap(stride))
        for name, modes in (("shape", shape), ("stride", stride)):
            if not isinstance(modes, tuple) or len(modes) != 2:
                refuse(ValueError, f"layout: `{name}` must be a pair ((thread modes), (value modes)), got {modes}")
        if [len(_leaves(mode)) for mode in shape] != [len(_leaves(mode)) for mode in stride]:
            refuse(ValueError, f"layout: shape {shape} and stride {stride} must have the same modes")
        for extent in _leaves(shape):
            if not _is_power_of_two(extent):
                refuse(ValueError, f"layout: extents must be powers of two, got {extent} in {shape}")
        for stride_ in _leaves(stride):
            if stride_ != 0 and not _is_power_of_two(stride_):
                refuse(ValueError, f"layout: strides must be powers of two or 0, got {stride_} in {stride}")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    def to_ir(self) -> ir_layouts.ThreadValue:
        return ir_layouts.ThreadValue(*(tuple(zip(_leaves(extents), _leaves(strides), strict=True))
                                        for extents, strides in zip(self.shape, self.stride, strict=True)))


@dataclass(frozen=True)
class amd_mfma_layout(layout_encoding):
    """The accumulator layout of AMD's matrix instructions (Triton's `#ttg.amd_mfma`).

    example:   tlx.amd_mfma_layout(3, [32, 32, 8], True, [2, 2])
    """

    version: int
    instr_shape: list[int]
    transposed: bool
    warps_per_cta: list[int]
    element_bitwidth: int = 32
    tiles_per_warp: list[int] | None = None     # None: one tile along each dimension
    cga_layout: list[list[int]] | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.tiles_per_warp is None:
            object.__setattr__(self, "tiles_per_warp", fixed([1] * len(self.warps_per_cta)))


@dataclass(frozen=True)
class dot_operand_layout(layout_encoding):
    """Operand 0 or 1 of a dot whose accumulator has the layout `parent` (Triton's `#ttg.dot_op`).

    example:   tlx.dot_operand_layout(0, tlx.amd_mfma_layout(3, [32, 32, 8], True, [2, 2]), 4)
    """

    operand_index: int
    parent: layout_encoding
    k_width: int = 8

    def __post_init__(self):
        super().__post_init__()
        if self.operand_index not in (0, 1):
            refuse(ValueError, f"operand_index must be 0 or 1, got {self.operand_index}")


@dataclass(frozen=True)
class DummyRegisterLayoutEncoding(layout_encoding):
    """A placeholder for a register layout that is chosen later; internal."""

    shape: list[int]
    element_type: object
    tmem_compatible: bool = False
