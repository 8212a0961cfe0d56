"""The barriers between waves that Triton adds behind TTGIR on AMD, where halves of the waves run apart: as a module that has them.

Input: the text of a finished module for a chip of AMD's. Output: the text with those barriers, if it has `amdg.cond_barrier`:

    with_late_barriers(text)      ttg.barrier local behind ttg.async_wait, between reads of a buffer and the next copy into it

Of other modules none is asked for: the simulator has one strand a task, in which accesses are in order. But where one half of the
waves comes to a barrier more than the other one, each barrier decides what the halves do at the same time. Stock Triton runs the
pass where control flow has become branches; here loops stay loops, and behind one a barrier may stand more.
"""

from __future__ import annotations

import re

from triton._C.libtriton import amd

from .late_passes import after_passes

_TARGET = re.compile(r'ttg\.target = "hip:(\w+)"')


def with_late_barriers(text: str, file: str = "") -> str:
    """The module with the barriers; allocations have their places as attributes. The text as it is where all waves run together.
    Ops without a location of their own are then located in `file`, where they stand in the text. `MlirProblem` for a text that
    MLIR cannot read."""
    chip = _TARGET.search(text)
    if chip is None or "amdg.cond_barrier" not in text:
        return text

    def add(manager) -> None:
        amd.passes.ttgpuir.add_allocate_shared_memory(manager, chip[1])
        amd.passes.ttgpuir.add_membar(manager, chip[1])

    return after_passes(text, file, "late_barriers", add)
