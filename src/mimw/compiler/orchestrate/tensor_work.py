"""What each task of a program does on a chip with tensor memory, before any of it is written.

Input: a plain program whose products tcgen05 does, a `Plan`, the chip, and the loop over tiles. Output: a `Work`. For example:

    work = Work(program, Plan(), target("sm_100a"), ())
    work.rings, work.sums, work.handed              what the tasks have in common
    work.loading, work.multiplying, work.computing  the slices of the program that they run
    work.remarks                                    why there is nothing to write; None if there is
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...ir import Descriptor, Op, Program, Value
from ...target import Target
from ..analysis.remarks import Remark
from ..analysis.shared_rows import shared_rows
from ..analysis.slices import Slice
from ..analysis.uses import uses_of
from ..analysis.written import written
from .handovers import COLUMNS, Handover, columns, handovers_of, place_operands, shared_bytes
from .plan import Plan
from .rings import Rings, is_read_only, rings_of
from .smaller_blocks import smaller_blocks
from .tasks import arrays_apart, hints_of
from .tensor_products import ROWS, direct_of
from .tensor_sums import Sum, may_be_empty, sums_of


class Work:
    """All that is found out of a program before it is written: rings, sums, handovers, and what each task runs. `remarks` say why
    there is nothing to write, None if there is."""

    def __init__(self, program: Program, plan: Plan, target: Target, tiles: Collection[Op]):
        self.program, self.parts, self.uses = program, plan.parts, uses_of(program)
        self.sums = sums_of(program, set(program.named("dot")), plan.sums or 2)
        self.handed: list[Handover] = []
        self.axes: dict[Value, int] = {}
        self.smaller: Mapping[Value, Descriptor] = {}
        self.remarks: tuple[Remark, ...] | None = None
        self.rings = rings_of(program, plan, target, direct_of=direct_of,
                               beside=lambda found: self._operands(found, plan, tiles))
        for ring in self.rings.rings:       # the tensor core gives slots back as soon as they are read
            ring.trails = False
        if max((ring.stages for ring in self.rings.rings), default=1) == 1:     # what nobody loads ahead, nobody computes ahead
            for group in self.handed:
                group.depth = 1
        if self.remarks is None and not self.rings.rings:
            self.remarks = tuple(self.rings.remarks)
        if self.remarks is None:
            self._slices()

    def _stop(self, *remarks: Remark) -> int:
        self.remarks = remarks
        return 0

    # ---- operands and sums -----------------------------------------------------------------------------------------------------

    def _operands(self, rings: Rings, plan: Plan, tiles: Collection[Op]) -> int:
        """Handovers, shares of rows, and columns of tensor memory; bytes of shared memory that operands take."""
        direct = {load for ring in rings.rings if ring.direct for load in ring.loads}
        self.handed = handovers_of(self.program, self.sums, direct)
        if self.parts > 1:
            ops = [op for op in self.program.walk() if "terminator" not in op.row.traits and op not in rings.loads
                   and op.name not in ("hint", "make_tensor_descriptor")]
            found = shared_rows(self.program, ops, self.parts, ROWS[0], independent=tiles)
            if not isinstance(found, Remark):
                self.axes, found = found, smaller_blocks(self.program, rings.loads, found, self.parts)
            if isinstance(found, Remark):
                return self._stop(found)
            self.smaller = found
        taken = columns(self.sums, self.axes, self.parts)
        if taken > COLUMNS:
            for sum_ in self.sums:
                sum_.depth = 1
            taken = columns(self.sums, self.axes, self.parts)
        if taken > COLUMNS:
            return self._stop(Remark(f"its sums take {taken} columns of tensor memory, and there are {COLUMNS}", self.program.site))
        place_operands(self.handed, COLUMNS - taken, self.axes, self.parts)
        return shared_bytes(self.handed, self.axes, self.parts)

    # ---- what each task runs -----------------------------------------------------------------------------------------------------

    def _slices(self) -> None:
        loads, writes = self.rings.loads, written(self.program)

        def reads(load: Op) -> bool:
            return load not in loads and is_read_only(self.program, load, writes)

        self.loading = Slice(self.program, reads=reads)
        for load in loads:
            self.loading.add(load)
        self.multiplying = Slice(self.program, cut=loads, reads=reads)
        products = {op for sum_ in self.sums for op in sum_.products}
        for sum_ in self.sums:
            for op in sum_.products:
                self.multiplying.around(op)
        for ring in self.rings.rings:
            if ring.direct:
                self.multiplying.around(ring.loads[0])
        wrong = self.multiplying.bad or next((op for op in self.multiplying.ops if op in products or op in loads), None)
        if wrong is not None:
            self.remarks = (Remark("how often it is multiplied follows from what this computes, which the multiplying task does "
                                   "not have", wrong.site), )
            return
        self.multiplying.ops |= products
        self.computing = self._computing(loads)
        self.computing.ops |= hints_of(self.program, self.computing, loads, self.axes)
        idle = next((sum_ for sum_ in self.sums if sum_.result not in self.computing.taken), None)
        if idle is not None:
            self.remarks = (Remark("nothing takes this product", idle.end.site), )

    def _computing(self, loads: Collection[Op]) -> Slice:
        """All effects that are no loads, and what they take: of products the sums, and for these what is handed over."""
        found = Slice(self.program, cut=loads, given=[sum_.result for sum_ in self.sums])
        for op in self.program.walk():
            if op not in loads and op.name != "hint" and not found.may_repeat(op) and "terminator" not in op.row.traits:
                found.add(op)
        done: set[Value] = set()
        while fresh := found.taken - done:
            done |= fresh
            for sum_ in self.sums:
                if sum_.result in fresh:
                    self._take(found, sum_)
        return found

    def _take(self, found: Slice, sum_: Sum) -> None:
        """The loops around a sum and around what is handed over for it."""
        found.around(sum_.head)
        if may_be_empty(self.uses, sum_):
            for value in (sum_.loop.start, sum_.loop.end, sum_.first):
                found.take(value)
        for group in self.handed:
            for tile in group.tiles:
                if tile.product in sum_.products:
                    found.around(group.place)
                    found.take(tile.value)

    def apart(self, plan: Plan) -> frozenset[tuple[str, str]]:
        """Arrays that must not overlap: what is read ahead, and what is read beside another task's stores."""
        writes = written(self.program) or set()
        beside = self.computing if self.parts > 1 or plan.stores else None
        found = arrays_apart(self.program, self.loading, beside, writes)
        found |= arrays_apart(self.program, self.multiplying, None, writes)
        return found | ({(one, other) for one in writes for other in writes if one < other} if plan.stores else set())
