"""Loops of which one half of the waves runs a stage ahead of the other half: copies and tiles that go from stage to stage.

Stage k of trip i has the number i * K + k. What one half did in a stage, the other one may count on two stages later; a wait for
copies stands behind a stage, and counts as that stage does. From this follow the slots, how far ahead copies are started, and where
the wait stands: `Plan.wrong` says what is too close, for the program and for each mistake that is planted in it.

    for i in range(n):
        with tlx.warp_pipeline_stage("s0", priority=1): v = local_load(b[i % 2]); copy tile i + 1
        tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage(): tl.store(y + i * 512 + at, v)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ..draws import Draws
from ..edges.sketch import Sketch, places
from ..elements import ELEMENTS
from . import family, onto_a_chip

APART = 2               # stages, from which on the halves are ordered
SHAPES = ((512,), (1024,), (32, 64), (64, 32), (16, 128))


@dataclass(frozen=True)
class Plan:
    """`read`, `copied`, `stored`, `loaded`: the stages that read a slot, start a copy into one, and hand a tile on through `places`
    buffers; `awaited`: the stage behind which the wait stands, with so many groups `pending`; `first`: groups that the wait before
    the loop leaves."""

    stages: int
    trips: int
    slots: int
    ahead: int
    read: int
    copied: int
    awaited: int
    pending: int
    first: int
    stored: int
    loaded: int
    places: int

    def wrong(self) -> bool:
        """True if a copy is read too early, or a slot is written too soon after it was read."""
        return self._too_early() or self._too_soon() or self._handed_wrong()

    def _landed(self, trip: int) -> int:
        """How many tiles have surely been copied when the wait of that trip is over."""
        issued = self.ahead + trip + (1 if self.copied <= self.awaited else 0)
        return issued - self.pending

    def _too_early(self) -> bool:
        for tile in range(self.trips):
            waits = [trip for trip in range(self.trips)
                     if tile * self.stages + self.read - (trip * self.stages + self.awaited) >= APART]
            landed = max([self.ahead - self.first, *(self._landed(trip) for trip in waits)])
            if landed <= tile:
                return True
        return False

    def _too_soon(self) -> bool:
        between = (self.slots - self.ahead) * self.stages + self.copied - self.read
        return between < APART and self.trips > max(0, self.slots - self.ahead)

    def _handed_wrong(self) -> bool:
        if self.trips == 0 or not self.places:
            return False
        again = self.places * self.stages + self.stored - self.loaded
        return self.loaded - self.stored < APART or again < APART and self.trips > self.places


def drawn(draws: Draws) -> Plan:
    """A right plan. Where the draws make a wrong one: a tile that stays in its registers, a wait for all, at another place, copies
    that are further ahead, and more slots."""
    stages = draws.integer(2, 4)
    ahead = draws.integer(1, 2)
    plan = Plan(stages, draws.integer(1, 6), ahead + draws.integer(0, 2), ahead, draws.integer(0, stages - 1),
                draws.integer(0, stages - 1), draws.integer(0, stages - 1), draws.integer(0, ahead), draws.integer(0, ahead),
                draws.integer(0, stages - 1), draws.integer(0, stages - 1), draws.integer(0, 3))
    if stages > 2 and draws.chance(50):
        plan = replace(plan, read=0, stored=0, loaded=draws.integer(2, stages - 1))
    if plan._handed_wrong() or plan.stored < plan.read:     # what is handed on is what was read
        plan = replace(plan, places=0)
    for more in range(3):
        found = replace(plan, ahead=ahead + more, slots=plan.slots + more)
        while found._too_soon():
            found = replace(found, slots=found.slots + 1)
        for waits in ({}, {"first": 0}, {"first": 0, "pending": 0},
                      *({"first": 0, "pending": 0, "awaited": one} for one in range(stages))):
            if not replace(found, **waits).wrong():
                return replace(found, **waits)
    raise AssertionError(f"no wait is early enough for {plan}")


@family(3)
def halves(draws: Draws):
    """Tiles are copied ahead, read in one stage, maybe handed on through another buffer, summed or multiplied with themselves, and
    stored in the last stage."""
    plan = drawn(draws)
    s = Sketch(draws, grid=(draws.integer(1, 2),))
    onto_a_chip(draws, s)
    shape, element = draws.pick(SHAPES), draws.pick(["f32", "f16", "i32", "bf16"])
    size = prod(shape)
    tl_name, tiles, n = ELEMENTS[element].tl, plan.trips + plan.ahead, s.number(plan.trips)
    x = s.array(element, (s.programs, tiles, size), ("ints", -3, 3, s.seed()))
    y = s.output(element, (s.programs, plan.trips + 1, size))
    fold = draws.pick(["", "sum", *(["product"] if element in ("f16", "bf16") and len(shape) == 2 else [])])
    rows = (shape[0], shape[0]) if fold == "product" else shape
    total = s.output("f32", (s.programs, prod(rows))) if fold else ""
    by_base, weight = draws.chance(40), draws.integer(1, 3)
    constants = {"SLOTS": plan.slots, "PENDING": plan.pending, "FIRST": plan.first, "AWAITED": plan.awaited, "PLACES": plan.places}
    constants = {name: f"{name}: tl.constexpr = {value}" for name, value in constants.items()}
    s.kernel(*constants.values())
    s.kernel(f"at = {places(shape)}", f"tiles = tlx.local_alloc({shape}, {tl_name}, SLOTS)")
    if plan.places:
        s.kernel(f"handed = tlx.local_alloc({shape}, {tl_name}, PLACES)")

    def copy(t: str) -> list[str]:
        place = f"(pid * {tiles} + {t}) * {size}"
        call = (f"tlx.buffer_load_to_local(tiles[({t}) % SLOTS], {x}, {place} + at)" if by_base
                else f"tlx.async_load({x} + {place} + at, tiles[({t}) % SLOTS])")
        return [call, "tlx.async_load_commit_group()"]

    s.kernel(_indented([f"for t in tl.static_range({plan.ahead}):", copy("t")]), "tlx.async_load_wait_group(FIRST)")
    if fold:
        s.kernel(f"sums = tl.zeros({rows}, tl.float32)")
    value = "u" if plan.places else "v"
    bodies: list[list[str]] = [[] for _ in range(plan.stages)]
    for stage, line in sorted([(plan.read, "v = tlx.local_load(tiles[i % SLOTS])"), (plan.copied, "copy"),
                               *([(plan.stored, "tlx.local_store(handed[i % PLACES], v)"),
                                  (plan.loaded, "u = tlx.local_load(handed[i % PLACES])")] if plan.places else [])],
                              key=lambda one: one[0]):
        bodies[stage] += copy(f"i + {plan.ahead}") if line == "copy" else [line]
    made = plan.loaded if plan.places else plan.read
    if fold == "sum":
        bodies[draws.integer(made, plan.stages - 1)].append(f"sums += {value}.to(tl.float32)")
    elif fold == "product":
        slot = "tiles[i % SLOTS]"
        bodies[plan.read].append(f"left, right = tlx.local_load({slot}), tlx.local_load(tlx.local_trans({slot}))")
        bodies[draws.integer(plan.read, plan.stages - 1)].append("sums = tl.dot(left, right, sums)")
    bodies[-1].append(f"tl.store({y} + (pid * {plan.trips + 1} + i) * {size} + at, ({value} * {weight}).to({tl_name}))")
    lines: list = [f"for i in range({n}):"]
    for number, body in enumerate(bodies):
        body = body or [f"w = i + {number}"]
        label = draws.pick(["", f'"s{number}"'])
        priority = draws.pick(["", *(f"priority={one}" for one in range(4))])
        lines.append([f"with tlx.warp_pipeline_stage({', '.join(filter(None, (label, priority)))}):", body])
        lines.append([f"if AWAITED == {number}:", ["tlx.async_load_wait_group(PENDING)"]])
    s.kernel(_indented(lines), "tlx.async_load_wait_group(0)")
    s.reads(f"for i in range({n}):\n    {y}[pid, i] = {x}[pid, i] * {weight}")
    if fold:
        s.kernel(f"tl.store({total} + pid * {prod(rows)} + {places(rows)}, sums)")
        whole = f"{x}[pid, :{n}].astype(np.float32)"
        squares = f"one = {whole}.reshape(-1, *{shape})\n{total}[pid] = (one @ one.transpose(0, 2, 1)).sum(0).reshape(-1)"
        s.reads(f"{total}[pid] = {whole}.sum(0)" if fold == "sum" else squares)
    _mistakes(s, plan, constants)
    s.meta["num_warps"] = 8
    return s


def _mistakes(s: Sketch, plan: Plan, constants: dict[str, str]) -> None:
    """What makes the plan a wrong one by one number."""
    changes = [("PENDING", "pending", plan.pending + 1, "a group more may be unfinished"),
               ("FIRST", "first", plan.first + 1, "a group more may be unfinished when the loop begins"),
               *(("AWAITED", "awaited", one, "the wait stands behind another stage") for one in range(plan.stages)),
               ("AWAITED", "awaited", -1, "nobody waits for the copies"),
               ("SLOTS", "slots", plan.slots - 1, "a slot is filled while the other half reads it"),
               ("PLACES", "places", plan.places - 1, "a tile is handed on over one that the other half reads")]
    for name, field, number, why in changes:
        if number == getattr(plan, field) or name in ("SLOTS", "PLACES") and number < 1:
            continue
        changed = replace(plan, pending=10**6) if number == -1 else replace(plan, **{field: number})
        if changed.wrong():
            s.mistake(constants[name], f"{name}: tl.constexpr = {number}", why)


def _indented(lines: list, depth: int = 0) -> str:
    """Texts, and lists of them that stand deeper."""
    return "\n".join(_indented(one, depth + 1) if isinstance(one, list) else "    " * depth + one for one in lines)
