"""Where ops of a program access global memory, in every CTA of a grid, by addresses alone.

Input: a launch and the ops wanted. Output: a `Walk` that visits each wanted op with its operands evaluated. For example:

    class Stores(Walk):
        def visit(self, task, op): ...                      task.env[op.pointer] are the addresses
    for number in range(cluster_count(launch)):
        Stores(launch, Plan(launch, stores)).cluster(number)

Addresses are evaluated where they, their masks and the control flow around them are arithmetic on program ids, arguments,
constants, and what is loaded from arrays that the launch does not write (the table of a rank, page tables). Everything else
(copies, products, barriers, tile data) is left out, so a CTA takes milliseconds. What cannot be evaluated so is `Unknown`.

Where a CTA may take over another one's work, each is looked at as if it did its own and no more: whoever does the work of a program
id accesses what that id says.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...compiler.analysis.flows import Flows
from ...errors import SimulationError
from ...ir import Block, Op, Value
from ...ir.flow import bounds, terminator
from ...ir.ops import is_pure
from ...runtime.simulate import Launch
from ...simulator import HANDLERS
from ...simulator.machine.clusters import Cluster
from ...simulator.machine.guarded import PerThread
from ...simulator.machine.machine import Machine
from ...simulator.machine.tasks import Cta, Task
from ...simulator.memory.worlds import bind_launch
from ...simulator.words.control import first_warps
from .across import Globals, deciding, global_operands
from .clusters import cluster_at, extents

ANSWER = "clc_query"
STEPS = 400_000         # ops evaluated, some seconds


class Unknown(Exception):
    """The reason why something cannot be evaluated, in words."""


class Plan:
    """The ops that have to be evaluated to know what the `wanted` ones access."""

    def __init__(self, launch: Launch, wanted: Iterable[Op]):
        self.program, self.wanted, flows = launch.program, frozenset(wanted), launch.program.kept(Flows)
        self.needed: set[Value] = set()
        self.inside: dict[Op, bool] = {}            # whether a structure holds a wanted op
        for op in self.program.body.ops:
            self._holds(op)
        memory, writes = Globals(launch), [op for op in self.program.walk() if _writes(op)]
        todo = [value for op in self.wanted for value in deciding(op, flows) if not _is_place(value)]
        todo += [value for op in self.program.walk() if self.inside.get(op) for value in _bounds(op)]
        while todo:
            value = todo.pop()
            if value in self.needed:
                continue
            self.needed.add(value)
            todo += flows.sources.get(value, ())
            op = flows.maker.get(value)
            if op is None:
                continue
            if op.row.hands_on:
                todo += _bounds(op)
                continue
            if op.name == ANSWER:
                continue
            stays = op.row.loads and "pointer" in op.row.places and not op.is_volatile and not any(
                memory.meet(op, write) for write in writes)
            if not stays and not is_pure(op.name) and op.name != "make_tensor_descriptor":
                raise Unknown(f"the {op.name} at {op.site} decides where or whether one is made")
            todo += op.operands
            todo += (operand for block in op.blocks for one in block.ops for inner in one.walk() for operand in inner.operands)
        self.live: dict[Block, list[Op]] = {}
        self._mark(self.program.body)

    def _holds(self, op: Op) -> bool:
        inside = [self._holds(inner) for block in op.blocks for inner in block.ops]
        self.inside[op] = op in self.wanted or any(inside)
        return self.inside[op]

    def _mark(self, block: Block) -> None:
        self.live[block] = [op for op in block.ops if self.inside.get(op) or not self.needed.isdisjoint(op.results)]
        for op in self.live[block]:
            if op.row.hands_on:
                for inner in op.blocks:
                    self._mark(inner)


def _writes(op: Op) -> bool:
    return any(access.endswith("write") for _, access in global_operands(op))


def _is_place(value: Value) -> bool:
    return type(value.type).__name__ in ("Buffer", "Barrier", "Token")


def _bounds(op: Op) -> list[Value]:
    """The values that decide which blocks of a structure run, and how often."""
    if op.name == "while":
        return [terminator(op.blocks[0]).condition]
    return deciding(op, None) if op.row.hands_on else []


class Walk:
    """Evaluates the plan for one cluster after the other; `visit` is told of each wanted op that runs."""

    def __init__(self, launch: Launch, plan: Plan):
        self.launch, self.plan, self.steps = launch, plan, 0
        bound = bind_launch(launch.program, launch.values, launch.gpus, launch.memory)
        self.machine = Machine(launch.program, extents(launch), bound.arguments, bound.memory, seed=0, trace=False,
                               check_unwritten=False, gpus=bound.gpus)

    def visit(self, task: Task, op: Op) -> None:
        """A wanted op, with what it takes in `task.env`."""
        raise NotImplementedError(f"{type(self).__name__} visits nothing")

    def cluster(self, number: int) -> None:
        """Visit the cluster of that number, at each rank."""
        program, machine = self.launch.program, self.machine
        for gpu in machine.gpus:
            cluster = Cluster(machine.warps)
            for rank, index in enumerate(cluster_at(self.launch, number)):
                cluster.ctas.append(Cta(rank, index, cluster, rank, gpu))
            for cta in cluster.ctas:
                task = Task(machine, cta, "default", {**machine.arguments, **gpu.arguments}, program.num_warps, 0, 0.0)
                with np.errstate(all="ignore"):
                    self._block(task, program.body)

    # ---- control ----------------------------------------------------------------------------------------------------

    def _block(self, task: Task, block: Block) -> None:
        for op in self.plan.live[block]:
            self.steps += 1
            if op.row.hands_on:
                getattr(self, f"_{op.name}")(task, op)
            elif op in self.plan.wanted:
                self.visit(task, op)
            else:
                self._evaluate(task, op)

    def _evaluate(self, task: Task, op: Op) -> None:
        if op.name == ANSWER:       # every request is refused
            task.env.update(dict.fromkeys(op.results, np.int32(-1)))
            return
        handler = HANDLERS[op.name]
        try:
            given = handler.run(task, op)
            if handler.generator:
                for _ in given:
                    raise Unknown(f"the {op.name} at {op.site} waits for something")
        except SimulationError as error:
            raise Unknown(f"{error.kind} at {op.site}, in CTA {task.cta.index}") from error
        if any(isinstance(task.env.get(value), PerThread) for value in op.results):
            raise Unknown(f"the threads of a task differ at {op.site}")

    def _give(self, task: Task, targets, values) -> None:
        """Hand on what is needed, all at once."""
        given = [(target, task.env[value]) for target, value in zip(targets, values) if target in self.plan.needed]
        task.env.update(given)

    def _if(self, task: Task, op: Op) -> None:
        block = op.blocks[0 if bool(task.env[op.condition]) else 1]
        self._block(task, block)
        self._give(task, op.results, block.yielded)

    def _for(self, task: Task, op: Op) -> None:
        start, end, step = (int(task.env[bound]) for bound in bounds(op))
        if step <= 0:
            raise Unknown(f"the step of the loop at {op.site} is {step}")
        body, kind = op.blocks[0], task.env[op.start].dtype.type
        self._give(task, body.args[1:], op.inits)
        self._give(task, op.results, op.inits)
        for index in range(start, end, step):
            task.env[body.args[0]] = kind(index)
            self._block(task, body)
            self._give(task, op.results, body.yielded)
            self._give(task, body.args[1:], body.yielded)
            self._watch(op)

    def _while(self, task: Task, op: Op) -> None:
        before, after = op.blocks
        last = terminator(before)
        self._give(task, before.args, op.inits)
        while True:
            self._block(task, before)
            if not bool(task.env[last.condition]):
                self._give(task, op.results, last.values)
                return
            self._give(task, after.args, last.values)
            self._block(task, after)
            self._give(task, before.args, after.yielded)
            self._watch(op)

    def _watch(self, op: Op) -> None:
        self.steps += 1
        if self.steps > 2 * STEPS:
            raise Unknown(f"the loop at {op.site} takes too many rounds")

    def _warp_specialize(self, task: Task, op: Op) -> None:
        for spec, block, warp in zip(op.attrs["tasks"], op.blocks, first_warps(op.attrs["tasks"])):
            child = Task(self.machine, task.cta, spec.name, dict(task.env), spec.num_warps, warp, 0.0, task)
            self._block(child, block)
            if block is op.blocks[0]:
                task.env.update((one, child.env[value]) for one, value in zip(op.results, block.yielded) if one in self.plan.needed)
