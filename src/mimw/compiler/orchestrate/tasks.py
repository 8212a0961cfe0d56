"""A plain program in tasks: a producer that loads, consumers that compute, and a pipe for each group of loads between them.

Input: a plain program, a `Plan`, the chip, and the products that run behind by a trip (`delay.py`). Output: `Orchestrated`. For
example:

    made = orchestrated(program, Plan(consumers=2), target)
    made.program        the program in tasks; None where nothing is to be handed over, and `made.remarks` say why
    made.rings          the pipes

The program is the same in all that it computes: each op of the plain one runs in the task that has it, in the same order; a
load runs in the producer, ahead of the consumers by as many chunks as a pipe has slots.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ...ir import Block, Buffer, Builder, Descriptor, Op, Param, Program, Scalar, Task, Value
from ...ir.types import element_of
from ...target import Target
from ..analysis.remarks import Remark
from ..analysis.shared_rows import shared, shared_rows
from ..analysis.slices import Slice
from ..analysis.uses import uses_of
from ..analysis.written import accessed, parameters_behind, written
from .consumer import Consumer, Share
from .lags import registers
from .memory_order import may_run_on
from .plan import Plan
from .producer import Producer
from .residency import at_launch
from .rings import Ring, Rings, is_read_only, rings_of
from .slots_of_descriptors import rooms
from .smaller_blocks import smaller_blocks
from .tiles_in_turn import ConsumerInTurn, counting, turns_at_tiles
from .transformer import Transformer
from .turns import Turns, turns_at_products


@dataclass(frozen=True)
class Orchestrated:
    """A program in tasks, or None, with what there is to say. `blocks` has by parameter the block that a descriptor of the
    host's needs instead of its own, as each consumer stores its rows alone; `apart` pairs of (array that is read, array that is
    written) which must not overlap, as what is read may be read ahead of the store, or by one consumer while another one
    stores. `notes` are comments on ops of the program that are no words of pipes; `sums` is how many places a sum in tensor memory
    has at most, if the chip has one."""

    program: Program | None
    rings: Rings
    remarks: tuple[Remark, ...] = ()
    blocks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    apart: frozenset[tuple[str, str]] = frozenset()
    notes: dict[Op, str] = field(default_factory=dict)
    sums: int | None = None


def orchestrated(program: Program, plan: Plan, target: Target, late: Collection[Op] = (),
                 tiles: Collection[Op] = (), settled: Collection[Op] = ()) -> Orchestrated:
    """The program in tasks, under a plan. `tiles` is the loop over tiles of `persist.py`, if there is one; `settled` are ops of
    `together.py`."""
    rings = rings_of(program, plan, target, late)
    if program.orchestrates():
        return Orchestrated(None, rings, (Remark("calls functions of mimw already", program.site), ))
    if not rings.rings:
        return Orchestrated(None, rings, tuple(rings.remarks))
    loads, writes = rings.loads, written(program)
    mine = Slice(program, reads=lambda load: load not in loads and is_read_only(program, load, writes))
    for load in loads:
        mine.add(load)
    between = Slice(program, cut=loads, reads=lambda load: is_read_only(program, load, writes))
    for op in rings.computed:
        between.add(op)
    theirs = Slice(program, cut=loads | rings.computed)
    for op in program.walk():
        if op not in loads and op.name != "hint" and not theirs.may_repeat(op) and "terminator" not in op.row.traits:
            theirs.add(op)
    axes: dict[Value, int] = {}
    smaller: dict[Value, Descriptor] = {}
    counted = None
    if plan.tiles_in_turn and rings.computed:
        return Orchestrated(None, rings, (*rings.remarks, Remark("consumers with whole tiles compute operands themselves",
                                                                 program.site)))
    if plan.tiles_in_turn:
        counted = counting(program, rings) if tiles else Remark("consumers have no tiles to take in turn", program.site)
        if isinstance(counted, Remark):
            return Orchestrated(None, rings, (*rings.remarks, counted))
        theirs.ops |= counted.ops - set(next(iter(tiles)).walk())
    elif plan.consumers > 1:
        gathers = {load for ring in rings.rings for load in ring.gathers}       # their pointers are the producer's
        found = shared_rows(program, theirs.ops - gathers - rings.computed, plan.consumers, independent=tiles,
                            handed=rings.computed, hands_on=theirs.values)
        if not isinstance(found, Remark):
            axes, found = found, smaller_blocks(program, loads, found, plan.consumers)
        if isinstance(found, Remark):
            return Orchestrated(None, rings, (*rings.remarks, found))
        smaller = found
    theirs.ops |= hints_of(program, theirs, loads, axes)
    writer = TaskWriter(program, plan, rings, (mine, between, theirs), axes, smaller, late, tiles, counted, target)
    writer.settled = settled
    made = writer.program()
    names = {param.value: param.name for param in program.params}
    mine.ops |= between.ops
    apart = arrays_apart(program, mine, theirs if plan.consumers > 1 or plan.stores else None, writes or set())
    if plan.stores:     # a store that runs on may land behind a later one to another array
        apart |= {(one, other) for one in writes or () for other in writes or () if one < other}
    return Orchestrated(made, rings, tuple(rings.remarks), writer.blocks(names), apart)


def hints_of(program: Program, theirs: Slice, loads: Collection[Op], axes: Mapping[Value, int]) -> set[Op]:
    """The hints of integers and addresses that consumers have, whole: divisibility decides how wide accesses are."""
    uses, found = uses_of(program), set()
    for op in program.named("hint"):
        element, made = element_of(op.value.type), uses.definition.get(op.value)
        has = made in theirs.ops and made not in loads if made is not None else op.value in theirs.values or \
            op.value not in uses.argument
        if has and op.value not in axes and not (isinstance(element, Scalar) and element.is_float) and \
                all(parent in theirs.ops for parent in uses.parents(op)):
            found.add(op)
    return found


def arrays_apart(program: Program, mine: Slice, theirs: Slice | None, writes: set[str]) -> frozenset[tuple[str, str]]:
    """(array that is read, array that is written): by the producer, and by consumers where there are several, or where stores
    run on. What a consumer reads of the array that it writes are its own elements (`own_elements`, `may_run_on`)."""
    ahead, beside = _read(program, mine), set() if theirs is None else _read(program, theirs)
    return frozenset((read, write) for write in writes for read in ahead | (beside - {write}))


def _read(program: Program, needs: Slice) -> set[str]:
    return {name for op in needs.ops for address in accessed(op, "read") for name in parameters_behind(program, address) or ()}


class TaskWriter:
    """Puts the tasks together."""

    def __init__(self, program: Program, plan: Plan, rings: Rings, slices: tuple[Slice, Slice, Slice], axes: dict[Value, int],
                 smaller: Mapping[Value, Descriptor], late: Collection[Op], tiles: Collection[Op], counted: Slice | None,
                 target: Target):
        self.plain, self.plan, self.rings, self.axes, self.late = program, plan, rings, axes, late
        self.tiles, self.counted = tiles, counted
        self.mine, self.between, self.theirs = slices
        self.uses, self.writer = uses_of(program), Builder(program.site)
        self.env = self.writer.env
        self.consumers, self.parts = plan.consumers, plan.parts
        self.smaller, self.target = smaller, target
        self.settled: Collection[Op] = ()

    def program(self) -> Program:
        params = tuple(self._param(param) for param in self.plain.params)
        self._descriptors()
        for ring in self.rings.roots:
            ring.pipe = self._pipe(ring)
        places = rooms(self.plain, self.rings, self.writer)
        made = {op for op in self.plain.body.ops if op.name == "make_tensor_descriptor"}
        for needs in (self.mine, self.between, self.theirs):
            needs.ops -= made
        warps = self.plan.warps_of(self.plain.num_warps)
        blocks, tasks = [], []
        load_warps, producer, registers_each = registers(self.rings, self.plan, self.plain.num_warps, self.target)
        for me in range(self.consumers):
            consumer = self._consumer(me, warps)
            blocks.append(Block((), consumer.written(self.plain.body)))
            tasks.append(Task("compute" if self.consumers == 1 else f"compute{me}", warps, me == 0, registers_each, 0, 1,
                              site=self.plain.site))
        if self.rings.computed:
            transformer = Transformer(self.plain, self.between, self.rings.some(lambda ring: ring.raw or ring.made), self.env)
            transformer.threads = self.plan.transform * self.target.warp_size
            blocks.append(Block((), transformer.written(self.plain.body)))
            tasks.append(Task("transform", self.plan.transform, False, registers_each, site=self.plain.site))
        loads = self.rings.some(lambda ring: not ring.made)
        blocks.append(Block((), Producer(self.plain, self.mine, loads, self.env, places).written(self.plain.body)))
        tasks.append(Task("load", load_warps, False, producer, site=self.plain.site))
        attrs = MappingProxyType({"tasks": tuple(tasks)})
        self.writer.ops.append(Op("warp_specialize", (), (), tuple(blocks), attrs, self.plain.site))
        start = at_launch(self.plan, self.plain.num_warps, self.target) if self.plan.programs else None
        return replace(self.plain, params=params, body=Block((), tuple(self.writer.ops)), num_warps=warps, uses_words=True,
                       launch_facts=replace(self.plain.launch_facts, registers=start))

    def _consumer(self, me: int, warps: int) -> Consumer:
        share = Share(self.axes, me, self.parts, self.consumers, warps)
        given = self.theirs, self.rings.some(lambda ring: not ring.raw), self.env, share, self.late, self._staged(me)
        if self.counted is not None:
            tiles, = self.tiles
            return ConsumerInTurn(self.plain, tiles, self.counted, *given, turns_at_tiles(tiles, self.rings),
                                  self.smaller)
        pingpong = self.plan.pingpong and self.consumers > 1
        products = self.rings.products - self.rings.trailing.keys()
        turns = turns_at_products(self.plain, products) if pingpong else Turns()
        return Consumer(self.plain, *given, turns, self.smaller, self.settled)

    # ---- descriptors -----------------------------------------------------------------------------------------------------------

    def _param(self, param: Param) -> Param:
        type_ = self.smaller.get(param.value)
        if type_ is None:
            return param
        self.env[param.value] = value = Value(type_, param.value.name)
        return replace(param, value=value)

    def blocks(self, names: dict[Value, str]) -> dict[str, tuple[int, ...]]:
        return {names[value]: tuple(type_.shape) for value, type_ in self.smaller.items() if value in names}

    def _descriptors(self) -> None:
        """Descriptors that the kernel makes stand in front of the tasks, with what their bases, shapes and strides take."""
        needs = Slice(self.plain)
        for op in self.plain.body.ops:
            if op.name == "make_tensor_descriptor":
                needs.add(op)
        for op in self.plain.body.ops:
            if op in needs.ops and not op.row.hands_on:
                made = tuple(Value(self.smaller.get(value, value.type), value.name) for value in op.results)
                args = self.writer.now(op.args)
                if op.results and op.results[0] in self.smaller:
                    place = op.row.places["block"]
                    args = (*args[:place], tuple(made[0].type.shape), *args[place + 1:])
                self.writer.ops.append(Op(op.name, args, made, op.blocks, op.attrs, op.site))
                self.env.update(zip(op.results, made))

    # ---- memory ------------------------------------------------------------------------------------------------------------------

    def _pipe(self, ring: Ring) -> Value:
        names = tuple(dict.fromkeys(load.result.name or f"t{at}" for at, load in enumerate(ring.loads)))
        if len(names) < len(ring.loads):
            names = tuple(f"t{at}" for at in range(len(ring.loads)))
        slots = [Buffer(load.result.type.element, (ring.stages, *load.result.type.shape)) for load in ring.loads]
        fields = tuple(self.writer.emit("local_alloc", (type_, None), load.site, layout=None, label=f"{ring.name}.{name}")
                       for type_, name, load in zip(slots, names, ring.loads))
        more = {"one_shot": True} if ring.once else {}
        if self.consumers > 1 and not ring.raw:      # each chunk is for all of them, or for one
            readers = tuple(f"compute{me}" for me in range(self.consumers))
            more["readers"] = readers if self.counted is None else (readers, )
        return self.writer.emit("pipe_make", (fields, ring.stages, None), ring.loads[0].site, label=ring.name, names=names, **more)

    def _staged(self, me: int) -> dict[Op, Value]:
        """The buffers of a consumer's stores that run on, one a store."""
        found = {}
        for op in may_run_on(self.plain) if self.plan.stores else ():
            type_ = shared(op.value.type, self.axes.get(op.value), self.parts)
            found[op] = self.writer.emit("local_alloc", (Buffer(type_.element, type_.shape, 0), None), op.site, layout=None,
                                         label=f"staging{me}")
        return found
