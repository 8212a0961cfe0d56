"""Copies of picked rows: gather and scatter by TMA, asynchronous or not, and the register form of descriptors.

Input: a task at an op of `ir/ops/rows.py`. Output: an operation in flight, or rows that are copied at once. For example:

    tma_gather %map %rows %column %full %tile      all rows land in the tile, maybe much later, and complete their bytes

All rows of one op land together: nobody can tell, since the barrier's phase, or the group, ends with the last of them.
"""

from __future__ import annotations

import numpy as np

from ...errors import DataRace, IllegalCopy, SimulatorMisuse, fail
from ...ir.tensor_map import rows_problem
from ..costs.abstract import TMA_LATENCY
from ..machine.operands import enabled, position
from ..machine.table import handles
from ..machine.tasks import InFlight
from ..memory.mbarriers import namesake, single
from ..memory.peers import barrier_of, peer, view_of
from ..memory_model import ASYNC
from .copies import issue
from .pairs import copied


class Picked:
    """The rows of `op`'s descriptor that its row numbers pick, from its column on."""

    def __init__(self, task, op):
        self.task, self.op, self.memory = task, op, task.memory
        self.descriptor, self.column = task.env[op.descriptor], int(task.read(op.column, op))
        self.numbers = [int(row) for row in task.read(op.rows, op)]
        self.block = (1, self.descriptor.block[-1])
        lowest = min(self.numbers)
        problem = None if op.attrs.get("by_pointers") else rows_problem(
            self.column, lowest, self.descriptor.shape, self.descriptor.dtype.itemsize, writes=op.row.copy == "out")
        if problem is not None:
            place = f"row {self.numbers.index(lowest)} of the tile"
            raise fail(IllegalCopy, task, op, f"{op.row.word or op.name}, {place}: {problem[0]}", hint=problem[1])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.numbers), self.block[1]

    def check_tile(self, view) -> None:
        if tuple(view.data.shape) != self.shape:
            raise fail(SimulatorMisuse, self.task, self.op, f"{self.shape[0]} rows of {self.shape[1]} elements, and {view.name} is "
                       f"{view.data.shape}")

    def touch(self, actor, *, write: bool) -> None:
        """`actor` accesses each row, a row that is picked twice once."""
        for row in dict.fromkeys(self.numbers):
            self.descriptor.touch(actor, self.op, self.memory, [row, self.column], write=write, block=self.block)

    def read(self) -> np.ndarray:
        return np.concatenate([self.descriptor.read(self.memory, [row, self.column], self.task, self.op, self.block)
                               for row in self.numbers])

    def write(self, tile: np.ndarray) -> None:
        for index, row in enumerate(self.numbers):
            self.descriptor.write(self.memory, [row, self.column], tile[index:index + 1], "", self.task, self.op, self.block)

    def check_targets(self, tile: np.ndarray) -> None:
        """Refuse two rows of the tile that differ and go to one place."""
        task, op = self.task, self.op
        first: dict[int, int] = {}
        for index, row in enumerate(self.numbers):
            other = first.setdefault(row, index)
            if other != index and row < self.descriptor.shape[0] and tile[other].tobytes() != tile[index].tobytes():
                raise fail(DataRace, task, op, f"{op.row.word} sends rows {other} and {index} of the tile, which differ, to row "
                           f"{row} of the tensor: it is undefined which of them stays",
                           hint="send each row of the tensor one row of the tile, or several with equal bytes")


@handles("tma_gather", switches=True)
def tma_gather(task, op):
    if not enabled(task, op, op.predicate):
        return
    picked, view, barrier = Picked(task, op), task.env[op.buffer], single(task, op, op.barrier)
    picked.check_tile(view)
    size = view.data.nbytes

    def land(copy: InFlight) -> None:
        view.arrive(copy, picked.read())
        barrier.complete(copy, size)

    copy = issue(task, op, "TMA gather", "TMA", size, TMA_LATENCY, land, view.name, destination=view,
                 lands_by=barrier.landing())
    picked.touch(copy, write=False)
    view.touch(copy, op, write=True, proxy=ASYNC)
    barrier.expect(copy)
    view.expect(copy)


@handles("tma_gather_multicast", switches=True)
def tma_gather_multicast(task, op):
    if not enabled(task, op, op.predicate):
        return
    picked, view, barrier = Picked(task, op), task.env[op.buffer], namesake(task, op, op.barrier)
    picked.check_tile(view)
    for rank in sorted({position(task, op, target) for target in op.targets}):
        cta, holder = peer(task, op, rank), peer(task, op, rank - rank % 2 if op.attrs.get("pairs") else rank)
        copy = copied(task, op, "multicast TMA gather", cta, view_of(cta, view, task, op), holder,
                      barrier_of(holder, barrier, task, op), picked.read)
        picked.touch(copy, write=False)


@handles("tma_fetch_rows", switches=True)
def tma_fetch_rows(task, op):
    picked, view = Picked(task, op), task.env[op.buffer]
    picked.check_tile(view)
    picked.touch(task, write=False)
    view.touch(task, op, write=True, proxy=ASYNC)
    view.write(picked.read())


@handles("tma_scatter", switches=True)
def tma_scatter(task, op):
    picked, view = Picked(task, op), task.env[op.buffer]
    picked.check_tile(view)

    def land(copy: InFlight) -> None:
        picked.write(view.data)

    store = issue(task, op, "TMA scatter", "TMA", view.data.nbytes, TMA_LATENCY, land, view.name, group="bulk")
    view.touch(store, op, write=False, proxy=ASYNC)
    view.check(task, op)
    picked.check_targets(view.data)
    picked.touch(store, write=True)
    task.machine.order.commit(task, "bulk")
    task.stores.append(store)


@handles("descriptor_gather")
def descriptor_gather(task, op):
    picked = Picked(task, op)
    picked.touch(task, write=False)
    task.env[op.result] = picked.read()


@handles("descriptor_scatter")
def descriptor_scatter(task, op):
    picked, tile = Picked(task, op), task.read(op.value, op)
    task.machine.wrote()
    picked.check_targets(tile)
    picked.touch(task, write=True)
    picked.write(tile)
