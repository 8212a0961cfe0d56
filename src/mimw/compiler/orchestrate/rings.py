"""Which loads a producer task can do, which of them share a pipe, and when a slot of it is given back.

Input: a plain program with loads by descriptor, or ones that cp.async can do, and a `Plan`. Output: `Rings`. For example, of
`for k: x = a.load(..); y = b.load(..); acc = tl.dot(x, y, acc)`:

    rings_of(program, plan, target).rings       one Ring of x and y: read by the product where they lie, given back a trip later

A load stays with the consumer if its address follows from what only the consumer has, or if the kernel writes the array that it
reads: the producer is ahead of the kernel's stores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...ir import Op, Program, Value
from ...target import Target
from ..analysis.remarks import Remark
from ..analysis.slices import Slice
from ..analysis.tensor_boxes import Refused
from ..analysis.uses import Uses, uses_of
from ..analysis.written import accessed, parameters_behind, written
from .gathers import gathered
from .held import Ends, ends
from .lags import Flight, set_flights
from .memory_order import may_run_on
from .plan import Plan
from .residency import shared_bytes
from .running_on import running_on
from .tiles_read import direct_reads, reached
from .transforms import confined, raw_loads, transformed

MOST_STAGES = 8
MADE_STAGES = 2     # of tiles that a task computes: memory is waited for by the task in front of it
RESERVED = 2048     # bytes of shared memory for barriers, and for reductions between warps


@dataclass(eq=False)
class Ring:
    """Loads of one block that a producer hands over together.

    direct      products read the tiles where they lie; else they are read to registers, and the slot is given back at once
    last        the product behind which the slot is given back, if they are read where they lie
    trails      that product runs on, also into the next trip, and gives back the slot behind the product that follows it
    ends        where the slot is given back, if products in loops or branches inside of its block read it (`held.py`)
    once        one chunk, loaded once in front of all loops, and never given back
    flight      which chunks cp.async may still be copying when the next ones begin (`lags.py`); None: it is waited for at once
    root        the ring whose pipe this one uses: itself, or one of tiles of the same types in an earlier loop
    made        its tile is no load's: the task that transforms computes it and stores it to the slot (`transforms.py`)
    raw         its tiles are read by that task, and by no consumer
    rare        loops inside of its block have chunks of other rings: the next one has a whole tile's time to come
    """

    loads: list[Op]
    name: str = ""
    direct: bool = True
    last: Op | None = None
    trails: bool = False
    ends: Ends | None = None
    once: bool = False
    flight: Flight | None = None
    stages: int = 1
    root: Ring | None = None
    made: bool = False
    raw: bool = False
    rare: bool = False
    pipe: Value | None = None

    @property
    def fixed(self) -> bool:
        """True of one slot, whatever the plan says: it is filled once, or seldom, or held for as long as loops inside go on."""
        return self.once or self.rare or self.ends is not None

    @property
    def bytes(self) -> int:
        """Bytes of a slot."""
        return sum(_bytes(load.result) for load in self.loads)

    @property
    def gathers(self) -> list[Op]:
        """The loads by pointers, which cp.async copies."""
        return [load for load in self.loads if load.name != "descriptor_load" and not self.made]


@dataclass(eq=False)
class Rings:
    """The rings of a program; the products that read slots where they lie, those of them that run on into the next trip, with the
    rings whose last product each is; and what is said of loads that stay."""

    rings: list[Ring]
    products: set[Op]
    remarks: list[Remark] = field(default_factory=list)
    trailing: dict[Op, list[Ring]] = field(default_factory=dict)

    @property
    def roots(self) -> list[Ring]:
        return [ring for ring in self.rings if ring.root is ring]

    @property
    def loads(self) -> frozenset[Op]:
        """The loads that the producer does."""
        return frozenset(load for ring in self.rings if not ring.made for load in ring.loads)

    @property
    def computed(self) -> frozenset[Op]:
        """The ops that the task which transforms does for consumers."""
        return frozenset(op for ring in self.rings if ring.made for op in ring.loads)

    def some(self, wanted: Callable[[Ring], bool]) -> Rings:
        """Those that a task uses."""
        return Rings([ring for ring in self.rings if wanted(ring)], self.products, trailing=self.trailing)


DirectOf = Callable[[Program, Uses, list[Op], Plan], tuple[set[Op], set[Op]]]


def rings_of(program: Program, plan: Plan, target: Target, late: Collection[Op] = (), direct_of: DirectOf | None = None,
             beside: Callable[[Rings], int] = lambda found: 0) -> Rings:
    """The rings of a program under a plan, of which products that are `late` run behind by a trip; without any ring, nothing is to
    be handed over. `remarks` have the reasons. `direct_of` says which products and loads are done where tiles lie, by default those
    of wgmma; where it is given, another task reads those loads, in a pipe of its own. `beside` says how many more bytes of shared
    memory are taken."""
    uses = uses_of(program)
    writes = written(program)
    loads, remarks = _candidates(program, uses, writes, gathered(program, target) if plan.gathers else {})
    while True:
        made = transformed(program, loads) if plan.transform else []
        while True:
            products, direct = (direct_of or direct_reads)(program, uses, loads + made, plan)
            kept = confined(program, loads, [op for op in made if op in direct and all(
                uses.place[use].block is uses.place[op].block for use in reached(uses, op.result))])
            if len(kept) == len(made):
                break
            made = kept
        raw = raw_loads(program, loads, made)
        found = Rings(_grouped(uses, loads, direct), products, remarks)
        found.rings += [Ring([op], last=max(reached(uses, op.result), key=uses.position.get), made=True) for op in made]
        for ring in found.rings:
            ring.raw = not raw.isdisjoint(ring.loads)
        for ring in found.rings:
            roots = [other for other in found.rings if other.root is other and (direct_of is None or other.direct == ring.direct)
                     and all(_share(uses, one, ring, plan) for one in found.rings if one.root is other)]
            ring.root = next((other for other in roots if _arrays(uses, other) == _arrays(uses, ring)), (*roots, ring)[0])
        alone = [ring for ring in found.rings if not ring.once and not _in_a_loop(uses, ring.loads[0]) and ring.root is ring
                 and all(other is ring or other.root is not ring for other in found.rings)]
        if not alone:
            break
        for load in (load for ring in alone for load in ring.loads):
            loads.remove(load)
            remarks.append(Remark("under a condition outside of all loops: loaded by the consumer itself", load.site))
    if not made and not any("dot" in use.row.traits for load in loads for use in reached(uses, load.result)):
        found.rings.clear()
        found.remarks.append(Remark("no loop multiplies what it loads: a producer would not pay", program.site))
        return found
    trailing = running_on(uses, products, direct)
    for ring in found.rings:
        ring.trails = ring.direct and not ring.once and ring.ends is None and ring.last in trailing
    if not plan.tiles_in_turn:
        for ring in found.rings:
            ring.rare = not ring.once and all(_is_rare(uses, one, found.rings) for one in found.rings if one.root is ring.root)
    _name(found.roots)
    _place(found, program, plan, target, late, beside(found))
    if all(ring.trails for ring in found.rings if ring.last in trailing and not ring.once and ring.ends is None):
        found.trailing = {dot: [ring for ring in found.rings if ring.trails and ring.last is dot] for dot in trailing}
    for ring in found.rings:
        ring.trails = ring.trails and ring.last in found.trailing
    set_flights(uses, found.rings, late, plan.lag)
    return found


def is_read_only(program: Program, op: Op, writes: set[str] | None) -> bool:
    """True if the kernel writes none of the arrays that a load may read, as far as their parameters differ."""
    if writes is None:
        return False
    behind = [parameters_behind(program, address) for address in accessed(op, "read")]
    return all(names is not None and not names & writes for names in behind)


def _candidates(program: Program, uses: Uses, writes: set[str] | None,
                gathers: Mapping[Op, Refused | None]) -> tuple[list[Op], list[Remark]]:
    found, remarks = [], []
    for load in sorted((*program.named("descriptor_load"), *gathers), key=uses.position.get):
        if (refused := gathers.get(load)) is not None:
            remarks.append(Remark(f"stays with the consumer: {refused.reason}", load.site))
            continue
        needs = Slice(program, reads=lambda one: one not in gathers and is_read_only(program, one, writes))
        needs.add(load)
        if writes is None or any(parameters_behind(program, address) is None for address in accessed(load, "read")):
            # Every argument may be apart from every other one, and what an array points to still be what another one points to.
            remarks.append(Remark(_from_elsewhere(program, load), load.site))
        elif needs.bad is not None:
            remarks.append(Remark(f"stays with the consumer: its address, or how often it runs, follows from "
                                  f"{needs.bad.row.word} at line {needs.bad.site.line}", load.site))
        elif not is_read_only(program, load, writes):
            remarks.append(Remark("stays with the consumer: the kernel writes the array that it reads, and a producer would be "
                                  "ahead of the stores", load.site))
        elif load not in gathers and (made := uses.definition.get(load.descriptor)) is not None and \
                uses.place[made].parent is not None and made.name != "make_tensor_descriptor":
            remarks.append(Remark(f"stays with the consumer: its descriptor is chosen at line {made.site.line}, inside a "
                                  "loop or branch", load.site))
        elif not uses.parents(load) and not all(use.name == "dot" for use in reached(uses, load.result)):
            remarks.append(Remark("outside of all loops: loaded by the consumer itself", load.site))
        else:
            found.append(load)
    return found, remarks


def _from_elsewhere(program: Program, load: Op) -> str:
    """The reason of a load where addresses are no arguments: the host could not ask whether arrays overlap."""
    written = next((op.site.line for op in program.walk() for address in accessed(op, "write")
                    if parameters_behind(program, address) is None), None)
    where = "it loads" if written is None else f"line {written} writes"
    return (f"stays with the consumer: {where} through an address that comes out of an array, so nothing says at a launch whether "
            "what is written is what a producer has loaded ahead. `memory=` of mimw.orchestrate promises it")


# ---- which loads go together -----------------------------------------------------------------------------------------------


def _grouped(uses: Uses, loads: list[Op], direct: set[Op]) -> list[Ring]:
    """Loads of a block that the same product ends share a ring; each other one has its own."""
    found: list[Ring] = []
    for load in loads:
        is_direct, once = load in direct, uses.place[load].parent is None
        products = list(reached(uses, load.result)) if is_direct else []
        last = max(products, key=uses.position.get) if is_direct else None
        inside = is_direct and not once and any(uses.place[use].block is not uses.place[load].block for use in products)
        ring = next((one for one in found if is_direct and not once and not inside and one.last is last and one.ends is None
                     and not one.once and _nothing_between(uses, one.loads[-1], load) and not _read_before(uses, one, load)), None)
        if ring is None:
            found.append(ring := Ring([], direct=is_direct, last=last, once=once))
            ring.ends = ends(uses, load, products) if inside else None
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


def _is_rare(uses: Uses, ring: Ring, rings: list[Ring]) -> bool:
    """True if loops inside of a ring's own loop have loads of other ones."""
    loops = uses.loops(ring.loads[0])
    inner = (uses.loops(other.loads[0]) for other in rings if other.root is not ring.root)
    return bool(loops) and any(len(each) > len(loops) and each[:len(loops)] == loops for each in inner)


def _in_a_loop(uses: Uses, load: Op) -> bool:
    return any("loop" in parent.row.traits for parent in uses.parents(load))


def _share(uses: Uses, first: Ring, second: Ring, plan: Plan) -> bool:
    """True if the second ring may go on in the slots of the first: tiles of the same types in another block, be they of other
    arrays, and neither holds a slot while the other's loads run, which would wait for it."""
    if first.made or second.made or first.raw is not second.raw:
        return False
    if first.once or second.once or first.ends or second.ends or _types(first) != _types(second):
        return False
    if (first.gathers or second.gathers) and _arrays(uses, first) != _arrays(uses, second):
        return False
    if uses.place[first.loads[0]].block is uses.place[second.loads[0]].block:
        return plan.together > 1 and first.direct and second.direct and \
            uses.position[first.last] < uses.position[second.loads[0]]      # a trip of several that are done together
    return not _holds_over(uses, first, second) and not _holds_over(uses, second, first)


def _types(ring: Ring) -> list[Any]:
    return [load.result.type for load in ring.loads]


def _arrays(uses: Uses, ring: Ring) -> list[Any]:
    """The arrays that are loaded from: descriptors, or names of arguments."""
    return [load.descriptor if load.name == "descriptor_load" else
            [parameters_behind(uses.program, address) for address in accessed(load, "read")] for load in ring.loads]


def _holds_over(uses: Uses, one: Ring, other: Ring) -> bool:
    """True if a loop or a branch with the other ring's loads stands where a slot of this one is held."""
    ops = uses.place[one.loads[0]].block.ops
    end = ops.index(one.last) if one.direct else ops.index(one.loads[-1])
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


def _place(found: Rings, program: Program, plan: Plan, target: Target, late: Collection[Op], beside: int) -> None:
    """The depth of each pipe: the plan's, or as much as fits beside the scratch of stores by descriptor. A late product holds its
    slot for a trip more, and so its pipe has another slot where there is room."""
    free = shared_bytes(plan.programs, target) - RESERVED - staging(program, found, plan) - beside
    free -= sum(ring.bytes for ring in found.roots if ring.fixed)
    free -= sum(ring.bytes for ring in found.roots if ring.made) * min(plan.stages or MADE_STAGES, MADE_STAGES)
    each = sum(ring.bytes for ring in found.roots if not ring.fixed and not ring.made)
    stages = plan.stages or (max(1, min(MOST_STAGES, free // each)) if each else 1)
    behind = {ring.root for ring in found.rings if ring.last in late and not ring.made}
    more = plan.late_stages or stages + (plan.stages is None and 1 < stages < MOST_STAGES and
                                         each * stages + sum(ring.bytes for ring in behind) <= free)
    for ring in found.roots:
        ring.stages = 1 if ring.fixed else min(stages, MADE_STAGES) if ring.made else more if ring in behind else stages
    for ring in found.rings:        # the next chunk needs a slot beside the one that is given back a trip later
        ring.trails = ring.trails and ring.root.stages > 1
    if each * stages + (more - stages) * sum(ring.bytes for ring in behind) > free:
        found.remarks.append(Remark(f"{stages} slots of {each} bytes do not fit: {free} bytes are free. Smaller tiles would",
                                    program.site))


def staging(program: Program, found: Rings, plan: Plan) -> int:
    """Bytes of shared memory besides the pipes: a buffer for each store that runs on; and for all else that passes through shared
    memory, one after the other, as much as the largest takes: tiles of other accesses by descriptor, operands of other products, of
    which each consumer of rows has its own B."""
    own = may_run_on(program) if plan.stores else []
    passing = [op.value for op in program.named("descriptor_store") if op not in own]
    passing += [op.result for op in program.named("descriptor_load") if op not in found.loads]
    pairs = [_bytes(op.a) + plan.parts * _bytes(op.b) for op in program.named("dot") if op not in found.products]
    each = sum(_bytes(op.value) for op in own) + max([*map(_bytes, passing), *pairs], default=0)
    return each * (plan.consumers // plan.parts)


def _bytes(tile: Value) -> int:
    return tile.type.numel * tile.type.element.bits // 8
