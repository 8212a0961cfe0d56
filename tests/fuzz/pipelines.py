"""Programs in the form of the published kernels for sm_100a: tasks that load, multiply into tensor memory, and read the sums.

Input: draws. Output: a maker, and a function that gives the program. What is drawn is a `Plan`; `pipeline_tasks` writes the tasks,
and here stands what the program means: for each item of work a sum of products, perhaps multiplied once more. For example:

    plan = drawn(draws, paired=False, claiming=False)       # m=128, n=64, slots=2, sums=2, chained=True, ...
    pipeline(draws, make, plan)("accumulators", 7)          # the Program
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .assemble import region
from .draws import Draws
from .elements import ELEMENTS
from .maker import Maker
from .pipeline_tasks import Writer
from .printer import kernel_source, reading_source
from .tree import Program

TYPES = ("f16", "bf16", "f8e5", "f8e4", "i8", "f32")
LOW, HIGH = -2, 2  # of the values of operands: sums of products stay exact in every type


@dataclass
class Operand:
    """One operand's ring. `shape`: one tile of one CTA, as the product has it; `across`: stored transposed; `fill`: tma or st;
    `place`: shared or tensor memory."""

    name: str
    shape: tuple[int, int]
    across: bool
    fill: str
    place: str = "shared"
    array: str = ""
    descriptor: str = ""

    @property
    def stored(self) -> tuple[int, int]:
        return self.shape[::-1] if self.across else self.shape


@dataclass
class Plan:
    """All that is drawn. `n` counts the columns of both CTAs of a pair. `started`: the sum starts from a tile that is stored, not
    from nothing; `skipping`: some steps are left out at run time; `chained`: the sum, made small, is multiplied by a fixed tile."""

    element: str
    m: int
    n: int
    k: int
    paired: bool
    claiming: bool
    items: int
    steps: int
    varied: bool
    slots: int
    sums: int
    operands: list[Operand] = field(default_factory=list)
    joint: bool = True
    release: str = "barriers"
    multipliers: int = 1
    readers: int = 1
    parts: int = 1
    started: bool = False
    skipping: bool = False
    chained: str = ""  # "", one (task multiplies both), two (tasks)
    aliased: bool = False
    width: int = 0  # of the chained product
    guarded: bool = True
    stages: int = 1
    warps: int = 4
    small: bool = False  # the output is half as wide a type
    groups: int = 1  # clusters, or CTAs

    @property
    def ctas(self) -> int:
        return 2 if self.paired else 1

    @property
    def result(self) -> str:
        return "i32" if self.element == "i8" else "f32"


def drawn(draws: Draws, paired: bool, claiming: bool) -> Plan:
    """A plan that fits into the memories of a CTA."""
    element = draws.pick(TYPES, [5, 3, 1, 1, 1, 1])
    size = ELEMENTS[element].bytes
    m, n = draws.pick([128, 64]), draws.pick([32, 64, 128])
    k = draws.pick({1: [32, 64], 2: [16, 32, 64], 4: [16, 32]}[size])
    if paired:
        n = max(n, 64)
    plan = Plan(
        element, m, n, k, paired, claiming,
        items=1 if claiming else draws.integer(1, 4),
        steps=draws.integer(1, 5),
        varied=draws.chance(25),
        slots=draws.integer(1, 3),
        sums=draws.pick([1, 2, 3]) if n < 128 else draws.integer(1, 2),
        groups=draws.integer(2, 6) if claiming else draws.integer(1, 2),
    )  # fmt: skip
    plan.joint = draws.chance(60)
    fill = draws.pick(["tma", "st"])
    turned = size < 4  # operands of 32 bits are read along K only
    a = Operand("a", (m, k), turned and draws.chance(30), fill)
    b = Operand("b", (k, n // plan.ctas), not turned or draws.chance(60), fill if plan.joint else draws.pick(["tma", "st"]))
    if element == "i8" and paired:
        b.across = True
    if m == 128 and not plan.joint and draws.chance(35):
        a = Operand("a", (m, k), False, "st", "tensor")
    for one in (a, b):
        if paired and one.place == "shared" and one.stored[1] * size < 32:
            one.across = not one.across if turned else one.across
    plan.operands = [a, b]
    plan.release = draws.pick(["barriers", "commit", "sync"], [4, 4, 1])
    plan.multipliers = draws.pick([1, 1, 2]) if not paired and n >= 64 else 1
    plan.guarded = not paired or draws.chance(60) and not claiming and plan.release != "sync"
    plan.started = draws.chance(25)
    plan.skipping = plan.started and draws.chance(40)
    if plan.skipping:
        plan.release = "commit"
    if not plan.started and draws.chance(30):
        plan.chained, plan.aliased = draws.pick(["one", "two"]), draws.chance(60)
        plan.width = draws.pick([32, 64]) if not paired else 64
        plan.multipliers = 1
    if plan.chained and paired and m != 128:
        plan.chained = ""
    if not plan.started and not plan.chained:
        plan.readers = draws.pick([1, 1, 2])
    plan.parts = draws.pick([1, 2, 4])
    plan.stages, plan.warps, plan.small = draws.integer(1, 2), draws.pick([4, 8]), draws.chance(30)
    return plan


def pipeline(draws: Draws, make: Maker, plan: Plan):
    """A function that gives the program of a plan."""
    place = "rank % 2" if plan.paired else "0"
    for one in plan.operands:
        rows, columns = one.stored
        owners = make.programs * plan.items * plan.steps
        one.array = make.array(plan.element, (owners * rows, columns), ("ints", LOW, HIGH))
        if one.fill == "tma":
            one.descriptor = make.descriptor(one.array, one.stored)
    width = plan.width if plan.chained else plan.n
    element = "f16" if plan.small else plan.result
    out = make.array(element, (make.programs * plan.items * plan.m, width), ("zeros",), output=True)
    factor = make.array("f16", (plan.n * plan.ctas, plan.width // plan.ctas), ("ints", LOW, HIGH)) if plan.chained else ""
    start = make.array(plan.result, (make.programs * plan.items * plan.m, plan.n), ("ints", -8, 8)) if plan.started else ""
    items = make.number(plan.items) if draws.chance(60) else str(plan.items)
    steps = make.number(plan.steps) if draws.chance(60) and not plan.varied else str(plan.steps)
    writer = Writer(draws, make, plan, out, factor, start, items, steps)
    tasks, texts = writer.written()

    def made(name: str, seed: int) -> Program:
        make.meta["num_warps"] = tasks[0].warps
        make.meta.setdefault("enable_fp_fusion", False)
        source, marks = kernel_source(make, [], region(type("Made", (), {"tasks": tasks}), texts), 1)
        reading = reading_source(make, meaning(plan, make, place, out, factor, start))
        arguments = tuple(make.arguments.values())
        return Program(
            name, seed, source, reading, arguments, (make.programs,), dict(make.meta), make.cluster,
            skips=dict(make.skips), marks=marks, chip=make.chip,
        )  # fmt: skip

    return made


def meaning(plan: Plan, make: Maker, place: str, out: str, factor: str, start: str) -> list[str]:
    """The numpy lines of one CTA. The columns of B that the other CTA of a pair holds are read where it reads them."""
    a, b = plan.operands
    first = "pid - pid % 2" if plan.paired else "pid"
    total = plan.items * plan.steps

    def tile(one: Operand, program: str) -> str:
        text = f"wide(take({one.array}, ({program}) * {total} + t * {plan.steps} + k, {one.stored}))"
        return text + ".T" if one.across else text

    whole = ", ".join(tile(b, f"{first} + {i}") for i in range(plan.ctas))
    seen = [f"    seen({ring!r})" for ring in ("c0",) + (() if plan.joint else ("c1",))]
    condition = f"if k % 2 == flag or k % 3 == {plan.steps % 3}:" if plan.skipping else "if True:"
    step = [
        *seen,
        f"    {condition}",
        f"        total = total + {tile(a, 'pid')} @ np.concatenate([{whole}], axis=1)",
    ]
    begin = f"np.zeros(({plan.m}, {plan.n}))"
    if plan.started:
        begin = f"wide(take({start}, pid * {plan.items} + t, ({plan.m}, {plan.n})))"
    rounds = f"1 + (pid // {plan.ctas} + t) % {plan.steps}" if plan.varied else str(plan.steps)
    lines = [f"for t in range({plan.items}):", f"    total = {begin}", f"    for k in range({rounds}):"]
    lines += ["    " + line for line in step]
    lines.append("    seen('c2')")
    if plan.chained:
        halves = ", ".join(f"wide({factor})[{i * plan.n}:{(i + 1) * plan.n}]" for i in range(plan.ctas))
        lines += ["    seen('c3')", f"    total = np.clip(total, -3, 3) @ np.concatenate([{halves}], axis=1)"]
    bound = "np.clip(total, -1000, 1000)" if plan.small else "total"
    element = ELEMENTS["f16" if plan.small else plan.result].reading
    lines.append(f"    put({out}, pid * {plan.items} + t, cast({bound} * 2, {element}))")
    return lines
