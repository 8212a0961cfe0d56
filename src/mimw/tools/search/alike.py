"""Which clusters of a smaller launch stand for the others: programs that go round their loops equally often do the same.

    a GEMM of 32 tiles on 32 programs       the first and the last: each has one tile, whatever number the tile has
    32 tiles on 20 programs                 four: the first and the last of the twelve with two tiles, and of the eight with one

Input: the launch of a check; then its smaller launches. Output: program ids of clusters, or () for all of the grid.

A program's number may decide where in global memory the program reads and writes, and how often its outer loops go round, which is
known. Where the number, or what is read from global memory, decides anything else (a branch, a phase, a slot, a predicate, how
often a loop inside of another one goes round), or programs wait for each other, all of the grid runs.
"""

from __future__ import annotations

from functools import cached_property

from ...compiler.analysis.flows import Flows
from ...compiler.analysis.trips import Loop, loops_of
from ...ir import Op, Value
from ...runtime.simulate import Launch
from ...simulator import asks
from ..trials import Trial
from .across import deciding, global_operands
from .clusters import cluster_at, cluster_count

_WHERE = frozenset(("pointer", "descriptor", "offsets", "rows", "column"))      # operands that say where in global memory


class Alike:
    """The programs of a launch, and of smaller ones of its kernel."""

    def __init__(self, launch: Launch):
        self.program = launch.program

    def some(self, trial: Trial) -> tuple:
        """The first and the last cluster of each kind of a trial; () if that is no fewer than all, or more may decide."""
        launch, count = trial.launch, cluster_count(trial.launch)
        if count <= 2 or len(trial.each) < count * self.program.cluster_size or not self.holds:
            return ()
        clusters = [cluster_at(launch, number) for number in range(count)]
        kinds: dict[tuple, list[int]] = {}
        for number, cluster in enumerate(clusters):
            kinds.setdefault(tuple(trial.each[index] for index in cluster), []).append(number)
        ends = sorted({number for numbers in kinds.values() for number in (numbers[0], numbers[-1])})
        return tuple(clusters[number] for number in ends) if len(ends) < count else ()

    @cached_property
    def holds(self) -> bool:
        """True if nothing but loops and addresses differs between programs."""
        program = self.program
        if program.cooperative or asks(program) or any(op.row.blocks in ("rendezvous", "poll") and not op.row.peers
                                                       for op in program.walk()):
            return False
        flows, loops = program.kept(Flows), {loop.op: loop for loop in loops_of(program)}
        differs = flows.reached({result for op in program.walk() if _differs(op, flows) for result in op.results})
        return all(differs.isdisjoint(_says(op, loops.get(op), flows)) for op in program.walk())


def _differs(op: Op, flows: Flows) -> bool:
    """True if programs get different values out of `op` itself: their numbers, clocks, what is read from global memory."""
    if op.name == "get_program_id" or "read" in op.row.effects and not op.operands:
        return True
    return bool(op.results) and (bool(global_operands(op)) or not flows.filled.isdisjoint(flows.touched(op, op.row.reads)))


def _says(op: Op, loop: Loop | None, flows: Flows) -> list[Value]:
    """The operands of `op` that decide what is done: but where in global memory, and how often an outer loop goes round."""
    if loop is not None and not loop.around:
        return []
    where = _WHERE if global_operands(op) else frozenset()
    return deciding(op, flows, but=where | {"mask"} if "pointer" in where.intersection(op.row.params) else where)
