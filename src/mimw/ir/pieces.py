"""Cuts of a tile whose buffer consists of pieces (`compiler.passes.pad_buffers`), and the layouts of its parts.

Input: an access with the attribute `pieces`, and the tile that it moves. Output: a `Cut`, its steps, and the layout of a part. For
example, of 176 columns in stripes of 16:

    cut_of(op, (64, 256)).steps        ((0, 16), (0, 32), (0, 64), (0, 128))
"""

from __future__ import annotations

from dataclasses import dataclass

from .core import Op
from .layouts import Linear


@dataclass(frozen=True)
class Cut:
    """A tile of `rows` x `columns` of the author's, held by a tile of `shape`, in pieces of the extents `piece`."""

    rows: int
    columns: int
    shape: tuple[int, int]
    piece: tuple[int, int]

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """The steps from one half of a cut to the other."""
        return tuple(tuple(step if axis == dim else 0 for axis in (0, 1)) for dim in (0, 1)
                     for step in _powers(self.piece[dim], self.shape[dim]))


def cut_of(op: Op, shape: tuple[int, int]) -> Cut:
    """The cut of an access with the attribute `pieces`, by a tile of that shape."""
    rows, columns, _ = op.attrs["pieces"]
    return Cut(rows, columns, shape, op.buffer.type.shape)


def part_of(linear: Linear, shape: tuple[int, int]) -> Linear:
    """The layout of a half, or a part of a half, of a tile in which cuts move nothing."""
    registers = tuple(basis for basis in linear.registers if all(step < extent for step, extent in zip(basis, shape)))
    return Linear(registers, linear.lanes, linear.warps, shape)


def _powers(first: int, end: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(first.bit_length() - 1, end.bit_length() - 1))
