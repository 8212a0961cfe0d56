"""Flat tiles that threads store by computed addresses, as to another CTA's shared memory."""

from __future__ import annotations

from ...ir.core import Op
from ...ir.layouts import Blocked
from ...ir.types import element_of
from ..tiles import Tiles
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
