"""Layouts an author may pin: how a buffer lies in shared or tensor memory.

Input: the fields of a layout, on the host or in a kernel. Output: a plain immutable value, and for
`local_alloc(layout=..)` by `to_ir` the layout in `ir.layouts`. For example:

    swizzled_layout(3, 3, 3).to_ir((64, 64), 16)      swizzled(vector 8, per phase 1, phases 8, order (1, 0))
    nv_mma_shared_layout_encoding.make_default([64, 64], tl.float16)      Triton's `#ttg.nvmma_shared`, row-major

Lists in layouts do not change, and equal tuples, too. Fields mean the same as in Triton's encodings of the same name:
`order[0]` is the fastest dimension. Kernels that name no layout get all of their layouts from the solver.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from math import prod

import triton.language.core as tl

from ...ir import layouts as ir_layouts
from ...ir.byte_maps import byte_offset
from ..core import host_constructible, host_method, identifier, unwrap
from ..refuse import refuse
from .fixed_list import fixed, tuples

__all__ = [
    "TMemCTAMode", "layout_encoding", "nv_mma_shared_layout_encoding", "padded_shared_layout_encoding",
    "shared_layout_encoding", "shared_linear_layout_encoding", "swizzled_layout", "swizzled_shared_layout_encoding",
    "tensor_memory_layout_encoding",
]


def _transposed(extents, dims: tuple[int, ...]) -> tuple:
    """One number a dimension, seen through a transpose in which new dimension i is old dimension `dims[i]`."""
    return tuple(extents[axis] for axis in dims)


def _is_power_of_two(value) -> bool:
    return isinstance(value, int) and value > 0 and value & (value - 1) == 0


def row_major(rank: int) -> tuple[int, ...]:
    """The order in which the last dimension is the fastest."""
    return tuple(reversed(range(rank)))


def permuted(order, dims: tuple[int, ...]) -> tuple[int, ...]:
    """`order` seen through a transpose in which new dimension i is old dimension `dims[i]`."""
    return tuple(dims.index(axis) for axis in order)


@host_constructible
class layout_encoding:
    """Base of all layouts. Lists and tuples among the fields become lists that do not change, without compile-time wrappers."""

    def __post_init__(self):
        for field in fields(self):
            object.__setattr__(self, field.name, fixed(unwrap(getattr(self, field.name))))

    def mangle(self) -> str:
        return identifier(self)


class shared_layout_encoding(layout_encoding):
    """Base of layouts of buffers in shared memory.

    `to_ir(shape, bits)` gives the layout of one buffer of that shape and element width, or None if this release cannot.
    """

    def to_ir(self, shape: tuple[int, ...], bits: int) -> ir_layouts.SharedLayout | None:
        return None

    def transposed(self, dims) -> shared_layout_encoding:
        """This layout seen through a transpose in which new dimension i is old dimension `dims[i]`, as `local_trans` sees it."""
        refuse(ValueError, f"{type(self).__name__} has no permuted form")

    def make_permute(self, dims) -> shared_layout_encoding:
        """This layout seen through a transpose in which new dimension i is old dimension `dims[i]`; of swizzled layouts, whose
        fields say nothing of extents, the order with its entries picked by `dims`."""
        return self.transposed(dims)


@dataclass(frozen=True)
class swizzled_layout(shared_layout_encoding):
    """XOR swizzle on element offsets: vectors of 2^base elements, 2^bits phases, a phase every 2^(shift+base) elements.

        swizzled_layout(3, 3, 3)._to_encoding([64, 64])     vectors of 8, a phase a row, 8 phases
        swizzled_layout(3, 3, 3)((1, 0), [64, 64])          72: row 1 starts in its second vector
    example:   tile = tlx.local_alloc((64, 64), tl.float16, 1, layout=tlx.swizzled_layout(3, 3, 3))
    """

    bits: int
    base: int = 0
    shift: int = 0
    order: list[int] | None = None

    @classmethod
    @host_method
    def make_default(cls, rank: int = 2) -> swizzled_shared_layout_encoding:
        """Unswizzled, row-major."""
        return swizzled_shared_layout_encoding.make_default(rank)

    @host_method
    def __call__(self, coordinate, shape) -> int:
        """The offset, in elements, at which the element with that coordinate lies in a buffer of that shape."""
        position = sum(index * prod(shape[axis + 1:]) for axis, index in enumerate(coordinate))
        return byte_offset(self.to_ir(tuple(shape), 8), tuple(shape), 1, position)

    @property
    def maxPhase(self) -> int:
        return 1 << self.bits

    @property
    def vectorSize(self) -> int:
        return 1 << self.base

    def transposed(self, dims) -> swizzled_layout:
        order = self.order or row_major(len(dims))
        return swizzled_layout(self.bits, self.base, self.shift, permuted(order, tuple(unwrap(dims))))

    def make_permute(self, dims) -> swizzled_layout:
        """The same swizzle with an order whose entry i is entry `dims[i]` of this one's: (0, 1, 2) by (1, 2, 0) is (1, 2, 0)."""
        order = self.order or row_major(len(dims))
        return swizzled_layout(self.bits, self.base, self.shift, _transposed(order, tuple(unwrap(dims))))

    @host_method
    def _to_encoding(self, shape) -> swizzled_shared_layout_encoding:
        """The encoding for a buffer of that shape: rows along `order[0]`, in which vectors are XORed with the phase of the
        row."""
        order = self.order or row_major(len(shape))
        ones = (1, ) * len(shape)
        if self.bits == 0:
            return swizzled_shared_layout_encoding(1, 1, 1, order, ones, ones, ones, order)
        inner = shape[order[0]]
        per_phase = (1 << (self.shift + self.base)) // inner
        if per_phase < 1:
            refuse(AssertionError, f"swizzled_layout: a phase of 2^(shift + base) = {1 << (self.shift + self.base)} elements is "
                                   f"shorter than the inner extent {inner}; perPhase must be at least 1")
        return swizzled_shared_layout_encoding(self.vectorSize, per_phase, self.maxPhase, order, ones, ones, ones, order)

    def to_ir(self, shape, bits):
        return self._to_encoding(shape).to_ir(shape, bits)


@dataclass(frozen=True)
class swizzled_shared_layout_encoding(shared_layout_encoding):
    """Triton's `#ttg.swizzled_shared`, field by field.

    example:   tlx.swizzled_shared_layout_encoding(8, 1, 8, [1, 0], [1, 1], [1, 1], [1, 1], [1, 0])
    """

    vectorSize: int
    perPhase: int
    maxPhase: int
    order: list[int]
    numCTAs: list[int]
    numCTAsPerCGA: list[int]
    numCTASplit: list[int]
    numCTAOrder: list[int]

    @classmethod
    @host_method
    def make_default(cls, rank: int) -> swizzled_shared_layout_encoding:
        """Unswizzled, row-major."""
        ones = (1, ) * rank
        return cls(1, 1, 1, row_major(rank), ones, ones, ones, row_major(rank))

    def make_permute(self, dims) -> swizzled_shared_layout_encoding:
        """The same swizzle with an order whose entry i is entry `dims[i]` of this one's: (0, 1, 2) by (1, 2, 0) is (1, 2, 0).
        A tile whose dimensions change places has the layout `transposed(dims)`, which for three and more may be another one."""
        dims = tuple(unwrap(dims))
        lists = (self.order, self.numCTAs, self.numCTAsPerCGA, self.numCTASplit, self.numCTAOrder)
        return swizzled_shared_layout_encoding(self.vectorSize, self.perPhase, self.maxPhase,
                                               *(_transposed(one, dims) for one in lists))

    def transposed(self, dims) -> swizzled_shared_layout_encoding:
        dims = tuple(unwrap(dims))
        return swizzled_shared_layout_encoding(
            self.vectorSize, self.perPhase, self.maxPhase, permuted(self.order, dims), _transposed(self.numCTAs, dims),
            _transposed(self.numCTAsPerCGA, dims), _transposed(self.numCTASplit, dims), permuted(self.numCTAOrder, dims))

    def to_ir(self, shape, bits):
        return ir_layouts.SwizzledShared(self.vectorSize, self.perPhase, self.maxPhase, tuples(self.order))


@dataclass(frozen=True)
class nv_mma_shared_layout_encoding(shared_layout_encoding):
    """Triton's `#ttg.nvmma_shared`: the tile layout that TMA writes and the tensor core reads.

    example:   tile = tlx.local_alloc((64, 64), tl.float16, 1, layout=tlx.nv_mma_shared_layout_encoding(
                   [64, 64], [1, 0], tl.float16, [1, 1], [1, 1], [1, 1], False, True))
    """

    shape: list[int]
    order: list[int]
    elemType: tl.dtype
    numCTAsPerCGA: list[int]
    numCTASplit: list[int]
    numCTAOrder: list[int]
    fp4Padded: bool
    swizzled: bool

    @classmethod
    @host_method
    def make_default(cls, shape, dtype, fp4Padded: bool = False) -> nv_mma_shared_layout_encoding:
        """Row-major, with the widest swizzle that the inner extent allows."""
        rank = len(shape)
        ones = (1, ) * rank
        return cls(shape, row_major(rank), dtype, ones, ones, row_major(rank), fp4Padded, True)

    def transposed(self, dims) -> nv_mma_shared_layout_encoding:
        dims = tuple(unwrap(dims))
        return nv_mma_shared_layout_encoding(
            _transposed(self.shape, dims), permuted(self.order, dims), self.elemType, _transposed(self.numCTAsPerCGA, dims),
            _transposed(self.numCTASplit, dims), permuted(self.numCTAOrder, dims), self.fp4Padded, self.swizzled)

    def to_ir(self, shape, bits):
        inner_bytes = shape[self.order[0]] * bits // 8 * (2 if self.fp4Padded else 1)
        swizzle = next((width for width in (128, 64, 32) if inner_bytes % width == 0), 0) if self.swizzled else 0
        return ir_layouts.NvmmaShared(swizzle, bits, len(shape), self.order[0] != len(shape) - 1, self.fp4Padded)


@dataclass(frozen=True)
class padded_shared_layout_encoding(shared_layout_encoding):
    """Rows with padding: after every `interval` elements `padding` unused ones; `offset_bases` say where the elements go
    before padding, each of them at one place.

    example:   tlx.padded_shared_layout_encoding([[64, 8]], [[0, 1], [0, 2], [1, 0]], [], [2, 4])
    """

    interval_padding_pairs: list[list[int]]
    offset_bases: list[list[int]]
    block_bases: list[list[int]]
    shape: list[int]

    def __post_init__(self):
        super().__post_init__()
        if not self.interval_padding_pairs:
            refuse(ValueError, "padded_shared_layout_encoding needs at least one (interval, padding) pair")
        for interval, padding in self.interval_padding_pairs:
            if not _is_power_of_two(interval) or not _is_power_of_two(padding):
                refuse(ValueError, f"interval and padding must be powers of two, got ({interval}, {padding})")
        if not _is_one_to_one((*(self.offset_bases or ()), *(self.block_bases or ())), self.shape):
            refuse(ValueError, f"padded_shared_layout_encoding needs offset_bases that reach each element of {tuple(self.shape)} "
                   "once: write padded_shared_layout_encoding.with_identity_for(interval_padding_pairs, shape) for plain rows")

    @property
    def intervals(self) -> list[int]:
        return fixed([interval for interval, _ in self.interval_padding_pairs])

    @property
    def order(self) -> list[int]:
        """The dimensions from the fastest on: in the order in which `offset_bases` step along them, then those of one element."""
        axes = [next((axis for axis, step in enumerate(basis) if step), None) for basis in self.offset_bases]
        return fixed(list(dict.fromkeys([*(axis for axis in axes if axis is not None), *row_major(len(self.shape))])))

    @property
    def paddings(self) -> list[int]:
        return fixed([padding for _, padding in self.interval_padding_pairs])

    @classmethod
    @host_method
    def with_identity_for(cls, interval_padding_pairs, shape, order=None) -> padded_shared_layout_encoding:
        """Elements in `order` (row-major by default), then padded."""
        rank, bases = len(shape), []
        for axis in order or row_major(rank):
            bases += [tuple(step if d == axis else 0 for d in range(rank)) for step in _powers(shape[axis])]
        return cls(interval_padding_pairs, bases, (), shape)

    @classmethod
    @host_method
    def with_bases(cls, interval_padding_pairs, offset_bases, shape, block_bases=None) -> padded_shared_layout_encoding:
        """Elements where the linear map `offset_bases` puts them, then padded."""
        return cls(interval_padding_pairs, offset_bases, block_bases or (), shape)

    def transposed(self, dims) -> padded_shared_layout_encoding:
        dims = tuple(unwrap(dims))
        return padded_shared_layout_encoding(self.interval_padding_pairs, _all_transposed(self.offset_bases, dims),
                                             _all_transposed(self.block_bases, dims), _transposed(self.shape, dims))

    def to_ir(self, shape, bits):
        if self.shape != tuple(shape):
            refuse(ValueError, f"padded_shared_layout_encoding is for the shape {tuple(self.shape)}, the buffer has {tuple(shape)}")
        fields_ = map(tuples, (self.interval_padding_pairs, self.offset_bases, self.shape))
        return ir_layouts.PaddedShared(*fields_) if not self.block_bases else None


def _all_transposed(bases, dims: tuple[int, ...]) -> tuple:
    """Each basis of a linear layout seen through that transpose."""
    return tuple(_transposed(basis, dims) for basis in bases)


def _powers(extent: int) -> list[int]:
    return [1 << bit for bit in range(extent.bit_length() - 1)]


def _is_one_to_one(bases, shape) -> bool:
    """True if the sums (xor) of some of the bases are the coordinates of that shape, each once."""
    bits = [extent.bit_length() - 1 for extent in shape]
    if len(bases) != sum(bits) or any(len(basis) != len(shape) for basis in bases):
        return False
    independent: list[int] = []
    for basis in bases:
        rest = 0
        for step, width in zip(basis, bits):
            if step >> width:
                return False
            rest = rest << width | step
        for other in independent:
            rest = min(rest, rest ^ other)
        if not rest:
            return False
        independent.append(rest)
    return True


@dataclass(frozen=True)
class shared_linear_layout_encoding(shared_layout_encoding):
    """An explicit linear map from offset bits to coordinates (Triton's `#ttg.shared_linear`); `alignment` in bytes.

    example:   tlx.shared_linear_layout_encoding([[0, 1], [0, 2], [1, 0]])
    """

    offset_bases: list[list[int]]
    block_bases: list[list[int]] | None = None
    alignment: int = 16

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "block_bases", self.block_bases or fixed([]))
        if not _is_power_of_two(self.alignment):
            refuse(ValueError, f"alignment must be a power of two, got {self.alignment}")

    def transposed(self, dims) -> shared_linear_layout_encoding:
        dims = tuple(unwrap(dims))
        return shared_linear_layout_encoding(_all_transposed(self.offset_bases, dims), _all_transposed(self.block_bases, dims),
                                             self.alignment)

    def to_ir(self, shape, bits):
        covered = tuple(max((basis[axis] for basis in self.offset_bases), default=0) for axis in range(len(shape)))
        if covered != tuple(extent // 2 for extent in shape):
            refuse(ValueError, f"shared_linear_layout_encoding {self.offset_bases} does not cover a buffer of shape {tuple(shape)}")
        return ir_layouts.LinearShared(tuples(self.offset_bases), self.alignment) if not self.block_bases else None


@host_constructible
class TMemCTAMode(Enum):
    """The distribution of an accumulator in tensor memory over the two CTAs of a pair.

    example:   tlx.tensor_memory_layout_encoding(128, 64, 1, 1, 1, tlx.TMemCTAMode.DEFAULT)
    """

    DEFAULT = 0
    TwoCTA_LHS = 1
    TwoCTA_RHS = 2


@dataclass(frozen=True)
class tensor_memory_layout_encoding(layout_encoding):
    """Triton's `#ttng.tensor_memory_encoding`: blocks of blockM x blockN, `colStride` columns apart.

    example:   tlx.tensor_memory_layout_encoding(128, 64, 1, 1, 1)
    """

    blockM: int
    blockN: int
    colStride: int
    CTASplitM: int
    CTASplitN: int
    ctaMode: TMemCTAMode = TMemCTAMode.DEFAULT

    @classmethod
    @host_method
    def make_default(cls, shape) -> tensor_memory_layout_encoding:
        """One block of the whole shape."""
        return cls(shape[0], shape[1], 1, 1, 1)
