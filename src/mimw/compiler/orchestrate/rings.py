"""Which loads a producer task can do, which of them share a pipe, and when a slot of it is given back.

Input: a plain program with loads by descriptor, and a `Plan`. Output: `Rings`. For example, of `for k: x = a.load(..); y =
b.load(..); acc = tl.dot(x, y, acc)`:

    rings_of(program, plan, target).rings       one Ring of x and y: read by the product where they lie, given back a trip later

A load stays with the consumer if its address follows from what only the consumer has, or if the kernel writes the array that it
reads: the producer is ahead of the kernel's stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...errors import LayoutConflict
from ...ir import Block, Op, Program, Value
from ...ir.flow import induction
from ...target import Target
from ..analysis.remarks import Remark
from ..analysis.slices import Slice
from ..analysis.uses import Uses, uses_of
from ..analysis.written import accessed, parameters_behind, written
from ..constraints.wgmma import accumulator_layout
from .memory_order import may_run_on
from .plan import Plan

MOST_STAGES = 8
RESERVED = 2048     # bytes of shared memory for barriers, and for reductions between warps


@dataclass(eq=False)
class Ring:
    """Loads of one block that a producer hands over together.

    direct      products read the tiles where they lie; else they are read to registers, and the slot is given back at once
    last        the product behind which the slot is given back, if they are read where they lie
    trails      that product runs on into the next trip, and gives back the slot a trip later
    once        one chunk, loaded once in front of all loops, and never given back
    root        the ring whose pipe this one uses: itself, or one of the same loads in an earlier loop
    """

    loads: list[Op]
    name: str = ""
    direct: bool = True
    last: Op | None = None
    trails: bool = False
    once: bool = False
    stages: int = 1
    root: Ring | None = None
    pipe: Value | None = None

    @property
    def bytes(self) -> int:
        """Bytes of a slot."""
        return sum(_bytes(load.result) for load in self.loads)


@dataclass(eq=False)
class Rings:
    """The rings of a program; the products that read slots where they lie; and what is said of loads that stay."""

    rings: list[Ring]
    products: set[Op]
    remarks: list[Remark] = field(default_factory=list)

    @property
    def roots(self) -> list[Ring]:
        return [ring for ring in self.rings if ring.root is ring]

    @property
    def loads(self) -> frozenset[Op]:
        return frozenset(load for ring in self.rings for load in ring.loads)


DirectOf = Callable[[Program, Uses, list[Op], Plan], tuple[set[Op], set[Op]]]


def rings_of(program: Program, plan: Plan, target: Target, direct_of: DirectOf | None = None,
             beside: Callable[[Rings], int] = lambda found: 0) -> Rings:
    """The rings of a program under a plan; without any, nothing is to be handed over. `remarks` have the reasons. `direct_of`
    says which products and loads are done where tiles lie, by default those of wgmma; where it is given, another task reads those
    loads, in a pipe of its own. `beside` says how many more bytes of shared memory are taken."""
    uses = uses_of(program)
    writes = written(program)
    loads, remarks = _candidates(program, uses, writes)
    while True:
        products, direct = (direct_of or _direct)(program, uses, loads, plan)
        found = Rings(_grouped(uses, loads, direct), products, remarks)
        for ring in found.rings:
            ring.root = next((other for other in found.rings if other.root is other and (
                direct_of is None or other.direct == ring.direct) and all(
                _share(uses, one, ring) for one in found.rings if one.root is other)), ring)
        alone = [ring for ring in found.rings if not ring.once and not _in_a_loop(uses, ring.loads[0]) and ring.root is ring
                 and all(other is ring or other.root is not ring for other in found.rings)]
        if not alone:
            break
        for load in (load for ring in alone for load in ring.loads):
            loads.remove(load)
            remarks.append(Remark("under a condition outside of all loops: loaded by the consumer itself", load.site))
    if not any("dot" in use.row.traits for load in loads for use in reached(uses, load.result)):
        found.rings.clear()
        found.remarks.append(Remark("no loop multiplies what it loads: a producer would not pay", program.site))
        return found
    for ring in found.rings:
        ring.trails = ring.direct and not ring.once and _trails(uses, ring.last) and \
            sum(other.last is ring.last for other in found.rings) == 1
    _name(found.roots)
    _place(found, program, plan, target, beside(found))
    return found


def is_read_only(program: Program, op: Op, writes: set[str] | None) -> bool:
    """True if the kernel writes none of the arrays that a load may read, as far as their parameters differ."""
    if writes is None:
        return False
    behind = [parameters_behind(program, address) for address in accessed(op, "read")]
    return all(names is not None and not names & writes for names in behind)


def _candidates(program: Program, uses: Uses, writes: set[str] | None) -> tuple[list[Op], list[Remark]]:
    found, remarks = [], []
    for load in program.named("descriptor_load"):
        needs = Slice(program, reads=lambda one: is_read_only(program, one, writes))
        needs.add(load)
        if needs.bad is not None:
            remarks.append(Remark(f"stays with the consumer: its address, or how often it runs, follows from "
                                  f"{needs.bad.row.word} at line {needs.bad.site.line}", load.site))
        elif not is_read_only(program, load, writes):
            remarks.append(Remark("stays with the consumer: the kernel writes the array that it reads, and a producer would be "
                                  "ahead of the stores", load.site))
        elif (made := uses.definition.get(load.descriptor)) is not None and uses.place[made].parent is not None:
            remarks.append(Remark(f"stays with the consumer: its descriptor is made at line {made.site.line}, inside a "
                                  "loop or branch", load.site))
        elif not uses.parents(load) and not all(use.name == "dot" for use in reached(uses, load.result)):
            remarks.append(Remark("outside of all loops: loaded by the consumer itself", load.site))
        else:
            found.append(load)
    return found, remarks


# ---- where tiles are read --------------------------------------------------------------------------------------------------


def reached(uses: Uses, value: Value) -> Iterator[Op]:
    """The ops that take a tile, as it is or transposed."""
    for use in uses.of(value):
        if _turns(use.op):
            yield from reached(uses, use.op.result)
        else:
            yield use.op


def within(uses: Uses, op: Op, block: Block) -> Op:
    """The op of a block that is another one, or has it inside."""
    while uses.place[op].block is not block:
        op = uses.place[op].parent
    return op


def _turns(op: Op) -> bool:
    return op.name == "trans" and tuple(op.order) == (1, 0)


def source_of(uses: Uses, value: Value) -> tuple[Op | None, bool]:
    """The op behind a tile, and whether the tile is turned."""
    op = uses.definition.get(value)
    return (uses.definition.get(op.value), True) if op is not None and _turns(op) else (op, False)


def _direct(program: Program, uses: Uses, loads: list[Op], plan: Plan) -> tuple[set[Op], set[Op]]:
    """(products that the tensor core does from slots, loads that are read by such products alone)."""
    warps = plan.warps_of(program.num_warps)
    products = {op for op in program.named("dot") if _suits(uses, op, warps, plan.consumers)}
    direct = set(loads)
    while True:
        before = len(products), len(direct)
        products = {op for op in products if source_of(uses, op.b)[0] in direct}
        direct = {load for load in direct if all(
            use in products and (uses.place[use].block is uses.place[load].block or uses.place[load].parent is None)
            for use in reached(uses, load.result))}
        if before == (len(products), len(direct)):
            return products, direct


def _suits(uses: Uses, dot: Op, warps: int, parts: int) -> bool:
    """True if wgmma takes B from shared memory: types of 16 bits, or 8 bits, of which A and B lie along K, and whole
    warpgroups of 64 rows."""
    a, b, acc = dot.a.type, dot.b.type, dot.acc.type
    if len(a.shape) != 2 or a.element != b.element or acc.element.name != "fp32" or acc.shape[0] % parts:
        return False
    try:
        accumulator_layout(type(acc)(acc.element, (acc.shape[0] // parts, acc.shape[1])), a.element, a.shape[1], warps, dot.site)
    except LayoutConflict:
        return False
    return a.element.bits == 16 or a.element.bits == 8 and source_of(uses, dot.b)[1] and not source_of(uses, dot.a)[1]


def _trails(uses: Uses, dot: Op) -> bool:
    """True if a product does nothing but add to what goes round its loop, which has no other one."""
    place = uses.place[dot]
    loop, block = place.parent, place.block
    if loop is None or loop.name != "for" or dot.acc not in block.args or dot.acc is induction(loop) or len(uses.of(dot.acc)) != 1:
        return False
    index = block.args.index(dot.acc) - 1
    return block.yielded[index] is dot.result and len(uses.of(dot.result)) == 1 and \
        sum("dot" in op.row.traits for op in loop.walk()) == 1


# ---- which loads go together -----------------------------------------------------------------------------------------------


def _grouped(uses: Uses, loads: list[Op], direct: set[Op]) -> list[Ring]:
    """Loads of a block that the same product ends share a ring; each other one has its own."""
    found: list[Ring] = []
    for load in loads:
        is_direct, once = load in direct, uses.place[load].parent is None
        last = max(reached(uses, load.result), key=uses.position.get) if is_direct else None
        ring = next((one for one in found if is_direct and not once and one.last is last and not one.once
                     and _nothing_between(uses, one.loads[-1], load) and not _read_before(uses, one, load)), None)
        if ring is None:
            found.append(ring := Ring([], direct=is_direct, last=last, once=once))
        ring.loads.append(load)
    return found


def _nothing_between(uses: Uses, first: Op, second: Op) -> bool:
    """True if two loads stand in one block, and no loop or branch between them."""
    block = uses.place[first].block
    if uses.place[second].block is not block:
        return False
    ops = block.ops
    return all(not op.blocks or not op.row.hands_on for op in ops[ops.index(first):ops.index(second)])


def _read_before(uses: Uses, ring: Ring, load: Op) -> bool:
    """True if a product reads a tile of the ring in front of a load, at which the slot of both would be waited for."""
    return any(uses.position[use] < uses.position[load] for one in ring.loads for use in reached(uses, one.result))


def _in_a_loop(uses: Uses, load: Op) -> bool:
    return any("loop" in parent.row.traits for parent in uses.parents(load))


def _share(uses: Uses, first: Ring, second: Ring) -> bool:
    """True if the second ring may go on in the slots of the first: the same tiles in another block, and neither holds a slot while
    the other's loads run, which would wait for it."""
    if first.once or second.once or [(load.descriptor, load.result.type) for load in first.loads] != \
            [(load.descriptor, load.result.type) for load in second.loads]:
        return False
    if uses.place[first.loads[0]].block is uses.place[second.loads[0]].block:
        return False
    return not _holds_over(uses, first, second) and not _holds_over(uses, second, first)


def _holds_over(uses: Uses, one: Ring, other: Ring) -> bool:
    """True if a loop or a branch with the other ring's loads stands where a slot of this one is held."""
    ops = uses.place[one.loads[0]].block.ops
    end = ops.index(within(uses, one.last, uses.place[one.loads[0]].block) if one.direct else one.loads[-1])
    inner = {op for held in ops[ops.index(one.loads[0]):end + 1] if held.blocks for op in held.walk()}
    return not inner.isdisjoint(other.loads)


# ---- names and depth -------------------------------------------------------------------------------------------------------


def _name(roots: list[Ring]) -> None:
    taken: set[str] = set()
    for ring in roots:
        name = base = "_".join(load.result.name or f"t{at}" for at, load in enumerate(ring.loads))
        number = 1
        while name in taken:
            name = f"{base}{(number := number + 1)}"
        taken.add(name)
        ring.name = name


def _place(found: Rings, program: Program, plan: Plan, target: Target, beside: int) -> None:
    """The depth of each pipe: the plan's, or as much as fits beside the scratch of stores by descriptor."""
    free = target.shared_bytes - RESERVED - staging(program, found, plan) - beside
    free -= sum(ring.bytes for ring in found.roots if ring.once)
    each = sum(ring.bytes for ring in found.roots if not ring.once)
    stages = plan.stages or (max(1, min(MOST_STAGES, free // each)) if each else 1)
    for ring in found.roots:
        ring.stages = 1 if ring.once else stages
    for ring in found.rings:        # the next chunk needs a slot beside the one that is given back a trip later
        ring.trails = ring.trails and ring.root.stages > 1
    if each * stages > free:
        found.remarks.append(Remark(f"{stages} slots of {each} bytes do not fit: {free} bytes are free. Smaller tiles would",
                                    program.site))


def staging(program: Program, found: Rings, plan: Plan) -> int:
    """Bytes of shared memory besides the pipes: a buffer for each store that runs on; and for all else that passes through shared
    memory, one after the other, as much as the largest takes: tiles of other accesses by descriptor, operands of other products."""
    own = may_run_on(program) if plan.stores else []
    passing = [op.value for op in program.named("descriptor_store") if op not in own]
    passing += [op.result for op in program.named("descriptor_load") if op not in found.loads]
    pairs = [_bytes(op.a) + _bytes(op.b) for op in program.named("dot") if op not in found.products]
    return sum(_bytes(op.value) for op in own) + max([*map(_bytes, passing), *pairs], default=0)


def _bytes(tile: Value) -> int:
    return tile.type.numel * tile.type.element.bits // 8
