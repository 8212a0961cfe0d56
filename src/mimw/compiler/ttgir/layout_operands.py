"""Tiles that tensor cores of NVIDIA and `tt.dot` of plain registers take and give: which lane holds what, in one CTA.

Input: the fields of a layout, and the shape of a tile. Output: a `Linear`, of shapes (.., M, N), (.., M, K) or (.., K, N):

    mma_sums(2, (16, 8), (2, 4), (64, 128)).lanes               (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)
    mma_operand(2, 1, 2, (2, 4), (16, 128)).registers[:2]       (1, 0) (8, 0): kWidth 2, so two rows of B in a register of 32 bits

PTX ISA, "Matrix Fragments for mma.m16n8k16": a lane holds `kWidth` neighbours along the inner dimension, 4 lanes go along it and
8 across, then it repeats. The maps are those of Triton's `toLinearLayout`, which tests compare. `linear_of` has those of Hopper's
sums and A; here they have any rank and version, and nobody but a reader of TTGIR meets them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.bases import Bases
from ...ir.layouts import Linear

_LANES_ALONG, _LANES_ACROSS = 4, 8
_HOPPER = 3


def mma_sums(version: int, instruction: Sequence[int], warps: Sequence[int], shape: tuple[int, ...]) -> Linear:
    """The sums of `mma.sync` (version 2) or `wgmma` (3), of which an instruction makes a tile of `instruction`."""
    rank = len(shape)
    tile = (1, ) * (rank - 2) + tuple(instruction)[-2:] if version < _HOPPER else (*(1, ) * (rank - 2), *instruction[:2])
    built = _fragment(tile, 2, rank - 1, rank - 2)
    built.tile("warps", warps, _matrix_order(rank, version < _HOPPER))
    return built.fitted(shape)


def mma_operand(version: int, index: int, k_width: int, warps: Sequence[int], shape: tuple[int, ...]) -> Linear:
    """Operand A (index 0) or B (1) of such a product in registers, `k_width` neighbours along K in a lane."""
    rank = len(shape)
    along, across = (rank - 1, rank - 2) if index == 0 else (rank - 2, rank - 1)
    tile = [1] * rank
    tile[along], tile[across] = 8 * k_width, 16 if index == 0 else 8
    built = _fragment(tile, k_width, along, across)
    _shared_along(built, "warps", warps, _matrix_order(rank, version < _HOPPER), along)
    return built.fitted(shape, (along, across, *reversed(range(rank - 2))))


def plain_operand(index: int, size: Sequence[int], threads: Sequence[int], warps: Sequence[int], order: Sequence[int],
                  shape: tuple[int, ...]) -> Linear:
    """Operand A or B of a product that threads compute by multiply-add, whose sums lie in blocks: each holds all of K."""
    rank = len(shape)
    along = rank - 1 if index == 0 else rank - 2
    built = Bases(rank)
    built.tile("registers", tuple(shape[axis] if axis == along else extent for axis, extent in enumerate(size)), order)
    _shared_along(built, "lanes", threads, order, along)
    _shared_along(built, "warps", warps, order, along)
    return built.fitted(shape, order)


def _fragment(tile: Sequence[int], k_width: int, along: int, across: int) -> Bases:
    built = Bases(len(tile))
    built.along("registers", along, k_width)
    built.along("lanes", along, _LANES_ALONG)
    built.along("lanes", across, _LANES_ACROSS)
    built.along("registers", across, tile[across] // _LANES_ACROSS)
    built.along("registers", along, tile[along] // (k_width * _LANES_ALONG))
    return built


def _shared_along(built: Bases, kind: str, extents: Sequence[int], order: Sequence[int], shared: int) -> None:
    """Repeat over lanes or warps as `Bases.tile` does, but along one dimension all hold the same."""
    for axis in order:
        if axis == shared:
            getattr(built, kind).extend([(0, ) * len(extents)] * (extents[axis].bit_length() - 1))
        else:
            built.along(kind, axis, extents[axis])


def _matrix_order(rank: int, by_rows: bool) -> tuple[int, ...]:
    """The dimensions from the fastest on: batches are the slowest."""
    return (*((rank - 1, rank - 2) if by_rows else (rank - 2, rank - 1)), *reversed(range(rank - 2)))
