"""Whether stores of different clusters meet, by their addresses alone, for a whole grid of which only a part runs.

Input: a launch. Output: clusters to run together, and what was compared. For example:

    found = meeting_stores(launch)
    found.suspects          clusters whose stores meet, or of which one stores outside of all arrays, or by TMA from where none can
    found.says              what was compared, or why it was not

How addresses are found is in `addresses`. This file reports no race: suspects are run on the simulator, which finds the race
itself, with its full message. On several GPUs the stores of all ranks are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...errors import IllegalCopy, OutOfBounds, SimulationError
from ...ir import Op, Value
from ...ir.types import element_of
from ...runtime.simulate import Launch
from ...simulator.machine.tasks import Task
from ...simulator.memory.global_memory import Region
from ...simulator.memory.items import items, under
from ...simulator.memory.values import numpy_type
from ...simulator.memory_model.shadow import address_of
from ...simulator.words.bulk import check_bulk
from ...simulator.words.copies import check_corner
from ...simulator.words.rows import Picked
from .across import global_operands
from .addresses import STEPS, Plan, Unknown, Walk
from .clusters import cluster_count

PAIRS = 8       # suspects that are kept


@dataclass
class Meetings:
    says: str
    suspects: list[tuple[int, ...]] = field(default_factory=list)      # numbers of clusters


def meeting_stores(launch: Launch) -> Meetings:
    count = cluster_count(launch)
    try:
        stores = [op for op in launch.program.walk() if any(access.endswith("write") for _, access in global_operands(op))]
        if not stores:
            return Meetings("stores of different CTAs: there are none")
        walk = _Stores(launch, Plan(launch, stores))
        for number in range(count):
            if walk.steps > STEPS:
                return Meetings(f"stores of different CTAs: compared by their addresses for the first {number} of {count} clusters "
                                "only, which took long enough", walk.suspects)
            walk.cluster(number)
    except Unknown as unknown:
        return Meetings(f"stores of different CTAs were not compared: {unknown}")
    says = "some meet, or leave their arrays" if walk.suspects else "no two store to one place"
    return Meetings(f"stores of different CTAs: compared by their addresses for all {count} clusters; {says}", walk.suspects)


class _Stores(Walk):
    """Notes which cluster of which rank stores to each element."""

    def __init__(self, launch: Launch, plan: Plan):
        super().__init__(launch, plan)
        self.count = cluster_count(launch)
        self.owners: dict[Region, np.ndarray] = {}      # of each element: 0, who stores there + 1, or less than 0 for an atomic
        self.suspects: list[tuple[int, ...]] = []
        self.sites: set = set()

    def cluster(self, number: int) -> None:
        self.number = number
        super().cluster(number)

    @property
    def who(self) -> int:
        """The cluster that is visited, among those of all ranks."""
        return self.number + self.count * self.rank

    # ---- stores -----------------------------------------------------------------------------------------------------

    def visit(self, task: Task, op: Op) -> None:
        row, self.rank, self.memory = op.row, task.cta.gpu.rank, task.memory
        if row.needs == "multimem":
            raise Unknown(f"the {op.name} at {op.site} stores at all ranks at once")
        atomic = "atomic" in row.traits or "reduces" in row.traits and ("reduce" not in row.places or bool(op.reduce))

        def value(arg):
            return task.env[arg] if isinstance(arg, Value) else arg

        try:
            if "descriptor" in row.places:
                descriptor = value(op.descriptor)
                if "rows" in row.places:
                    Picked(task, op)        # refuses rows that TMA cannot scatter to
                    boxes, block = [[int(index), int(value(op.column))] for index in value(op.rows)], (1, descriptor.block[-1])
                else:
                    boxes, block = [[int(value(offset)) for offset in op.offsets]], None
                    check_corner(task, op, descriptor, boxes[0])
                for box in boxes:
                    part = descriptor.part(self.memory, box, block or descriptor.block, task, op, "writes")
                    if part is not None:
                        self._own_box(part.data, op, atomic)
            elif "bytes" in row.places:
                size = int(value(op.bytes))
                address = int(np.asarray(value(op.pointer)).reshape(-1)[0])
                check_bulk(task, op, size, address)
                self._own_box(self.memory.box(address, (size, ), (1, ), np.dtype(np.uint8), task, op, "writes"), op, atomic)
            else:
                mask = value(op.mask) if "mask" in row.places else None
                self._own_elements(task, op, value(op.pointer), mask, atomic)
        except (OutOfBounds, IllegalCopy):
            self._suspect((self.number, ), op)
        except SimulationError as error:
            raise Unknown(f"{error.kind} at {op.site}, in CTA {task.cta.index}") from error

    def _own_box(self, part: np.ndarray, op: Op, atomic: bool) -> None:
        address = address_of(part)
        region = self.memory.region(address, address + 1)
        owners = self._owners(region)
        self._own(*under(owners, region.start, region.item, address, part.shape, part.strides, part.itemsize), op, atomic)

    def _own_elements(self, task: Task, op: Op, pointer, mask, atomic: bool) -> None:
        size = numpy_type(element_of(op.pointer.type).pointee, op.site).itemsize
        flat = np.asarray(pointer, np.uint64).reshape(-1)
        if mask is not None:
            flat = flat[np.broadcast_to(mask, np.shape(pointer)).reshape(-1)]
        if not flat.size:
            return
        for region, inside in self.memory.parts(flat, size, task, op, "writes"):
            offsets = (flat[inside] - np.uint64(region.start)).astype(np.int64)
            self._own(self._owners(region), items(offsets, size, region.item), op, atomic)

    def _owners(self, region: Region) -> np.ndarray:
        found = self.owners.get(region)
        if found is None:
            found = self.owners[region] = np.zeros(-(-region.size // region.item), np.int32)
        return found

    def _own(self, owners: np.ndarray, where, op: Op, atomic: bool) -> None:
        """`op` of this cluster stores to the elements there: others may have done so only if both are atomic."""
        mine, found = self.who + 1, owners[where]
        others = (found > 0) & (found != mine) if atomic else (found != 0) & (np.abs(found) != mine)
        if others.any():
            other = (int(abs(found[others].flat[0])) - 1) % self.count
            self._suspect(tuple(dict.fromkeys((other, self.number))), op)      # of two ranks it may be one number
        owners[where] = -mine if atomic else mine

    def _suspect(self, clusters: tuple[int, ...], op: Op) -> None:
        if op.site not in self.sites and len(self.suspects) < PAIRS:
            self.sites.add(op.site)
            self.suspects.append(clusters)
