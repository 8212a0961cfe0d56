"""What to say when no task can go on: who waits for what, in which phase, and who could have brought it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import BytesNeverSent, Deadlock, Livelock, TooFewArrivals, WaitCycle
from ..ir import Barrier, Block, Op, Program, Site, Value

SHOWN = 4       # CTAs that are written out in full; the others are counted
BRINGERS = {"barrier_arrive": "an arrival", "barrier_expect": "an arrival and its bytes", "tma_load": "bytes",
            "bulk_load": "bytes"}
REMOTE_BRINGERS = {"remote_arrive": "an arrival", "async_remote_store": "bytes", "async_remote_copy": "bytes",
                   "tma_load_multicast": "bytes"}


@dataclass(frozen=True)
class Place:
    """Which barriers a value stands for: the array's own value, and the index where that is a constant."""

    root: Value
    index: int | None = None


@dataclass(frozen=True)
class Bringer:
    """An op that brings arrivals or bytes to a barrier, and the task it is in (None: outside of tasks)."""

    op: Op
    place: Place
    task: str | None


def bringers(program: Program) -> list[Bringer]:
    """The ops that arrive on barriers or copy to them, in program order."""
    return _users(program, BRINGERS | REMOTE_BRINGERS)


def waits(program: Program) -> list[Bringer]:
    """The waits for barriers, in program order."""
    return _users(program, ("barrier_wait", ))


def _users(program: Program, users) -> list[Bringer]:
    places: dict[Value, Place] = {}
    constants: dict[Value, int] = {}
    found: list[Bringer] = []

    def place(value: Value) -> Place:
        return places.get(value, Place(value))

    def visit(block: Block, task: str | None) -> None:
        for op in block.ops:
            if op.name == "constant":
                constants[op.result] = op.args[0]
            elif op.name == "barrier_index":
                array, index = op.args
                places[op.result] = Place(place(array).root, index if isinstance(index, int) else constants.get(index))
            for argument, init in _carried_in(op):
                places[argument] = _loose(place(init))
            if op.name in users:
                barrier = next(value for value in op.operands if isinstance(value.type, Barrier))
                found.append(Bringer(op, place(barrier), task))
            names = task_names(op) if op.name == "warp_specialize" else [task] * len(op.blocks)
            for name, inner in zip(names, op.blocks):
                visit(inner, name)
            for result, value in _carried_out(op):
                places[result] = _loose(place(value))

    visit(program.body, None)
    return found


def _loose(place: Place) -> Place:
    """A barrier that control flow hands on keeps its array; which one it is may differ from time to time."""
    return Place(place.root)


def _carried_in(op: Op) -> Iterator[tuple[Value, Value]]:
    """(block argument, initial value) of the barriers that a loop carries."""
    if op.name in ("for", "while"):
        inits, arguments = op.args[-1], op.blocks[0].args
        pairs = zip(arguments[len(arguments) - len(inits):], inits)
        yield from ((argument, init) for argument, init in pairs if isinstance(init.type, Barrier))


def _carried_out(op: Op) -> Iterator[tuple[Value, Value]]:
    """(result, yielded value) of the barriers that control flow gives back."""
    if op.name in ("if", "for", "warp_specialize") and op.results:
        pairs = zip(op.results, op.blocks[0].yielded)
        yield from ((result, value) for result, value in pairs if isinstance(value.type, Barrier))


def task_names(op: Op) -> list[str]:
    """A name for each region of a `warp_specialize` op; replicas of one task are numbered."""
    tasks = op.attrs["tasks"]
    names = [task.name for task in tasks]
    return [f"{task.name}[{task.replica}]" if names.count(task.name) > 1 else task.name for task in tasks]


def deadlock(machine) -> Deadlock:
    """The error for a machine in which nothing is runnable or in flight."""
    lines = ["no task can go on, and nothing is in flight."]
    able = bringers(machine.program)
    stuck = [task for task in machine.blocked if task.wait.kind != "join"]
    stuck.sort(key=lambda task: (task.cta.number, task.first_warp))
    ctas = list(dict.fromkeys(task.cta for task in stuck))
    sites: list[Site] = []
    for task in stuck:
        sites += [task.wait.op.site] if task.wait.op.site not in sites else []
        if task.cta not in ctas[:SHOWN]:
            continue
        lines += waiting_lines(task, able)
    if len(ctas) > SHOWN:
        lines.append(f"  and the same way {len(ctas) - SHOWN} more CTAs")
    kind, culprit = cause(stuck, able)
    first = [culprit.wait.op.site] if culprit else []
    error = kind("\n".join(lines), *dict.fromkeys(first + sites))
    error.begun = culprit is not None and culprit.wait.resource.arrived > 0
    return error


def waiting_lines(task, able: list[Bringer]) -> list[str]:
    """Where a task waits and for what, and who could have brought it."""
    first = f"  {task.where} waits at {task.wait.op.site} for {task.wait.detail()}"
    return [first, *(_could_have_come(task, able) if task.wait.kind == "barrier" else ())]


def cause(stuck, able: list[Bringer]):
    """The class of a deadlock and the task whose wait shows it: the first wait that is hopeless by itself, else a cycle."""
    waiting = [task for task in stuck if task.wait.kind == "barrier"]
    for task in waiting:
        barrier = task.wait.resource
        if barrier.arrived == barrier.count and barrier.pending_bytes > 0:
            return BytesNeverSent, task
        if barrier.arrived > 0:
            return TooFewArrivals, task
    for task in waiting:
        others = _able_tasks(task, able)
        if all(other.finished for other in others):
            return TooFewArrivals, task
    return (WaitCycle if waiting else Deadlock), None


def _able_tasks(task, able: list[Bringer]) -> list:
    """The tasks that hold an op which could arrive where `task` waits. Barriers are of a CTA, and so are these, but for
    CTAs of one cluster, which may arrive on each other's."""
    barrier, found = task.wait.resource, []
    for one in able:
        if one.place.root is barrier.root and one.place.index in (None, barrier.index):
            for cta in task.cta.cluster.ctas if one.op.name in REMOTE_BRINGERS else [task.cta]:
                found += [other for other in cta.tasks if (other.name == one.task if one.task else other.parent is None)]
    return found


def livelock(machine) -> Deadlock:
    """The error for a machine whose running tasks only look at global memory, again and again."""
    loops = {task: task.loops[-1] for task in machine.runnable if task.loops}
    spinning = [task.where + (f" in the loop at {loops[task].site}" if task in loops else "") for task in machine.runnable[:SHOWN]]
    text = "tasks spin on global memory that nobody changes any more: " + ", ".join(spinning)
    text += f" and {len(machine.runnable) - SHOWN} more" if len(machine.runnable) > SHOWN else ""
    if machine.begun < machine.grid[0] * machine.grid[1] * machine.grid[2]:
        text += f"; {machine.begun} CTAs have started and the others wait for one of them to end"
    for task in machine.blocked:
        if task.wait.kind != "join":
            text += f"\n  {task.where} waits at {task.wait.op.site} for {task.wait.detail()}"
    waits = (task.wait.op.site for task in machine.blocked if task.wait.kind != "join")
    return Livelock(text, *dict.fromkeys([*(op.site for op in loops.values()), *waits]),
                    hint="somebody has to store what the loop waits for, and leave it there until the loop has seen it; CTAs that "
                    "wait for each other have to be resident at the same time")


def _could_have_come(task, able: list[Bringer]) -> list[str]:
    barrier, lines = task.wait.resource, []
    for bringer in able:
        if bringer.place.root is not barrier.root or bringer.place.index not in (None, barrier.index):
            continue
        op, remote = bringer.op, bringer.op.name in REMOTE_BRINGERS
        for cta in task.cta.cluster.ctas if remote else [task.cta]:
            others = [other for other in cta.tasks if other.name == (bringer.task or "default")]
            owner = f"task {bringer.task!r}" if bringer.task else "the kernel's body"
            owner += f" of CTA {cta.index}" if remote else ""
            owner += f", which {_state(others[-1 if bringer.task else 0])}" if others and (bringer.task or remote) else ""
            what = REMOTE_BRINGERS[op.name] if remote else BRINGERS[op.name]
            source = f"{what} could have come from {op.name}"
            if barrier.pipe is not None:
                verb = barrier.pipe.verb(op.name)
                source = f"{'its data' if verb == 'copy' else 'it'} could have come from the {verb}"
            lines.append(f"      {source} at {op.site}, in {owner}")
    nothing = "arrives on that barrier" if barrier.pipe is None else f"calls {barrier.pipe.brings} for that slot"
    return list(dict.fromkeys(lines)) or [f"      nothing in the kernel {nothing}"]


def _state(task) -> str:
    if task.finished:
        return "has finished"
    return f"is blocked at {task.wait.op.site}" if task in task.machine.blocked else "runs"
