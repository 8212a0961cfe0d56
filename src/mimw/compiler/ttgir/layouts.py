"""Which thread holds which element of a tile, from the text of its layout in TTGIR.

Input: the text of a layout, and the shape of a tile. Output: a `TileMap`, the coordinates that each bit of the numbers of register,
lane, warp and CTA adds. For example:

    text = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [8, 1], order = [1, 0]}>"
    found = tile_map(text, (64, 64))
    found.lanes                       (0, 8) (0, 16) (0, 32) (1, 0) (2, 0)
    found.elements()[0, 3, 17]        the row-major numbers of the elements in the registers of lane 17 of warp 3

The maps are those of Triton's `toLinearLayout`, which tests compare kind by kind. Coordinates are XORed; a basis of zeros means
that the bit changes nothing: the element is there in several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from ...ir.bases import Bases, Basis
from ...ir.layouts import AmdMfma, AmdWmma, Blocked, DotOperand, Linear, RegisterLayout
from ...ir.linear import linear_of, positions
from .layout_operands import mma_operand, mma_sums, plain_operand
from .layout_text import LayoutProblem, Spelled, of_known_fields, read_layout

_WMMA_OF_CDNA = 3       # gfx1250's: those of RDNA lie otherwise


@dataclass(frozen=True)
class TileMap:
    """The coordinates in a tile of `shape` that each bit of the number of a register, lane, warp and CTA of the cluster adds."""

    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    warps: tuple[Basis, ...]
    blocks: tuple[Basis, ...]
    shape: tuple[int, ...]

    def elements(self) -> np.ndarray:
        """The row-major number of the element of each thread's register, an int64 array [CTA, warp, lane, register]."""
        found = np.zeros((), np.int64)
        for bases in (self.blocks, self.warps, self.lanes, self.registers):
            each = np.zeros(1, np.int64)
            for step in positions(bases, self.shape):
                each = np.concatenate((each, each ^ step))
            found = found[..., None] ^ each
        return found

    def without(self, axis: int) -> TileMap:
        """The map without one dimension; registers that only move along that dimension go."""
        bases = [tuple(basis[:axis] + basis[axis + 1:] for basis in each)
                 for each in (self.registers, self.lanes, self.warps, self.blocks)]
        return TileMap(tuple(basis for basis in bases[0] if any(basis)), *bases[1:], self.shape[:axis] + self.shape[axis + 1:])


@lru_cache(maxsize=1024)
def tile_map(text: str, shape: tuple[int, ...]) -> TileMap:
    """The threads of the elements of a tile of that shape; LayoutProblem for a text that is no layout of such a tile."""
    if any(extent < 1 or extent & (extent - 1) for extent in shape):
        raise LayoutProblem(f"a tile of {_extents(shape)} has an extent that is no power of two: Triton has no such tiles")
    with of_known_fields(text):
        found = _map(read_layout(text), shape)
    if len(np.unique(found.elements())) != prod(shape):
        raise LayoutProblem(f"the layout {text} leaves elements of a tile of {_extents(shape)} to no thread: it is another one's")
    return found


def _map(layout: Spelled, shape: tuple[int, ...]) -> TileMap:
    if layout.kind == "slice":
        axis = layout["dim"]
        if not 0 <= axis <= len(shape):
            raise LayoutProblem(f"a slice along dimension {axis} is no layout of a tile of rank {len(shape)}")
        return _map(layout["parent"], (*shape[:axis], 1, *shape[axis:])).without(axis)
    if layout.kind == "linear":
        return _linear(layout, shape)
    clusters = tiled_blocks(layout, len(shape))
    part = part_shape(clusters, shape)
    held = _in_one_cta(layout, part)
    steps = tuple(tuple(step * extent if step * extent < whole else 0 for step, extent, whole in zip(basis, part, shape))
                  for basis in clusters)
    return TileMap(held.registers, held.lanes, held.warps, steps, shape)


def tiled_blocks(layout: Spelled, rank: int) -> tuple[Basis, ...]:
    """The part of a tile, counted in parts, to which each bit of the number of a CTA in its cluster leads; none in a program of one
    CTA. All CTAs of a row or column hold the same along K of an operand."""
    if layout.kind == "dot_op":
        along = rank - 1 if layout["opIdx"] == 0 else rank - 2
        return tuple(tuple(0 if axis == along else step for axis, step in enumerate(basis))
                     for basis in tiled_blocks(layout["parent"], rank))
    bases = tuple(map(tuple, layout.get("CGALayout", ())))
    if any(len(basis) != rank for basis in bases):
        raise LayoutProblem(f"the CGALayout {list(map(list, bases))} is none of a tile of rank {rank}")
    return bases


def part_shape(clusters: Sequence[Basis], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The part of a shape that one CTA of the cluster has."""
    return tuple(max(1, extent // max([1, *(2 * basis[axis] for basis in clusters)])) for axis, extent in enumerate(shape))


def _linear(layout: Spelled, shape: tuple[int, ...]) -> TileMap:
    registers, lanes, warps, blocks = (tuple(map(tuple, layout[name])) for name in ("register", "lane", "warp", "block"))
    bases = (*registers, *lanes, *warps, *blocks)
    if any(len(basis) != len(shape) for basis in bases):
        raise LayoutProblem(f"the bases of #ttg.linear are none of a tile of {_extents(shape)}")
    covered = [1 << max([0, *(basis[axis].bit_length() for basis in bases)]) for axis in range(len(shape))]
    fitted = Bases(len(shape), registers, lanes, (*warps, *blocks), covered).fitted(shape)
    return TileMap(fitted.registers, fitted.lanes, fitted.warps[:len(warps)], fitted.warps[len(warps):], shape)


def _in_one_cta(layout: Spelled, shape: tuple[int, ...]) -> Linear:
    """The map of a CTA's part of a tile."""
    if layout.kind == "nvidia_mma":
        _tensor_core(layout, len(shape))
        return mma_sums(layout["versionMajor"], layout["instrShape"], layout["warpsPerCTA"], shape)
    if layout.kind == "dot_op":
        return _operand(layout["opIdx"], layout["parent"], layout.get("kWidth", 0), shape)
    found = linear_of(_ours(layout, len(shape)), shape)
    if found is None:
        raise LayoutProblem(f"#ttg.{layout.kind} is not followed here")
    return found


def _operand(index: int, parent: Spelled, k_width: int, shape: tuple[int, ...]) -> Linear:
    if parent.kind == "nvidia_mma":
        _tensor_core(parent, len(shape))
        if not k_width:
            raise LayoutProblem("#ttg.dot_op of #ttg.nvidia_mma has no kWidth")
        if parent["versionMajor"] > 2 and index == 1:
            raise LayoutProblem("operand B of wgmma lies in shared memory: #ttg.dot_op with opIdx = 1 has no registers there")
        return mma_operand(parent["versionMajor"], index, k_width, parent["warpsPerCTA"], shape)
    if parent.kind == "blocked":
        _ours(parent, len(shape))
        return plain_operand(index, *(parent[name] for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")), shape)
    found = linear_of(DotOperand(index, _ours(parent, len(shape)), k_width), shape)
    if found is None:
        raise LayoutProblem(f"an operand of #ttg.{parent.kind} with kWidth = {k_width} is not followed here")
    return found


def _ours(layout: Spelled, rank: int) -> RegisterLayout:
    """The layout as a value of `ir.layouts`."""
    if layout.kind == "blocked":
        names = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
        _ranks(layout, rank, *names)
        return Blocked(*(tuple(layout[name]) for name in names))
    if layout.kind == "amd_mfma":
        _ranks(layout, rank, "warpsPerCTA")
        warps = tuple(layout["warpsPerCTA"])
        return AmdMfma(layout["version"], tuple(layout["instrShape"]), layout["isTransposed"], warps,
                       layout.get("elementBitWidth", 32), tuple(layout.get("tilesPerWarp", (1, ) * rank)))
    if layout.kind == "amd_wmma" and layout["version"] == _WMMA_OF_CDNA:
        placed = layout["ctaLayout"]
        return AmdWmma(_WMMA_OF_CDNA, layout["isTranspose"], _bases(placed.get("warp", ())), _bases(placed.get("register", ())),
                       tuple(layout.get("instrShape", (16, 16, 16))))
    if layout.kind == "amd_wmma":
        raise LayoutProblem(f"#ttg.amd_wmma of version {layout['version']} is RDNA's: only gfx1250's, version 3, is followed here")
    raise LayoutProblem(f"#ttg.{layout.kind} is no layout of a tile in registers that is followed here")


def _tensor_core(layout: Spelled, rank: int) -> None:
    if layout["versionMajor"] not in (2, 3):
        whose = ", Volta's" if layout["versionMajor"] == 1 else ""
        raise LayoutProblem(f"#ttg.nvidia_mma of version {layout['versionMajor']}{whose}, is not followed here: only 2 and 3 are")
    _ranks(layout, rank, "warpsPerCTA")


def _ranks(layout: Spelled, rank: int, *names: str) -> None:
    for name in names:
        if not isinstance(layout[name], list) or len(layout[name]) != rank:
            raise LayoutProblem(f"{name} = {layout[name]} of #ttg.{layout.kind} is none of a tile of rank {rank}")


def _bases(lists: Sequence[Sequence[int]]) -> tuple[Basis, ...]:
    return tuple(map(tuple, lists))


def _extents(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "one element"
