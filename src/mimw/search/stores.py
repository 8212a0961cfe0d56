"""Whether stores of different clusters meet, by their addresses alone, for a whole grid of which only a part runs.

Input: a launch. Output: clusters to run together, and what was compared. For example:

    found = meeting_stores(launch)
    found.suspects          clusters whose stores meet, or of which one stores outside of all arrays
    found.says              what was compared, or why it was not

Addresses are evaluated for each CTA where they, their masks and the control flow around them are arithmetic on program ids,
arguments and constants. Everything else (copies, products, barriers, tile data) is left out, so a CTA takes milliseconds. This
file reports no race: suspects are run on the simulator, which finds the race itself, with its full message.

Where a CTA may take over another one's work, each is looked at as if it did its own and no more: whoever does the work of a program
id stores where that id says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..analysis.flows import Flows
from ..errors import OutOfBounds, SimulationError
from ..ir import Block, Op, Value
from ..ir.flow import bounds, terminator
from ..ir.ops import is_pure
from ..ir.types import element_of
from ..memory_model.shadow import address_of
from ..simulate import Launch
from ..simulator import HANDLERS, GlobalMemory, bind
from ..simulator.machine.clusters import Cluster
from ..simulator.machine.guarded import PerThread
from ..simulator.machine.machine import Machine
from ..simulator.machine.tasks import Cta, Task
from ..simulator.memory.global_memory import Region
from ..simulator.memory.values import numpy_type
from ..simulator.words.control import first_warps
from .across import deciding, global_operands
from .sample import cluster_at, cluster_count, extents

ANSWER = "clc_query"
STEPS, PAIRS = 400_000, 8       # ops evaluated, some seconds; suspects that are kept


@dataclass
class Meetings:
    says: str
    suspects: list[tuple[int, ...]] = field(default_factory=list)      # numbers of clusters


class _Unknown(Exception):
    """What cannot be evaluated, in words."""


def meeting_stores(launch: Launch) -> Meetings:
    count = cluster_count(launch)
    try:
        plan = _Plan(launch)
        if not plan.stores:
            return Meetings("stores of different CTAs: there are none")
        walk = _Walk(launch, plan)
        for number in range(count):
            if walk.steps > STEPS:
                return Meetings(f"stores of different CTAs: compared by their addresses for the first {number} of {count} clusters "
                                "only, which took long enough", walk.suspects)
            walk.cluster(number)
    except _Unknown as unknown:
        return Meetings(f"stores of different CTAs were not compared: {unknown}")
    says = "some meet, or leave their arrays" if walk.suspects else "no two store to one place"
    return Meetings(f"stores of different CTAs: compared by their addresses for all {count} clusters; {says}", walk.suspects)


class _Plan:
    """Which ops have to be evaluated to know where a CTA stores."""

    def __init__(self, launch: Launch):
        self.program, flows = launch.program, launch.program.kept(Flows)
        self.stores = {op for op in self.program.walk() if any(access.endswith("write") for _, access in global_operands(op))}
        self.needed: set[Value] = set()
        self.inside: dict[Op, bool] = {}            # whether a structure holds a store
        for op in self.program.body.ops:
            self._holds(op)
        todo = [value for op in self.stores for value in deciding(op, flows) if not _is_place(value)]
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
            if not is_pure(op.name) and op.name != "make_tensor_descriptor":
                raise _Unknown(f"the {op.name} at {op.site} decides where or whether one is made")
            todo += op.operands
            todo += (operand for block in op.blocks for one in block.ops for inner in one.walk() for operand in inner.operands)
        self.live: dict[Block, list[Op]] = {}
        self._mark(self.program.body)

    def _holds(self, op: Op) -> bool:
        inside = [self._holds(inner) for block in op.blocks for inner in block.ops]
        self.inside[op] = op in self.stores or any(inside)
        return self.inside[op]

    def _mark(self, block: Block) -> None:
        self.live[block] = [op for op in block.ops if self.inside.get(op) or not self.needed.isdisjoint(op.results)]
        for op in self.live[block]:
            if op.row.hands_on:
                for inner in op.blocks:
                    self._mark(inner)


def _is_place(value: Value) -> bool:
    return type(value.type).__name__ in ("Buffer", "Barrier", "Token")


def _bounds(op: Op) -> list[Value]:
    """What decides which blocks of a structure run, and how often."""
    if op.name == "while":
        return [terminator(op.blocks[0]).condition]
    return deciding(op, None) if op.row.hands_on else []


class _Walk:
    """Evaluates the plan for one cluster after the other."""

    def __init__(self, launch: Launch, plan: _Plan):
        self.launch, self.plan, self.steps = launch, plan, 0
        self.memory = GlobalMemory()
        arguments = bind(launch.program, launch.values, self.memory)
        self.machine = Machine(launch.program, extents(launch), arguments, self.memory, seed=0, trace=False, check_unwritten=False)
        self.owners: dict[Region, np.ndarray] = {}      # of each element: 0, a cluster's number + 1, or less than 0 for an atomic
        self.suspects: list[tuple[int, ...]] = []
        self.sites: set = set()

    def cluster(self, number: int) -> None:
        cluster = Cluster(self.machine.warps)
        for rank, index in enumerate(cluster_at(self.launch, number)):
            cluster.ctas.append(Cta(rank, index, cluster, rank, self.machine.gpus[0]))
        self.number, program, arguments = number, self.launch.program, self.machine.arguments
        for cta in cluster.ctas:
            task = Task(self.machine, cta, "default", dict(arguments), program.num_warps, 0, 0.0)
            with np.errstate(all="ignore"):
                self._block(task, program.body)

    # ---- control ----------------------------------------------------------------------------------------------------

    def _block(self, task: Task, block: Block) -> None:
        for op in self.plan.live[block]:
            self.steps += 1
            if op.row.hands_on:
                getattr(self, f"_{op.name}")(task, op)
            elif op in self.plan.stores:
                self._store(task, op)
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
                    raise _Unknown(f"the {op.name} at {op.site} waits for something")
        except SimulationError as error:
            raise _Unknown(f"{error.kind} at {op.site}, in CTA {task.cta.index}") from error
        if any(isinstance(task.env.get(value), PerThread) for value in op.results):
            raise _Unknown(f"the threads of a task differ at {op.site}")

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
            raise _Unknown(f"the step of the loop at {op.site} is {step}")
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
            raise _Unknown(f"the loop at {op.site} takes too many rounds")

    def _warp_specialize(self, task: Task, op: Op) -> None:
        for spec, block, warp in zip(op.attrs["tasks"], op.blocks, first_warps(op.attrs["tasks"])):
            child = Task(self.machine, task.cta, spec.name, dict(task.env), spec.num_warps, warp, 0.0, task)
            self._block(child, block)
            if block is op.blocks[0]:
                task.env.update((one, child.env[value]) for one, value in zip(op.results, block.yielded) if one in self.plan.needed)

    # ---- stores -----------------------------------------------------------------------------------------------------

    def _store(self, task: Task, op: Op) -> None:
        row = op.row
        atomic = "atomic" in row.traits or "reduces" in row.traits and ("reduce" not in row.places or bool(op.reduce))

        def value(arg):
            return task.env[arg] if isinstance(arg, Value) else arg

        try:
            if "descriptor" in row.places:
                descriptor = value(op.descriptor)
                if "rows" in row.places:
                    boxes, block = [[int(index), int(value(op.column))] for index in value(op.rows)], (1, descriptor.block[-1])
                else:
                    boxes, block = [[int(value(offset)) for offset in op.offsets]], None
                for box in boxes:
                    part = descriptor.part(self.memory, box, block or descriptor.block, task, op, "writes")
                    if part is not None:
                        self._own_box(part.data, op, atomic)
            elif "bytes" in row.places:
                size = int(value(op.bytes))
                address = int(np.asarray(value(op.pointer)).reshape(-1)[0])
                self._own_box(self.memory.box(address, (size, ), (1, ), np.dtype(np.uint8), task, op, "writes"), op, atomic)
            else:
                mask = value(op.mask) if "mask" in row.places else None
                self._own_elements(task, op, value(op.pointer), mask, atomic)
        except OutOfBounds:
            self._suspect((self.number, ), op)
        except SimulationError as error:
            raise _Unknown(f"{error.kind} at {op.site}, in CTA {task.cta.index}") from error

    def _own_box(self, part: np.ndarray, op: Op, atomic: bool) -> None:
        address = address_of(part)
        region = self.memory.region(address, address + 1)
        owners, offset = self._owners(region), address - region.start
        if part.itemsize == region.item and not offset % region.item and not any(step % region.item for step in part.strides):
            steps = tuple(step // region.item * owners.itemsize for step in part.strides)
            self._own(np.ndarray(part.shape, owners.dtype, owners, offset // region.item * owners.itemsize, steps), ..., op, atomic)
            return
        flat = np.full(part.shape, offset, np.int64)
        for axis, (size, step) in enumerate(zip(part.shape, part.strides)):
            flat += (np.arange(size) * step).reshape([-1 if one == axis else 1 for one in range(part.ndim)])
        self._own(owners, _items(flat.reshape(-1), part.itemsize, region.item), op, atomic)

    def _own_elements(self, task: Task, op: Op, pointer, mask, atomic: bool) -> None:
        size = numpy_type(element_of(op.pointer.type).pointee, op.site).itemsize
        flat = np.asarray(pointer, np.uint64).reshape(-1)
        if mask is not None:
            flat = flat[np.broadcast_to(mask, np.shape(pointer)).reshape(-1)]
        if not flat.size:
            return
        for region, inside in self.memory._parts(flat, size, task, op, "writes"):
            offsets = (flat[inside] - np.uint64(region.start)).astype(np.int64)
            self._own(self._owners(region), _items(offsets, size, region.item), op, atomic)

    def _owners(self, region: Region) -> np.ndarray:
        found = self.owners.get(region)
        if found is None:
            found = self.owners[region] = np.zeros(-(-region.size // region.item), np.int32)
        return found

    def _own(self, owners: np.ndarray, where, op: Op, atomic: bool) -> None:
        """`op` of this cluster stores to the elements there: others may have done so only if both are atomic."""
        mine, found = self.number + 1, owners[where]
        others = (found > 0) & (found != mine) if atomic else (found != 0) & (np.abs(found) != mine)
        if others.any():
            self._suspect((int(abs(found[others].flat[0])) - 1, self.number), op)
        owners[where] = -mine if atomic else mine

    def _suspect(self, clusters: tuple[int, ...], op: Op) -> None:
        if op.site not in self.sites and len(self.suspects) < PAIRS:
            self.sites.add(op.site)
            self.suspects.append(clusters)


def _items(offsets: np.ndarray, size: int, item: int) -> np.ndarray:
    """The numbers of the elements of `item` bytes that hold the `size` bytes at each offset."""
    if size <= item:
        return offsets // item
    return (offsets[:, None] // item + np.arange(-(-size // item))).reshape(-1)
