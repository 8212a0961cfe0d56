"""Layouts as plain values: which thread holds which element of a tile, and where the elements of a buffer lie.

Input: fields with the meaning of Triton's encodings of the same name (docs of TritonGPUAttrDefs); `order[0]` is the
fastest dimension. Output: frozen values that `constraints` chooses and `lowering` turns into Triton's attributes. For
example:

    Blocked(size_per_thread=(1, 4), threads_per_warp=(2, 16), warps=(4, 1), order=(1, 0))

The IR carries a layout only where the author pinned one (`local_alloc(layout=...)`).
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
    """The layout that is left of `parent` without dimension `axis` (Triton `#slice`)."""

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
class AmdMfma(RegisterLayout):
    """The accumulator of AMD's matrix cores on CDNA (Triton `#amd_mfma`): `instruction` is (M, N, K), `tiles` of it lie beside each
    other in a warp before the next warp's begin. `transposed`: a lane holds neighbours of a row instead of a column."""

    version: int
    instruction: tuple[int, int, int]
    transposed: bool
    warps: tuple[int, ...]
    element_bits: int = 32
    tiles: tuple[int, ...] = (1, 1)

    def __str__(self) -> str:
        shape = "x".join(map(str, self.instruction))
        tiles = "" if set(self.tiles) == {1} else f", tiles {self.tiles}"
        return f"mfma({shape}, version {self.version}, warps {self.warps}{tiles}{', transposed' if self.transposed else ''})"


@dataclass(frozen=True)
class AmdWmma(RegisterLayout):
    """The accumulator of the matrix cores of gfx1250 (Triton `#amd_wmma`, version 3): `warps` and `registers` have the place, in
    instructions of 16 x 16, to which each bit of the number of a warp, or of a repeated instruction, steps."""

    version: int
    transposed: bool
    warps: tuple[tuple[int, ...], ...]
    registers: tuple[tuple[int, ...], ...]
    instruction: tuple[int, int, int]

    def __str__(self) -> str:
        shape = "x".join(map(str, self.instruction))
        return (f"wmma({shape}, version {self.version}, warps {list(self.warps)}, registers {list(self.registers)}"
                f"{', transposed' if self.transposed else ''})")


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

    @property
    def begins(self) -> int:
        """Bytes on a multiple of which such a buffer starts: its boundary, and 128 for TMA (PTX ISA, cp.async.bulk.tensor). Triton
        starts every buffer of this layout there."""
        return max(128, self.boundary)

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


@dataclass(frozen=True)
class Linear(RegisterLayout):
    """Each bit of register, lane and warp number adds one basis, a coordinate of the tile (Triton `#linear`); zero replicates."""

    registers: tuple[tuple[int, ...], ...]
    lanes: tuple[tuple[int, ...], ...]
    warps: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"linear(registers {list(self.registers)}, lanes {list(self.lanes)}, warps {list(self.warps)}, shape {self.shape})"


@dataclass(frozen=True)
class TensorMemoryTile(Linear):
    """The layout of a tile that comes from tensor memory, or goes there: each warp reaches a quarter of the lanes."""

    def __str__(self) -> str:
        return f"tensor memory tile(registers {list(self.registers)}, lanes {list(self.lanes)}, warps {list(self.warps)})"


@dataclass(frozen=True)
class TensorMemory(SharedLayout):
    """The layout of a buffer in tensor memory: row r of a block in lane r, its elements packed into columns of 32 bits
    (Triton `#ttng.tensor_memory_encoding`); with `scales`, that of a table of block scales
    (`#ttng.tensor_memory_scales_encoding`)."""

    rows: int
    columns: int
    scales: bool = False

    def __str__(self) -> str:
        return "table of scales in tensor memory" if self.scales else f"tensor memory({self.rows} x {self.columns})"


@dataclass(frozen=True)
class ThreadValue(RegisterLayout):
    """A layout in the author's notation: modes (extent, stride) of threads and of values over the row-major positions of a
    tile.

    Which thread bits are lanes depends on the chip, and their number on the task; the solver makes a `Linear` of it.
    """

    threads: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"layout(threads {list(self.threads)}, values {list(self.values)})"


@dataclass(frozen=True)
class PaddedShared(SharedLayout):
    """Rows with padding: after every `interval` elements `padding` unused ones, for each pair (Triton `#padded_shared`).

    `bases`: the coordinate that each bit of the offset before padding stands for.
    """

    pairs: tuple[tuple[int, int], ...]
    bases: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"padded({', '.join(f'{padding} after {interval}' for interval, padding in self.pairs)})"


@dataclass(frozen=True)
class LinearShared(SharedLayout):
    """Each bit of the element offset adds one basis, a coordinate of the buffer (Triton `#shared_linear`); bytes of alignment."""

    bases: tuple[tuple[int, ...], ...]
    alignment: int = 16

    @property
    def rank(self) -> int:
        return len(self.bases[0]) if self.bases else 1

    def __str__(self) -> str:
        return f"linear(offsets {list(self.bases)}, {self.alignment}-byte aligned)"
