"""Layouts as plain values: who holds which element of a tile, and where the elements of a buffer lie.

The IR carries a layout only where the author pinned one (`local_alloc(layout=...)`); all others are the answers of
`constraints`. `lowering` turns them into Triton's attributes. Fields mean what Triton's encodings of the same name mean
(docs of TritonGPUAttrDefs): `order[0]` is the fastest dimension.
"""

from __future__ import annotations

from dataclasses import dataclass


class RegisterLayout:
    """Base: how a tile is spread over the registers of a task's warps."""


class SharedLayout:
    """Base: how one buffer lies in shared memory."""


@dataclass(frozen=True)
class Blocked(RegisterLayout):
    """Each thread a small block, threads tiling a warp, warps tiling the tile (Triton `#blocked`)."""

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        return f"blocked(each {self.size_per_thread}, threads {self.threads_per_warp}, warps {self.warps}, order {self.order})"


@dataclass(frozen=True)
class Slice(RegisterLayout):
    """What is left of `parent` when dimension `axis` is dropped (Triton `#slice`)."""

    axis: int
    parent: RegisterLayout

    def __str__(self) -> str:
        return f"slice(axis {self.axis} of {self.parent})"


@dataclass(frozen=True)
class Mma(RegisterLayout):
    """A Hopper wgmma accumulator (Triton `#nvidia_mma`, version 3): `instruction` is (16, N, K)."""

    warps: tuple[int, int]
    instruction: tuple[int, int, int]

    def __str__(self) -> str:
        return f"wgmma(m64n{self.instruction[1]}k{self.instruction[2]}, warps {self.warps})"


@dataclass(frozen=True)
class DotOperand(RegisterLayout):
    """Operand `index` of a dot whose accumulator has the layout `parent` (Triton `#dot_op`)."""

    index: int
    parent: RegisterLayout
    k_width: int = 0

    def __str__(self) -> str:
        return f"dot operand {'AB'[self.index]} of {self.parent}"


@dataclass(frozen=True)
class NvmmaShared(SharedLayout):
    """The tile layout that TMA writes and wgmma reads (Triton `#nvmma_shared`). `swizzle` in bytes: 0, 32, 64 or 128."""

    swizzle: int
    element_bits: int
    rank: int
    transposed: bool = False
    fp4_padded: bool = False

    @property
    def boundary(self) -> int:
        """Bytes of which a buffer's start must be a multiple: the swizzle repeats every 8 rows (PTX ISA, matrix descriptor)."""
        return 8 * self.swizzle

    def __str__(self) -> str:
        return f"nvmma({self.swizzle}-byte swizzle, {self.element_bits}-bit{', transposed' if self.transposed else ''})"


@dataclass(frozen=True)
class SwizzledShared(SharedLayout):
    """Plain or XOR-swizzled rows (Triton `#swizzled_shared`); vector = per_phase = max_phase = 1 is unswizzled."""

    vector: int
    per_phase: int
    max_phase: int
    order: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.order)

    def __str__(self) -> str:
        if self.max_phase == 1:
            return f"plain(order {self.order})"
        return f"swizzled(vector {self.vector}, per phase {self.per_phase}, phases {self.max_phase}, order {self.order})"
