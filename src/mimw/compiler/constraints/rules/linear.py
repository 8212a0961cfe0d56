"""Flat tiles that threads store by computed addresses, as to another CTA's shared memory.

Input: an op on flat tiles. Output: a blocked layout of neighbours in one thread:

    remote_store %tile %values %rank        bf16[1024] on 4 warps: blocked([8], [32], [4], [0]), 16 bytes a store
"""

from __future__ import annotations

from ....ir.core import Op
from ....ir.layouts import Blocked
from ....ir.types import Buffer, element_of
from ..explain import at
from ..tiles import Choice, Strength, Tiles
from .registry import rule

_WORD, _WIDEST = 4, 16  # bytes: PTX ISA, st.async stores 4, 8 or 16 at a time


@rule("linear")
def linear(op: Op, tiles: Tiles) -> None:
    """Neighbouring elements in one thread as far as one store takes and all threads have some, then in the next thread."""
    for index, value in tiles.operands(op):
        (extent, ), size = value.type.shape, element_of(value.type).bytes
        threads = tiles.warp_size * tiles.num_warps
        each = min(max(extent // threads, _WORD // size, 1), _WIDEST // size, extent)
        tiles.want(op, index, Blocked((each, ), (tiles.warp_size, ), (tiles.num_warps, ), (0, )))


@rule("groups")
def groups(op: Op, tiles: Tiles) -> None:
    """`vector` neighbours in one thread, then in the next thread."""
    _all_alike(op, tiles, op.vector)


@rule("run")
def run(op: Op, tiles: Tiles) -> None:
    """A layout in which one thread holds as many neighbours as lie one after the other, as one access takes, and as leaves
    all threads some elements."""
    place = next(value for _, value in tiles.operands(op))
    (extent, ), size = place.type.shape, next(value.type.element for value in op.operands if isinstance(value.type, Buffer)).bytes
    threads = tiles.warp_size * tiles.num_warps
    _all_alike(op, tiles, min(op.attrs["run"], _WIDEST // size, max(1, extent // threads)))


def _all_alike(op: Op, tiles: Tiles, each: int) -> None:
    """Every operand and result with `each` neighbours in one thread."""
    layout = Blocked((each, ), (tiles.warp_size, ), (tiles.num_warps, ), (0, ))
    for index, _ in tiles.operands(op):
        tiles.want(op, index, layout)
    for result in tiles.results(op):
        tiles.give(result, Choice(layout, Strength.DEFAULT, op, f"{at(op.site)} {op.name} gives it"))
