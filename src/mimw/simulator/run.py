"""One simulated launch.

Input: a program, a grid, and the launch's arguments. Output: a `Run`; the arrays among the arguments are written. For example:

    run(program, (8, ), {(0, ): source, (1, ): target}, seed=3, races=True).cycles
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..compiler.collector import resting_collector
from ..errors import SimulatorMisuse
from ..ir import Program, Site
from ..ir.trace import Trace
from .machine.guide import Guide, Schedule, check_seed
from .machine.hooks import Hooks
from .machine.machine import Machine
from .machine.one_thread import one_thread
from .memory.worlds import bind_launch

watching: ContextVar[Callable[[Machine], None] | None] = ContextVar("watching", default=None)   # sees each machine before it runs


@dataclass(frozen=True)
class Run:
    """The result of a launch, besides what it wrote into its arguments.

    `cycles` is the time at which the last task or copy ended, in the simulator's abstract cycles; `counts` says how
    often each op ran, over all CTAs; `trace` is None unless it was asked for. With a trace come `lines`: how many cycles the
    ops of each place in the source took, over all CTAs, waits aside; `run.lines.most_common(3)` are the three that took the most.
    `unawaited` names the arrays of barriers with arrivals that no wait came after.
    """

    cycles: float
    counts: Counter[str]
    trace: Trace | None = None
    lines: Counter[Site] = field(default_factory=Counter, repr=False)
    unawaited: tuple[str, ...] = field(default=(), repr=False)


def run(program: Program, grid: Sequence[int], args: Mapping[tuple[int, ...], Any], *, seed: int | Schedule | Guide = 0,
        trace: bool = False, check_unwritten: bool = True, races: bool = False, memory: Sequence[Any] = (),
        hooks: Hooks | None = None, gpus: int = 1) -> Run:
    """Execute `program` on the CPU for every program id of `grid`, writing into the arrays among `args`.

    grid:             1 to 3 numbers of programs
    args:             host objects by `Param.path`: numpy arrays or torch CPU tensors, numbers, `TensorDescriptor`s
    seed:             picks the interleaving of tasks and when copies land; 0 lands them as late as can be; a tuple is a
                      schedule, as `mimw.check` finds them
    trace:            whether to keep a timeline
    check_unwritten:  whether using what nobody has written in shared or tensor memory, or reading what is still on its way, is an
                      error
    races:            whether to look for accesses that nothing orders (docs/MEMORY_MODEL.md); several times as slow
    memory:           further arrays that the kernel reaches through addresses it loads; for several GPUs a `world.PerRank` each
    gpus:             how many GPUs run it side by side; where `args` has a `world.PerRank`, each has its own value
    hooks:            which clusters of the grid run, who looks between steps, what is not computed
    raises:           a `SimulationError` that names CTA, task and source line; arrays hold what was written so far
    """
    sizes = tuple(operator.index(size) for size in grid)
    if not 1 <= len(sizes) <= 3 or any(size < 0 for size in sizes):
        raise SimulatorMisuse(f"the grid should be 1 to 3 numbers of programs, not {tuple(grid)}", program.site)
    if not isinstance(seed, Guide):
        check_seed(seed)
        seed = Guide(seed) if isinstance(seed, tuple) else operator.index(seed)
    bound = bind_launch(program, args, gpus, memory)
    machine = Machine(program, (*sizes, 1, 1)[:3], bound.arguments, bound.memory, seed=seed, trace=trace,
                      check_unwritten=check_unwritten, races=races, hooks=hooks, gpus=bound.gpus)
    if (watcher := watching.get()) is not None:
        watcher(machine)
    # Overflow, division by zero and NaN are values on the GPU, not events.
    with resting_collector(), one_thread(), np.errstate(all="ignore"):
        try:
            machine.run()
        finally:
            machine.close()
    return Run(machine.end, machine.counts(), machine.trace, machine.lines() if trace else Counter(),
               tuple(dict.fromkeys(one.array for root, one in machine.completed.items() if root not in machine.awaited)))
