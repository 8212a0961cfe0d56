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


_MFMA_TILES = ((32, 32), (16, 16), (64, 4), (4, 64))        # M x N of an instruction: MI300 ISA, "Matrix Arithmetic Instructions"


@dataclass(frozen=True)
class amd_mfma_layout(layout_encoding):
    """The accumulator of the matrix cores of CDNA (Triton's `#ttg.amd_mfma`).

    args:      version           3 for gfx942, 4 for gfx950
               instr_shape       [M, N, K] of the instruction, M x N one of 32 x 32, 16 x 16, 64 x 4 and 4 x 64. K as the operands
                                 have it: for 16 bits 8 and 16 on gfx942, twice that on gfx950 (those of gfx942 work, too), 64
                                 for 64 x 4; for fp8 16 and 32, on gfx950 also 64 and 128, which are twice as fast; without K
                                 that of 16-bit operands
               transposed        a lane holds neighbours along N instead of along M: best for what is stored by rows, or becomes
                                 an operand. 64 x 4 is always transposed, 4 x 64 never
               warps_per_cta     warps along each dimension; (batch, M, N) for products of rank 3
               element_bitwidth  32, or 64 for fp64
               tiles_per_warp    (opt) instructions of one warp that lie beside each other along each dimension
               cga_layout        (opt) where the blocks of a cluster lie, one basis for each doubling of their number: None or [],
                                 since no chip with these instructions has clusters
    errors:    ValueError for numbers that no instruction has
    example:   acc = tlx.zeros((128, 128), tl.float32, layout=tlx.amd_mfma_layout(4, [16, 16, 32], True, [2, 2]))
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
        if self.version not in (1, 2, 3, 4):
            refuse(ValueError, f"amd_mfma_layout: version must be 1 to 4, got {self.version!r}", mend="3 is gfx942, 4 is gfx950")
        tile = tuple(self.instr_shape[:2])
        if tile not in _MFMA_TILES or len(self.instr_shape) > 3:
            refuse(ValueError, f"amd_mfma_layout: instr_shape must be [M, N, K] with M x N one of {_MFMA_TILES}, got "
                               f"{self.instr_shape}")
        if tile[0] != tile[1] and bool(self.transposed) != (tile == (64, 4)):
            refuse(ValueError, f"amd_mfma_layout: {tile[0]} x {tile[1]} exists only with transposed={tile == (64, 4)}")
        if self.element_bitwidth not in (32, 64) or self.element_bitwidth == 64 and tile != (16, 16):
            refuse(ValueError, f"amd_mfma_layout: element_bitwidth must be 32, or 64 for 16 x 16, got {self.element_bitwidth!r} "
                               f"for {tile[0]} x {tile[1]}")
        for name, counts in (("warps_per_cta", self.warps_per_cta), ("tiles_per_warp", self.tiles_per_warp)):
            if len(counts) not in (2, 3) or len(counts) != len(self.warps_per_cta) or not all(map(_is_power_of_two, counts)):
                refuse(ValueError, f"amd_mfma_layout: {name} must be a power of two for each of two or three dimensions, got "
                                   f"{counts}")

    def to_ir(self) -> ir_layouts.AmdMfma | None:
        if self.cga_layout:
            return None
        depth = self.instr_shape[2] if len(self.instr_shape) == 3 else self._depth()
        return ir_layouts.AmdMfma(self.version, (*self.instr_shape[:2], depth), bool(self.transposed), tuples(self.warps_per_cta),
                                  self.element_bitwidth, tuples(self.tiles_per_warp))

    def _depth(self) -> int:
        """K of the widest instruction for 16-bit operands; of fp64, for fp64."""
        if self.element_bitwidth == 64:
            return 4
        rows, columns = self.instr_shape[:2]
        return 64 if rows != columns else 256 // rows * (2 if self.version == 4 else 1)


@dataclass(frozen=True)
class dot_operand_layout(layout_encoding):
    """Operand A (0) or B (1) of a product whose accumulator has the layout `parent` (Triton's `#ttg.dot_op`).

    args:      k_width - neighbours along K that a lane holds together, the same for both operands. `local_load` reads so many bytes
                         at once where K lies together: 8 elements of 16 bits are one ds_read_b128. Where it does not, gfx950 reads
                         with a transpose (ds_read_b64_tr_b16)
    errors:    ValueError for another index, or a width that is no power of two
    example:   tlx.dot_operand_layout(0, tlx.amd_mfma_layout(3, [32, 32, 8], True, [2, 2]), 4)
    """

    operand_index: int
    parent: layout_encoding
    k_width: int = 8

    def __post_init__(self):
        super().__post_init__()
        if self.operand_index not in (0, 1):
            refuse(ValueError, f"operand_index must be 0 or 1, got {self.operand_index}")
        if not _is_power_of_two(self.k_width):
            refuse(ValueError, f"dot_operand_layout: k_width must be a power of two, got {self.k_width!r}")

    def to_ir(self) -> ir_layouts.DotOperand | None:
        parent = self.parent.to_ir() if isinstance(self.parent, amd_mfma_layout) else None
        return None if parent is None else ir_layouts.DotOperand(self.operand_index, parent, self.k_width)


@dataclass(frozen=True)
class DummyRegisterLayoutEncoding(layout_encoding):
    """A placeholder for a register layout that is chosen later; internal."""

    shape: list[int]
    element_type: object
    tmem_compatible: bool = False
