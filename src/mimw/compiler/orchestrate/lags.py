"""How many chunks cp.async may still be copying when a producer begins the next ones, and the warps that copy.

Input: the rings of a program, with their depths. Output: `lag`, `groups` and `drained` of those that cp.async fills; warps and
registers of the tasks. For example, of a pipe of four slots that a loop fills:

    set_lags(uses, rings)           lag 2: chunk i is told of once the copies of chunk i + 2 have begun; the last two behind all
    registers(rings, plan, 8, target)       (4, 88, 208): 4 warps copy with 88 registers a thread, and 8 warps compute with 208

A chunk is told of once its copies have landed, for which the task has to wait: TMA tells of it by itself. Waited for at once, no two
chunks would be under way. A consumer gives back a chunk once it has the next one, so that lag and two more slots are needed: with
fewer each would wait for the other. Behind a loop nothing is kept back where the consumer may wait for it and the producer for
another loop's slots; within one loop over tiles the next tile's copies follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir import Op
from ...target import Target
from ..analysis.uses import Uses
from .plan import Plan
from .residency import of_consumers

MOST_LAG = 2        # as in the library's own kernel, `kernels/moe/gathered.py`
WARPS, REGISTERS = 4, 88        # of a producer that copies by threads, a thread: the same


def set_lags(uses: Uses, rings: Sequence[Any], most: int | None = None) -> None:
    """Set what the rings say of cp.async's groups, with `most` chunks under way, by default MOST_LAG."""
    most = MOST_LAG if most is None else most
    mine = [ring for ring in rings if ring.gathers]
    alone = len({uses.place[ring.loads[0]].block for ring in rings if not ring.once}) == 1
    for ring in mine:
        loop = uses.place[ring.loads[0]].parent
        if ring.once or not _is_innermost(uses, loop, rings):
            continue
        ring.lag = max(0, min(most, ring.root.stages - 2))
        ring.groups = sum(uses.place[other.loads[0]].parent is loop for other in mine)
        ring.drained = None if alone else loop


def _is_innermost(uses: Uses, loop: Op | None, rings: Sequence[Any]) -> bool:
    """True of a `for` that has rings in its own block alone: each trip has one chunk of each."""
    if loop is None or loop.name != "for":
        return False
    inner = set(loop.walk())
    return all(uses.place[load].parent is loop for ring in rings for load in ring.loads if load in inner)


def registers(rings: Any, plan: Plan, plain: int, target: Target) -> tuple[int, int | None, int | None]:
    """(warps of the producer, its registers a thread, a consumer's), if the plain kernel has so many warps: the plan's, unless the
    producer's threads copy, who then need addresses; consumers have what it leaves (`residency.py`)."""
    copies, producer = any(ring.gathers for ring in rings.rings), plan.producer_registers
    if copies and producer is not None:
        producer = max(producer, REGISTERS)
    return WARPS if copies else 1, producer, of_consumers(plan, plain, target, producer)
