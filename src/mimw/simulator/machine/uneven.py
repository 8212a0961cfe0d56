"""Ranks that do not go on evenly: one that dies, one that is late, and paces that differ by rank.

Input: a machine of several GPUs, of which some have `steps_left` or are `late` (`mimw.World(4, dies={2: 40}, late={1: 200})`).
Output: who goes on; and, when the others cannot any more, what each of them would report. For example:

    uneven = Uneven(machine)
    uneven.pick()               the place of the next task among those that can go on
    uneven.step(task)           True if its rank has died, and the task does nothing any more
    uneven.report(error)        RankDied: rank 2 died after 40 steps ... rank 0 would report SignalNeverSent ...

A step is what the scheduler does at a time: an op that others can notice, with the arithmetic before it. The tasks of a dead rank
do nothing more, its waiting programs never start, and what it had in flight still lands: on real GPUs it may.

Seeds but 0 draw how much the ranks differ in pace: from not at all to one that goes on only where the others cannot.
"""

from __future__ import annotations

from ...compiler.analysis.barrier_ops import signals
from ...errors import Deadlock, RankDied
from ...ir import Site
from .deadlock import classed, waiting_lines
from .gpus import Gpu
from .protocols import Scheduler
from .tasks import Task

PACES = 1, 1, 4, 16         # of how many tasks, drawn at random, the one of the fastest rank goes on
SPINNING = 32               # so many looks at global memory with nothing else going on: the fastest ranks only spin


class Uneven:
    """The ranks of one machine."""

    def __init__(self, machine: Scheduler, drawn: bool):
        self.machine, count = machine, len(machine.gpus)
        self.mortal = any(gpu.steps_left is not None for gpu in machine.gpus)
        self.late = {gpu.rank: gpu.late for gpu in machine.gpus if gpu.late}
        self.dead: dict[int, tuple[int, Site | None]] = {}       # by rank: after how many steps, and the last wait
        self.made = [0] * count
        self.pace = machine.random.choice(PACES) if drawn else 1
        self.order = machine.random.sample(range(count), count) if self.pace > 1 else []

    # ---- who goes on ------------------------------------------------------------------------------------------------

    def pick(self) -> int:
        """The place of the task that goes on among the runnable ones."""
        random, runnable = self.machine.random, self.machine.runnable
        if self.late:
            others = [place for place, task in enumerate(runnable) if task.cta.gpu.rank not in self.late]
            if others:
                self.late = {rank: steps - 1 for rank, steps in self.late.items() if steps > 1}
                return others[int(random.random() * len(others))]
        pace = self.pace if self.machine.polls < SPINNING else 1        # else who spins would keep from its turn whom it waits for
        drawn = [int(random.random() * len(runnable)) for _ in range(pace)]
        return min(drawn, key=lambda place: self.order[runnable[place].cta.gpu.rank]) if pace > 1 else drawn[0]

    def step(self, task: Task) -> bool:
        """Count a step of `task`; True if its rank dies instead, or may not begin at all."""
        gpu = task.cta.gpu
        if gpu.steps_left is None:
            return False
        if gpu.steps_left == 0:
            self._die(gpu, task)
            return True
        gpu.steps_left -= 1
        self.made[gpu.rank] += 1
        return False

    def _die(self, gpu: Gpu, last: Task) -> None:
        machine = self.machine
        self.dead[gpu.rank] = self.made[gpu.rank], last.wait.op.site if last.wait is not None else None
        for task in [one for one in (*machine.runnable, *machine.blocked) if one.cta.gpu is gpu]:
            if task in machine.blocked:
                del machine.blocked[task]
            else:
                machine.runnable.remove(task)
                if machine.enabled is not None:
                    machine.enabled.note(task, False)
            machine.watching.pop(task, None)
            task.steps = None

    def living(self) -> int:
        """The number of CTAs that had not ended when their rank died."""
        return sum(1 for cta in self.machine.ctas.values() if cta.live and cta.gpu.rank in self.dead)

    # ---- what is said of it -----------------------------------------------------------------------------------------

    def report(self, error: Deadlock) -> Deadlock:
        """`error`, or what is to be said instead where a rank has died."""
        if not self.dead:
            return error
        machine = self.machine
        able = signals(machine.program)
        lines = [f"rank {rank} died after {steps} steps" + (f", the last behind its wait at {site}" if site else "")
                 for rank, (steps, site) in self.dead.items()]
        sites = []
        for gpu in machine.gpus:
            if gpu.rank in self.dead:
                continue
            stuck = [task for task in machine.blocked if task.cta.gpu is gpu and task.wait.kind != "join"]
            stuck.sort(key=lambda task: (task.cta.number, task.first_warp))
            spinning = [task for task in machine.runnable if task.cta.gpu is gpu]
            sites += [task.wait.op.site for task in stuck]
            if not stuck and not spinning:
                lines.append(f"rank {gpu.rank} has ended")
                continue
            kind = classed(stuck, able)[0] if stuck else type(error)
            lines.append(f"rank {gpu.rank} would report {kind.__name__}:")
            lines += [waiting_lines(task, able)[0] for task in stuck[:_SHOWN]]
            lines += [f"  {task.where} spins on global memory" for task in spinning[:_SHOWN]]
            more = len(stuck[_SHOWN:]) + len(spinning[_SHOWN:])
            lines += [f"  and {more} more"] if more > 0 else []
        return RankDied("\n".join(lines), *dict.fromkeys(sites), hint="a wait for another GPU has no end of its own: give launches "
                        "a time limit (MIMW_WATCHDOG), which reports these waits at each rank, and start all ranks again")


_SHOWN = 2      # tasks of a rank that are written out, of those that wait and of those that spin
