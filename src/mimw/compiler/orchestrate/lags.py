"""How many chunks cp.async may still be copying when a producer begins the next ones, and the warps that copy.

Input: the rings of a program, with their depths. Output: the `Flight` of those that cp.async fills; warps and registers of the
tasks. For example, of a pipe of four slots that a loop fills, and of two of two slots, for keys and values:

    set_flights(uses, rings)        chunk i is told of once the copies of chunk i + 2 have begun; the last two behind all
                                    keys are told of once the values of their trip are on the way, values with the next keys
    registers(rings, plan, 8, target)       (4, 88, 208): 4 warps copy with 88 registers a thread, and 8 warps compute with 208

A chunk is told of once its copies have landed, for which the task has to wait: TMA tells of it by itself. Waited for at once, no
two chunks would be under way. But a producer that waits for a slot keeps back what it has not told of; so of each pipe as many
slots are kept as the consumers need to give one back (`_fits`). Behind a loop nothing is kept back where the consumer may wait for
it and the producer for another loop's slots; within one loop over tiles the next tile's copies follow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir import Op
from ...target import Target
from ..analysis.uses import Uses
from .plan import Plan
from .residency import of_consumers

MOST_LAG = 2        # trips whose copies are under way beside a trip's own; 1 to 4 were alike on an H200, and 0 took 1.6 x as long
WARPS = 4           # of a producer that copies by threads
PIECE, LEAST, MOST = 16, 88, 152    # bytes of a copy; a thread's registers: its addresses and masks beside 56 others
WARP, STEP = 32, 8  # threads of a warp; setmaxnreg counts by eights


@dataclass(frozen=True)
class Flight:
    """Behind a ring's group of copies all but the `pending` newest groups are waited for; what `tells` has then landed is the chunk
    `before` its number at that time, `surely` if it is one of the same trip. `left` chunks of the ring are told of behind the loop
    `drained`; None: at the end of the producer."""

    pending: int
    tells: Any
    before: int
    surely: bool
    left: int
    drained: Op | None


def set_flights(uses: Uses, rings: Sequence[Any], late: Collection[Op] = (), most: int | None = None) -> None:
    """Set the `flight` of each ring whose copies may run on, with those of at most so many trips beside, by default MOST_LAG.
    `late` are products that run behind by a trip."""
    alone = len({uses.place[ring.loads[0]].block for ring in rings if not ring.once}) == 1
    for loop in dict.fromkeys(uses.place[ring.loads[0]].parent for ring in rings if ring.gathers and not ring.once):
        if not _is_innermost(uses, loop, rings):
            continue
        together = [ring for ring in rings if uses.place[ring.loads[0]].parent is loop]
        mine = sorted((ring for ring in together if ring.gathers), key=lambda ring: uses.position[ring.loads[-1]])
        trip = len(mine)
        groups = max(count for count in range((MOST_LAG if most is None else most) * trip + 1)
                     if count == 0 or all(_fits(ring, count, trip, late) for ring in together))
        for at, ring in enumerate(mine) if groups else ():
            trips, other = divmod(at - groups, trip)
            left = max(0, -(-(groups - (trip - 1 - at)) // trip))
            ring.flight = Flight(groups, mine[other], (other < at) - trips, trips == 0, left, None if alone else loop)


def _fits(ring: Any, groups: int, trip: int, late: Collection[Op]) -> bool:
    """True if the consumers can give back a slot of the ring for which the producer waits, while so many groups of copies, `trip`
    of them in each trip, have not been told of. They need the trip of the chunk that is there; where a product runs on into the
    next trip, that one, too; where it is a late one, the pipe's next chunk."""
    slots, runs_on = ring.root.stages, ring.trails
    own = -(-(groups + 1) // trip) - 1 if ring.gathers else 0
    others = -(-groups // trip) if trip > 1 or not ring.gathers else 0
    return own <= slots - 1 - (runs_on or ring.last in late) and others <= slots - 1 - runs_on


def _is_innermost(uses: Uses, loop: Op | None, rings: Sequence[Any]) -> bool:
    """True of a `for` that has rings in its own block alone: each trip has one chunk of each."""
    if loop is None or loop.name != "for":
        return False
    inner = set(loop.walk())
    return all(uses.place[load].parent is loop for ring in rings for load in ring.loads if load in inner)


def registers(rings: Any, plan: Plan, plain: int, target: Target) -> tuple[int, int | None, int | None]:
    """(warps of the producer, its registers a thread, a consumer's), if the plain kernel has so many warps: the plan's, unless the
    producer's threads copy, who then need addresses; consumers have what it leaves (`residency.py`)."""
    tiles, producer = [load.result.type for ring in rings.rings for load in ring.gathers], plan.producer_registers
    if tiles and producer is not None:
        pieces = max(tile.numel * tile.element.bytes for tile in tiles) // (WARPS * WARP * PIECE)
        producer = max(producer, min(MOST, max(LEAST, 56 + 4 * pieces // STEP * STEP)))
    return WARPS if tiles else 1, producer, of_consumers(plan, plain, target, producer)
