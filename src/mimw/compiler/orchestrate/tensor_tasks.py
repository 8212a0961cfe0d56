"""A plain program in tasks for a chip with tensor memory: one loads, one multiplies, and one or two compute.

Input: a plain program, a `Plan`, the chip. Output: `Orchestrated`. For example:

    made = orchestrated(program, Plan(), target("sm_100a"))
    made.program        load: TMA into slots; multiply: tcgen05 into sums; compute: all else, which reads sums and stores operands

Between the tasks stand barriers. The tensor core arrives at those of slots, operands and sums by commits, which no pipe of `tle`
does; tiles that the computing tasks load into registers have pipes as on all chips.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType

from ...ir import Block, Buffer, Op, Program, Task, Value
from ...target import Target
from ..analysis.remarks import Remark
from .consumer import Share
from .epilogue import Epilogue
from .fetcher import Fetcher
from .handovers import Handover, buffer_of
from .multiplier import Multiplier, Products
from .phases import Slots
from .plan import Plan
from .residency import of_consumers
from .rings import Ring, Rings
from .tasks import Orchestrated, TaskWriter
from .tensor_products import misfit
from .tensor_sums import Sum
from .tensor_work import Work

_WHY_NOT = {
    "gathers": "slots that cp.async fills are not read by tcgen05 here yet",
    "programs": "a multiprocessor has one tensor memory, which a program takes as a whole",
    "transform": "here the tasks that compute hand over what products take, each with two places",
    "together": "one task starts all products, in the order of the trips",
    "pingpong": "one task starts all products, in order",
    "tiles_in_turn": "the epilogue of a tile runs beside the next tile's products in any case",
}


_OF_TRITON_S_TASKS = "tt.flatten", "tt.warp_specialize"       # attributes of loops, by which Triton makes tasks of its own


def orchestrated(program: Program, plan: Plan, target: Target, tiles: Collection[Op] = ()) -> Orchestrated:
    """The program in tasks, under a plan. `tiles` is the loop over tiles of `persist.py`, if there is one."""
    nothing = Rings([], set())
    if program.orchestrates():
        return Orchestrated(None, nothing, (Remark("calls functions of mimw already", program.site), ))
    if asked := [name for name in _WHY_NOT if getattr(plan, name) != getattr(Plan(), name)]:
        why = f"`{asked[0]}` of the plan is for chips that multiply into registers: {_WHY_NOT[asked[0]]}"
        return Orchestrated(None, nothing, (Remark(why, program.site), ))
    why = [Remark(f"the product stays plain: {reason}", op.site) for op in program.walk() if "dot" in op.row.traits
           and (reason := misfit(op, plan.consumers))]
    if why:
        return Orchestrated(None, nothing, tuple(why))
    made = Work(program, plan, target, tiles)
    if made.remarks is not None:
        return Orchestrated(None, made.rings, made.remarks)
    writer = TensorWriter(made, plan, target)
    names = {param.value: param.name for param in program.params}
    dropped = [Remark("`flatten` and `warp_specialize` of this loop are left out: these tasks stand in place of Triton's", op.site)
               for op in program.where(lambda row: "loop" in row.traits) if any(op.attrs.get(name) for name in _OF_TRITON_S_TASKS)]
    return Orchestrated(writer.program(), made.rings, (*made.rings.remarks, *dropped), writer.blocks(names), made.apart(plan),
                        writer.notes, max(sum_.root.depth for sum_ in made.sums))


def _own_loops(block: Block) -> Block:
    """The block with loops that ask Triton for no tasks."""
    def own(op: Op) -> Op:
        op = op.with_blocks(_own_loops)
        if not any(name in op.attrs for name in _OF_TRITON_S_TASKS):
            return op
        return replace(op, attrs=MappingProxyType({key: given for key, given in op.attrs.items() if key not in _OF_TRITON_S_TASKS}))
    return block.with_ops(map(own, block.ops))


class TensorWriter(TaskWriter):
    """Puts the tasks together."""

    def __init__(self, found: Work, plan: Plan, target: Target):
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
        self.writer.ops.append(Op("warp_specialize", (), (), tuple(map(_own_loops, blocks)), attrs, site))
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
            used = self._barriers(group.depth, group.place.site, f"{group.label}_used{own}") if group.is_given_back else None
            group.used.append(used)
