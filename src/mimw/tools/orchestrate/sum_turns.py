"""Whether sums that tensor memory holds in turn are made often enough in a launch to show what happens when a place is used again.

Input: a `Written`. Output: True or False. For example, of two sums in turn:

    enough_turns(one)       False where no program has a third tile: nothing shows whether it waits for the first one's sum

`written` then takes one sum instead of two, if the plan leaves it open.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...compiler.analysis.trips import known_loops, rounds
from ...compiler.analysis.uses import Uses, uses_of
from ...ir import Op, Value
from .tiles import tiles_of


def enough_turns(one: Any) -> bool:
    """True if each sum of several places has a place more than once in a launch that a proof runs."""
    if one.made.sums in (None, 1):
        return True
    few, most = tiles_of(one.plain.launch.grid) if one.is_persistent else (one.plain.launch.grid, None)
    launch = one.launch(None, few, most or prod(map(int, few)))
    program = launch.recorded
    uses, known = uses_of(program), {loop.op: loop for loop in known_loops(program)}
    values = {param.value: int(value) for param in program.params
              if isinstance(value := launch.values.get(param.path), (int, np.integer)) and not isinstance(value, bool)}
    for op in program.named("tmem_load"):
        places = _places(uses, op.buffer)
        loop = known.get(uses.loops(op)[-1]) if places > 1 else None
        if places > 1 and (loop is None or (rounds(program, loop, values, launch.grid, (0, 0, 0)) or 0) <= places):
            return False
    return True


def _places(uses: Uses, buffer: Value) -> int:
    """The number of buffers of the array that a buffer is one of."""
    op: Op | None = uses.definition[buffer]
    while op is not None and op.name != "local_alloc":
        op = uses.definition[op.buffer]
    return 1 if op is None else max(1, op.type.count)
