"""Asynchronous copies whose mask cuts through the 4 bytes that cp.async moves at least.

Input: a program. Output: the `async_load` ops that have to go through registers. For example:

    tlx.async_load(p + at, tile, mask=at < n)       of bf16: cp.async moves two elements at once, and n may be odd
"""

from __future__ import annotations

from ...ir import Op, Program
from ..analysis import uses_of
from ..analysis.mask_runs import mask_run

_LEAST_BYTES = 4  # PTX ISA, cp.async: cp-size is 4, 8 or 16


def cut_copies(program: Program) -> frozenset[Op]:
    """Every `async_load` that has to go through registers because of its mask."""
    uses, found = uses_of(program), set()
    for op in uses.ops:
        if op.name != "async_load" or op.mask is None:
            continue
        if mask_run(uses, op.mask) * op.pointer.type.element.pointee.bytes < _LEAST_BYTES:
            found.add(op)
    return frozenset(found)
