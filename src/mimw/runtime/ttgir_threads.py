"""The threads of an access to global memory that leaves its array, in a kernel that was read from TTGIR.

Input: what was read. Output: a function of a task and an op, which the simulator asks where an access is outside. For example:

    with threads_named(reading): run(..)    ... element 64 of argument 'x', which has 64 elements
                                            warp 1, lane 0, register 0: element (64)
                                            and 63 more
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Tensor
from ..simulator import naming

if TYPE_CHECKING:
    from ..compiler.ttgir import Reading

SHOWN = 3       # threads


@contextmanager
def threads_named(reading: Reading | None) -> Iterator[None]:
    """Runs of what was read name such threads meanwhile; None is a program without layouts."""
    if reading is None:
        yield
        return
    token = naming.set(threads_of(reading))
    try:
        yield
    finally:
        naming.reset(token)


def threads_of(reading: Reading) -> Callable[[Any, Any], str]:
    """A function that names the threads of an access outside of its array; "" for an access of a number, and for a layout that is
    not known."""
    from ..compiler.ttgir.cta_parts import split_in  # what simulates a kernel of ours reads no TTGIR
    from ..compiler.ttgir.layout_text import LayoutProblem
    from ..compiler.ttgir.layouts import tile_map
    from ..compiler.ttgir.thread_accesses import Access, strays
    from ..compiler.ttgir.types import layout_in

    def names(task: Any, op: Any) -> str:
        pointer = getattr(op, "pointer", None) if "pointer" in op.row.places else None
        written = reading.written.get(pointer)
        if written is None or not isinstance(pointer.type, Tensor):
            return ""
        mask = task.env.get(op.mask) if "mask" in op.row.places and op.mask is not None else None
        part = pointer.type.shape
        try:
            split = split_in(written)
            tile = tile_map(layout_in(written), split.shape)
        except LayoutProblem:
            return ""
        addresses = np.broadcast_to(np.asarray(task.env[pointer]), part).astype(np.int64)
        taken = np.broadcast_to(np.asarray(True if mask is None else mask, bool), part)
        if part != split.shape:     # of the whole tile of several CTAs only what this one has is accessed
            where = split.of_rank(task.cta.rank)
            addresses, taken = (_placed(array, where, split.shape) for array in (addresses, taken))
        spans = [(region.start, region.end) for region in task.memory.regions]
        access = Access(tile, addresses, taken, pointer.type.element.pointee.bytes, op.row.stores)
        return "\n".join(strays(access, spans, SHOWN).lines())

    return names


def _placed(part: np.ndarray, where: Any, shape: tuple[int, ...]) -> np.ndarray:
    whole = np.zeros(shape, part.dtype)
    whole[where] = part
    return whole
