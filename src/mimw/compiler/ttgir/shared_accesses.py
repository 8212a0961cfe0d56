"""Bank conflicts of a kernel that was read: its accesses to shared memory by threads, each with what it costs.

Input: the accesses that the readers noted, and the chip. Output: a remark for each that takes longer than it has to. For example:

    remarks(reading, target("sm_90a"))        [Remark("local_store: 32 wavefronts a warp, 16 without bank conflicts ..", site)]

A layout that `bank_uses` does not know leaves no remark: nothing is said of its conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from ...ir import Buffer, Site
from ...target import Target
from ..analysis import Remark
from .bank_uses import bank_use
from .layout_text import LayoutProblem
from .types import layout_in, type_in, whole_in


@dataclass(frozen=True)
class SharedAccess:
    """An op that reads or writes a tile, and the types of tile and buffer as MLIR writes them."""

    op: str
    tile: str
    buffer: str
    site: Site


def remarks(accesses: Iterable[SharedAccess], chip: Target) -> tuple[Remark, ...]:
    """The cost of bank conflicts, once for each line and op."""
    found: dict[tuple[str, Site], Remark] = {}
    for access in accesses:
        buffer = type_in(access.buffer)
        if not isinstance(buffer, Buffer) or buffer.space != "smem":
            continue
        with suppress(LayoutProblem):
            layouts, bits = (layout_in(access.tile), layout_in(access.buffer)), buffer.element.bits
            use = bank_use(access.op, *layouts, buffer.shape, bits, chip, whole_in(access.buffer))
            if use is not None and use.excess:
                found.setdefault((access.op, access.site), Remark(use.sentence(), access.site))
    return tuple(found.values())
