"""`breakpoint()` in a kernel: the debugger that a simulated launch hands over to.

Input: a launch made ready. Output: its run, as without the debugger. An example:

    if stops(launch.program):
        found = run_to_breakpoints(launch, seed=0, trace=False, races=False)        a prompt at each `breakpoint()`

The runtime knows no tool: the debugger is loaded by its name, when a kernel asks for it. PYTHONBREAKPOINT=0 lets launches run past
their breakpoints, as Python programs do.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module
from typing import Any

from ..ir import Program

prompting = threading.Event()       # while a prompt is open: nobody else writes to its terminal
_TOOL = "mimw.tools.debugger"


def stops(program: Program) -> bool:
    """True if a simulated launch of the program is to stop at its breakpoints."""
    return bool(program.named("breakpoint")) and os.environ.get("PYTHONBREAKPOINT") != "0"


def run_to_breakpoints(launch: Any, **how: Any) -> Any:
    """`tools.debugger.at_breakpoints`: arguments, result and errors as there."""
    prompting.set()
    try:
        return import_module(_TOOL).at_breakpoints(launch, **how)
    finally:
        prompting.clear()
