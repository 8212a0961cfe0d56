"""What to say when no task can go on: who waits for what, in which phase, and who could have brought it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import Deadlock
from ..ir import Barrier, Block, Op, Program, Site, Value

SHOWN = 4       # CTAs that are written out in full; the others are counted
BRINGERS = {"barrier_arrive": "an arrival", "barrier_expect": "an arrival and its bytes", "tma_load": "bytes",
            "bulk_load": "bytes"}


@dataclass(frozen=True)
class Bringer:
    """An op that brings arrivals or bytes to a barrier array, and the task it is in (None: outside of tasks)."""

    op: Op
    task: str | None


def bringers(program: Program) -> dict[Value, list[Bringer]]:
    """For each value that `alloc_barriers` made, the ops that arrive on it or copy to it."""
    roots: dict[Value, Value] = {}
    found: dict[Value, list[Bringer]] = {}

    def root(value: Value) -> Value:
        return roots.get(value, value)

    def visit(block: Block, task: str | None) -> None:
        for op in block.ops:
            _follow(op, roots, root)
            if op.name in BRINGERS:
                barrier = next(value for value in op.operands if isinstance(value.type, Barrier))
                found.setdefault(root(barrier), []).append(Bringer(op, task))
            names = task_names(op) if op.name == "warp_specialize" else [task] * len(op.blocks)
            for name, inner in zip(names, op.blocks):
                visit(inner, name)
            for result, value in _carried_out(op):
                roots.setdefault(result, root(value))

    visit(program.body, None)
    return found


def _follow(op: Op, roots: dict[Value, Value], root) -> None:
    """Barriers keep their array through indexing and into loops."""
    if op.name == "barrier_index":
        roots[op.result] = root(op.args[0])
    if op.name in ("for", "while"):
        inits = op.args[-1]
        for argument, init in zip(op.blocks[0].args[len(op.blocks[0].args) - len(inits):], inits):
            if isinstance(init.type, Barrier):
                roots[argument] = root(init)


def _carried_out(op: Op) -> Iterator[tuple[Value, Value]]:
    if op.name in ("if", "for"):
        for result, value in zip(op.results, op.blocks[0].yielded):
            if isinstance(result.type, Barrier):
                yield result, value


def task_names(op: Op) -> list[str]:
    """A name for each region of a `warp_specialize` op; replicas of one task are numbered."""
    names = [task.name for task in op.attrs["tasks"]]
    return [f"{name}[{task.replica}]" if names.count(name) > 1 else name for name, task in zip(names, op.attrs["tasks"])]


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
        lines.append(f"  {task.where} waits at {task.wait.op.site} for {task.wait.detail()}")
        if task.wait.kind == "barrier":
            lines += _could_have_come(task, able.get(task.wait.resource.root, []))
    if len(ctas) > SHOWN:
        lines.append(f"  and the same way {len(ctas) - SHOWN} more CTAs")
    return Deadlock("\n".join(lines), *sites)


def livelock(machine) -> Deadlock:
    """The error for a machine whose running tasks only look at global memory, again and again."""
    spinning = [f"{task.where}" for task in machine.runnable[:SHOWN]]
    text = "tasks spin on global memory that nobody changes any more: " + ", ".join(spinning)
    if len(machine.ctas) < machine.grid[0] * machine.grid[1] * machine.grid[2]:
        text += f"; {len(machine.ctas)} CTAs have started and the others wait for one of them to end"
    for task in machine.blocked:
        if task.wait.kind != "join":
            text += f"\n  {task.where} waits at {task.wait.op.site} for {task.wait.detail()}"
    return Deadlock(text, *(task.wait.op.site for task in machine.blocked if task.wait.kind != "join"))


def _could_have_come(task, able: list[Bringer]) -> list[str]:
    if not able:
        return ["      nothing in the kernel arrives on that barrier"]
    lines = []
    for bringer in able:
        others = [other for other in task.cta.tasks if other.name == bringer.task]
        owner = f"task {bringer.task!r}, which {_state(others[-1])}" if others else "the kernel's body"
        lines.append(f"      {BRINGERS[bringer.op.name]} could have come from {bringer.op.name} at {bringer.op.site}, in {owner}")
    return lines


def _state(task) -> str:
    if task.finished:
        return "has finished"
    return f"is blocked at {task.wait.op.site}" if task in task.machine.blocked else "runs"
