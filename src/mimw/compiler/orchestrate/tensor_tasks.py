"""A plain program in tasks for a chip with tensor memory: one loads, one multiplies, and one or two compute.

Input: a plain program, a `Plan`, the chip. Output: `Orchestrated`. For example:

    made = orchestrated(program, Plan(), target("sm_100a"))
    made.program        load: TMA into slots; multiply: tcgen05 into sums; compute: all else, which reads sums and stores operands

Between the tasks stand barriers. The tensor core arrives at those of slots, operands and sums by commits, which no pipe of `tle`
does; tiles that the computing tasks load into registers have pipes as on all chips.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from ...ir import Block, Buffer, Descriptor, Op, Program, Task, Value
from ...target import Target
from ..analysis.remarks import Remark
from ..analysis.shared_rows import shared_rows
from ..analysis.slices import Slice
from ..analysis.uses import uses_of
from ..analysis.written import written
from .consumer import Share
from .epilogue import Epilogue
from .fetcher import Fetcher
from .handovers import COLUMNS, Handover, buffer_of, columns, handovers_of, place_operands, shared_bytes
from .multiplier import Multiplier, Products
from .plan import Plan
from .residency import of_consumers
from .rings import Ring, Rings, is_read_only, rings_of
from .smaller_blocks import smaller_blocks
from .tasks import Orchestrated, TaskWriter, arrays_apart, hints_of
from .tensor_products import ROWS, direct_of, misfit
from .tensor_sums import Sum, may_be_empty, sums_of
from .phases import Slots


_WHY_NOT = {
    "gathers": "slots that cp.async fills are not read by tcgen05 here yet",
    "programs": "a multiprocessor has one tensor memory, which a program takes as a whole",
    "transform": "here the tasks that compute hand over what products take, each with two places",
    "pingpong": "one task starts all products, in order",
    "tiles_in_turn": "the epilogue of a tile runs beside the next tile's products in any case",
}


def orchestrated(program: Program, plan: Plan, target: Target, tiles: Collection[Op] = ()) -> Orchestrated:
    """The program in tasks, under a plan. `tiles` is the loop over tiles of `persist.py`, if there is one."""
    nothing = Rings([], set())
    if program.orchestrates():
        return Orchestrated(None, nothing, (Remark("calls functions of mimw already", program.site), ))
    if asked := [name for name in ("gathers", "programs", "pingpong", "tiles_in_turn", "transform") if getattr(plan, name)]:
        why = f"`{asked[0]}` of the plan is for chips that multiply into registers: {_WHY_NOT[asked[0]]}"
        return Orchestrated(None, nothing, (Remark(why, program.site), ))
    why = [Remark(f"the product stays plain: {reason}", op.site) for op in program.walk() if "dot" in op.row.traits
           and (reason := misfit(op, plan.consumers))]
    if why:
        return Orchestrated(None, nothing, tuple(why))
    made = _Found(program, plan, target, tiles)
    if made.remarks is not None:
        return Orchestrated(None, made.rings, made.remarks)
    writer = TensorWriter(made, plan, target)
    names = {param.value: param.name for param in program.params}
    return Orchestrated(writer.program(), made.rings, tuple(made.rings.remarks), writer.blocks(names), made.apart(plan),
                        writer.notes, max(sum_.root.depth for sum_ in made.sums))


class _Found:
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
        if max((ring.stages for ring in self.rings.rings), default=1) == 1:    # what nobody loads ahead is not computed ahead either
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
            return is_read_only(self.program, load, writes)

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
            self.remarks = (Remark("how often it is multiplied follows from what this computes, which the multiplying task does not "
                                   "have", wrong.site), )
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
        found = arrays_apart(self.program, self.loading, beside, writes) | arrays_apart(self.program, self.multiplying, None, writes)
        return found | ({(one, other) for one in writes for other in writes if one < other} if plan.stores else set())


class TensorWriter(TaskWriter):
    """Puts the tasks together."""

    def __init__(self, found: _Found, plan: Plan, target: Target):
        super().__init__(found.program, plan, found.rings, (found.loading, found.multiplying, found.computing), found.axes,
                         found.smaller, (), (), None, target)
        self.found, self.notes = found, {}

    def program(self) -> Program:
        params = tuple(self._param(param) for param in self.plain.params)
        self._descriptors()
        found = self.found
        slots = {ring: self._slots(ring) for ring in self.rings.roots if ring.direct}
        for ring in self.rings.roots:
            if not ring.direct:
                ring.pipe = self._pipe(ring)
        for sum_ in found.sums:
            if sum_.root is sum_:
                self._sum(sum_)
        for group in found.handed:
            if group.root is group:
                self._handover(group)
        made = {op for op in self.plain.body.ops if op.name == "make_tensor_descriptor"}
        for needs in (self.mine, self.between, self.theirs):
            needs.ops -= made
        products = Products(found.sums, found.handed, slots, self.axes, self.parts, self.notes)
        warps, site, least = self.plan.warps_of(self.plain.num_warps), self.plain.site, self.plan.producer_registers
        registers = of_consumers(self.plan, self.plain.num_warps, self.target, least)
        blocks, tasks = [], []
        for me in range(self.parts):
            share = Share(self.axes, me, self.parts, self.parts, warps)
            one = Epilogue(self.plain, found.computing, self.rings, self.env, share, products, self._staged(me))
            blocks.append(Block((), one.written(self.plain.body)))
            name = "compute" if self.parts == 1 else f"compute{me}"
            tasks.append(Task(name, warps, me == 0, registers, 0, 1, site=site))
        multiplier = Multiplier(self.plain, found.multiplying, self.rings, self.env, products)
        fetcher = Fetcher(self.plain, found.loading, self.rings, self.env, slots, self.notes)
        for name, one in (("multiply", multiplier), ("load", fetcher)):
            blocks.append(Block((), one.written(self.plain.body)))
            tasks.append(Task(name, 1, False, least, site=site))
        attrs = MappingProxyType({"tasks": tuple(tasks)})
        self.writer.ops.append(Op("warp_specialize", (), (), tuple(blocks), attrs, site))
        return replace(self.plain, params=params, body=Block((), tuple(self.writer.ops)), num_warps=warps, uses_words=True)

    # ---- memory ------------------------------------------------------------------------------------------------------------------

    def _barriers(self, count: int, site, label: str) -> Value:
        return self.writer.emit("alloc_barriers", (count, 1), site, label=label)

    def _array(self, type_: Buffer, site, label: str) -> Value:
        return self.writer.emit("local_alloc", (type_, None), site, layout=None, label=label)

    def _slots(self, ring: Ring) -> Slots:
        fields = tuple(self._array(Buffer(load.result.type.element, load.result.type.shape, ring.stages), load.site,
                                   f"{load.result.name or 'tile'}_slots") for load in ring.loads)
        site = ring.loads[0].site
        full = self._barriers(ring.stages, site, f"{ring.name}_full")
        return Slots(fields, full, None if ring.once else self._barriers(ring.stages, site, f"{ring.name}_free"))

    def _sum(self, sum_: Sum) -> None:
        for me in range(self.parts):
            own, site = str(me) if self.parts > 1 else "", sum_.end.site
            type_ = buffer_of(sum_.result, self.axes, self.parts, "tmem", sum_.depth)
            sum_.buffers.append(self._array(type_, site, f"{sum_.label}_sums{own}"))
            sum_.done.append(self._barriers(sum_.depth, site, f"{sum_.label}_done{own}"))
            sum_.taken.append(self._barriers(sum_.depth, site, f"{sum_.label}_taken{own}") if sum_.is_given_back else None)

    def _handover(self, group: Handover) -> None:
        for me in range(self.parts):
            own = str(me) if self.parts > 1 else ""
            for tile in group.operands:
                type_ = buffer_of(tile.value, self.axes, self.parts, tile.space, group.depth)
                tile.buffers.append(self._array(type_, group.place.site, f"{tile.value.name or 'operand'}_given{own}"))
            group.ready.append(self._barriers(group.depth, group.place.site, f"{group.label}_ready{own}"))
            group.used.append(self._barriers(group.depth, group.place.site, f"{group.label}_used{own}") if group.is_given_back else None)
