"""`async_tasks(exclusive=True)` promises that its region is the only one of the kernel.

Input: a program and its target. Output: nothing, or a `TaskError` with the lines of all regions:

    with tlx.async_tasks(exclusive=True): ..; with tlx.async_tasks(): ..       refused
"""

from __future__ import annotations

from ...errors import TaskError
from ...ir import Program
from ...target import Target
from ..analysis.registers import regions


def check_exclusive(program: Program, target: Target) -> None:
    """Raise `TaskError` if a region is exclusive and there are others."""
    found = regions(program)
    exclusive = next((region for region in found if region.attrs.get("exclusive")), None)
    if exclusive is not None and len(found) != 1 and target.backend == "cuda":
        raise TaskError("async_tasks(exclusive=True) requires exactly one warp_specialize op in the module, but found "
                        f"{len(found)}", exclusive.site, *(region.site for region in found if region is not exclusive),
                        hint="leave exclusive out, or make the regions one.")
