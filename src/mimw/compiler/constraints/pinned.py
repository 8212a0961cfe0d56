"""Layouts that authors pin: linear maps for a tile and a task, and the checks on the solver's answer.

Input: a layout as the author wrote it, and the tile. Output: a `Linear` layout, or a `LayoutConflict`. An example:

    %y = require_layout %x (threads 32 x 4, values 2)        on 4 warps: the bits of lane, warp and register, for the tile's shape
"""

from __future__ import annotations

from math import prod

from ...errors import LayoutConflict
from ...ir.core import Op, Program
from ...ir.layouts import Linear, RegisterLayout, ThreadValue
from ...ir.linear import linear_of
from .matrix_cores import check_matrix_layout
from .tiles import Strength, Tiles


def resolved(layout: RegisterLayout, op: Op, shape: tuple[int, ...], tiles: Tiles) -> RegisterLayout:
    """`layout` for a tile of `shape` in the task being visited. Raises `LayoutConflict` if it does not suit them,
    `TargetError` if the chip has no such registers."""
    check_matrix_layout(layout, op, shape, tiles)
    return _linear(layout, op, shape, tiles) if isinstance(layout, ThreadValue) else layout


def _linear(layout: ThreadValue, op: Op, shape: tuple[int, ...], tiles: Tiles) -> Linear:
    threads = prod(extent for extent, _ in layout.threads)
    wanted = tiles.warp_size * tiles.num_warps
    if threads != wanted:
        raise LayoutConflict(
            f"{layout} is for {threads} threads; this task has {tiles.num_warps} warps x {tiles.warp_size} = {wanted}.", op.site,
            hint="make the product of the thread modes the number of threads; a mode with stride 0 replicates.")
    thread_bits, value_bits = _bits(layout.threads), _bits(layout.values)
    steps = [step for step in thread_bits + value_bits if step]
    if sorted(steps) != [1 << bit for bit in range(prod(shape).bit_length() - 1)]:
        raise LayoutConflict(
            f"{layout} does not hold each of the {prod(shape)} elements of {list(shape)} once: its steps are {sorted(steps)}.",
            op.site, hint="threads and values together must step by 1, 2, 4, ... up to half the number of elements, each once.")
    lanes = tiles.warp_size.bit_length() - 1
    return Linear(*(tuple(_coordinate(step, shape) for step in bits)
                    for bits in (value_bits, thread_bits[:lanes], thread_bits[lanes:])), shape)


def _bits(modes: tuple[tuple[int, int], ...]) -> list[int]:
    """The position that each bit of a thread's or value's number steps to."""
    return [stride << bit for extent, stride in modes for bit in range(extent.bit_length() - 1)]


def _coordinate(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A row-major position as coordinates."""
    result = []
    for extent in reversed(shape):
        result.append(position % extent)
        position //= extent
    return tuple(reversed(result))


def check_pinned(program: Program, tiles: Tiles) -> None:
    """Raise `LayoutConflict` for the first release of a tile that is not pinned, or assertion that does not hold."""
    for op in program.walk():
        if op.name == "release_layout" and tiles[op.value].strength is not Strength.PINNED:
            raise LayoutConflict(f"release_layout of a tile without an explicit layout: it is in {tiles[op.value].layout}, which "
                                 "the compiler chose.", op.site, hint="release what require_layout or layout= has pinned.")
        if op.name == "assert_same_layout":
            _check_same(op, tiles)


def _check_same(op: Op, tiles: Tiles) -> None:
    shape = op.lhs.type.shape
    left = tiles[op.lhs].layout
    right = tiles.compared[op] if op in tiles.compared else tiles[op.rhs].layout
    maps = linear_of(left, shape), linear_of(right, shape)
    if left != right and (None in maps or maps[0] != maps[1]):
        raise LayoutConflict("layout assertion failed: LinearLayouts differ\n"
                             f"  {left}\n    = {maps[0]}\n  {right}\n    = {maps[1]}", op.site,
                             hint="pin both with require_layout, or convert one.")
