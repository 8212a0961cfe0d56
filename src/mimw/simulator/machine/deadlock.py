"""The error for a launch in which no task can go on: which task waits for what, in which phase, and which ops could have helped.

Input: a machine whose tasks are all blocked, or look at memory for ever. Output: a `Deadlock` of the kind that fits. `cause` and
`waiting_lines` take any `StuckTask`. For example:

    WaitCycle: no task can go on, and nothing is in flight.
      task 'mma' of CTA (0, 0, 0) waits at gemm.py:22 for parity 0 of 'full'[0]: it is in phase 0 (parity 0) with 0 ...
          an arrival and its bytes could have come from barrier_expect at gemm.py:17, in task 'load', which is blocked at gemm.py:16

Of a pipe's barriers it speaks in the words of the pipe (`analysis.pipe_words`), with the chunk of each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...compiler.analysis.barrier_ops import BROUGHT, BarrierOp, signals
from ...compiler.analysis.launch_control import EMPTY, miscounted
from ...compiler.analysis.likely import likely_mend
from ...errors import BytesNeverSent, Deadlock, Livelock, RankMissing, SignalNeverSent, TooFewArrivals, WaitCycle
from ...ir import Op
from .stuck import StuckTask
from .tasks import CALLS, Task

SHOWN = 4       # CTAs that are written out in full; the others are counted


def deadlock(machine) -> Deadlock:
    """The error for a machine in which nothing is runnable or in flight."""
    lines = ["no task can go on, and nothing is in flight."]
    able = signals(machine.program)
    stuck = [task for task in machine.blocked if task.wait.kind != "join"]
    stuck.sort(key=lambda task: (task.cta.number, task.first_warp))
    ctas = list(dict.fromkeys(task.cta for task in stuck))
    sites: list = []
    for task in stuck:
        sites += [task.wait.op.site] if task.wait.op.site not in sites else []
        if task.cta not in ctas[:SHOWN]:
            continue
        lines += waiting_lines(task, able)
    if len(ctas) > SHOWN:
        lines.append(f"  and {len(ctas) - SHOWN} more CTAs in the same way")
    kind, culprit, hint = classed(stuck, able)
    first = [culprit.wait.op.site] if culprit else []
    error = kind("\n".join(lines), *dict.fromkeys(first + sites), hint=hint)
    error.begun = culprit is not None and culprit.wait.resource.arrived > 0
    return error


def waiting_lines(task: StuckTask, able: list[BarrierOp]) -> list[str]:
    """Lines on a task that waits: where, for what, and who could have brought it."""
    first = f"  {task.where} waits at {task.wait.op.site} for {task.wait.detail()}"
    if task.wait.kind == "signal":
        return [first, *_could_have_signalled(task)]
    if task.wait.kind != "barrier":
        return [first]
    return [first, *_could_have_come(task, able), *_launch_control(task)]


def _launch_control(task: StuckTask) -> list[str]:
    """Lines on a wait for an answer to a request, or for a stage that the next one may take."""
    barrier, refused = task.wait.resource, task.cta.refused
    wrong = miscounted(task.machine.program, barrier.root)
    lines = [f"      {wrong}"] if wrong else []
    if refused is not None and barrier.clc == EMPTY:
        lines.append(f"      a request was refused, as its CTA has seen at {refused.site}: no task releases that stage, and a CTA "
                     "may not ask again")
    return lines


def cause(stuck: Iterable[StuckTask], able: list[BarrierOp]) -> tuple[type[Deadlock], StuckTask | None]:
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


def classed(stuck: Sequence[Task], able: list[BarrierOp]) -> tuple[type[Deadlock], Task | None, str]:
    """(the class, the task whose wait shows it, the mend) of a deadlock of these tasks."""
    kind, culprit = cause(stuck, able)
    if stuck and (kind is Deadlock or kind is WaitCycle and _all_wait_for_gpus(stuck)):
        return among_gpus(stuck)[0], culprit, among_gpus(stuck)[1]
    return kind, culprit, likely_mend(stuck[0].machine.program) if stuck else ""


def _all_wait_for_gpus(stuck: Sequence[Task]) -> bool:
    """True if at each rank somebody waits for another GPU: tasks there that wait for barriers of the CTA wait for it, too."""
    ranks = {task.cta.gpu.rank for task in stuck}
    return ranks == {task.cta.gpu.rank for task in stuck if task.wait.kind in ("signal", "world")}


def among_gpus(stuck: Sequence[Task]) -> tuple[type[Deadlock], str]:
    """The class and the mend of a deadlock in which tasks wait for other GPUs."""
    barriers = [task.wait.resource for task in stuck if task.wait.kind == "world"]
    if barriers:
        ranks = ", ".join(map(str, barriers[0].absent()))
        return RankMissing, (f"every rank of the mesh has to reach the barrier equally often, and rank {ranks} does not: move "
                             "the barrier out of code that depends on the rank, or name the mesh of the ranks that reach it")
    if any(task.wait.kind == "signal" for task in stuck):
        return SignalNeverSent, ("let a task send it, or wait for a value that is sent: a signal that is set again may skip the "
                                 "value, and a signal that counts grows with each round")
    return Deadlock, ""


def _could_have_signalled(task: Task) -> list[str]:
    """The atomics of the kernel that could have changed the word a task waits for, and which ranks are over."""
    machine = task.machine
    atomics = [op for op in machine.program.walk() if "atomic" in op.row.traits]
    writes = [op for op in atomics if ("pointer", "write") in op.row.touches]
    lines = [f"      it could have come from the {op.name} at {op.site}" for op in writes]
    lines = lines or ["      no atomic of the kernel writes"]
    alive = {other.cta.gpu.rank for other in (*machine.runnable, *machine.blocked)}
    over = [str(gpu.rank) for gpu in machine.gpus if gpu.rank not in alive]
    return [*dict.fromkeys(lines), *([f"      rank {', '.join(over)} has ended"] if over else [])]


def _able_tasks(task: StuckTask, able: list[BarrierOp]) -> list[StuckTask]:
    """The tasks that hold an op which could arrive where `task` waits. Barriers are of a CTA, and so are these, but for
    CTAs of one cluster, which may arrive on each other's."""
    barrier, found = task.wait.resource, []
    for one in able:
        if one.barrier.may_be(barrier.root, barrier.index):
            for cta in task.cta.cluster.ctas if one.is_remote else [task.cta]:
                found += [other for other in cta.tasks if (other.name == one.task if one.task else other.is_body)]
    return found


def livelock(machine) -> Deadlock:
    """The error for a machine whose running tasks only look at global memory, again and again."""
    loops = {task: task.loops[-1] for task in machine.runnable if task.loops}
    spinning = [task.where + (f" in the loop at {loops[task].site}" if task in loops else "") for task in machine.runnable[:SHOWN]]
    text = "tasks spin on global memory that no task changes any more: " + ", ".join(spinning)
    text += f" and {len(machine.runnable) - SHOWN} more" if len(machine.runnable) > SHOWN else ""
    if machine.begun < machine.grid[0] * machine.grid[1] * machine.grid[2] * len(machine.gpus):
        text += f"; {machine.begun} CTAs have started and the others wait for one of them to end"
    for task in machine.blocked:
        if task.wait.kind != "join":
            text += f"\n  {task.where} waits at {task.wait.op.site} for {task.wait.detail()}"
    waits = (task.wait.op.site for task in machine.blocked if task.wait.kind != "join")
    return Livelock(text, *dict.fromkeys([*(op.site for op in loops.values()), *waits]),
                    hint="let a task store the value that the loop waits for, and keep it until the loop has seen it; CTAs that "
                    "wait for each other have to be resident at the same time")


def _could_have_come(task: StuckTask, able: list[BarrierOp]) -> list[str]:
    barrier, lines = task.wait.resource, []
    for one in able:
        if not one.barrier.may_be(barrier.root, barrier.index):
            continue
        op, remote = one.op, one.is_remote
        for cta in task.cta.cluster.ctas if remote else [task.cta]:
            others = [other for other in cta.tasks if other.name == (one.task or "default")]
            owner = f"task {one.task!r}" if one.task else "the kernel's body"
            owner += f" of {cta}" if remote else ""
            other = others[-1 if one.task else 0] if others else None
            owner += f", which {_state(other)}" if others and (one.task or remote) else ""
            source = f"{BROUGHT[op.row.barrier]} could have come from {op.name}"
            if barrier.pipe is not None:
                verb = barrier.pipe.verb(op)
                source = f"{'its data' if verb == 'copy' else 'it'} could have come from the {verb}"
                owner += _latest(other, op, barrier) if verb != "copy" else ""
            lines.append(f"      {source} at {op.site}, in {owner}")
    nothing = "arrives on that barrier" if barrier.pipe is None else f"calls {barrier.pipe.brings} for that slot"
    return list(dict.fromkeys(lines)) or [f"      nothing in the kernel {nothing}"]


def _latest(task: StuckTask | None, op: Op, barrier) -> str:
    """The last call of a pipe's method that a task has made by `op` for the slot of `barrier`, if that is known."""
    if task is None or task.calls is None:
        return ""
    call = next((call for call in reversed(task.calls) if call.op is op and call.barrier is barrier), None)
    return f"; the last there: {call}" if call is not None else "; none there yet" if len(task.calls) < CALLS else ""


def _state(task: StuckTask) -> str:
    if task.finished:
        return "has finished"
    return f"is blocked at {task.wait.op.site}" if task in task.machine.blocked else "runs"
