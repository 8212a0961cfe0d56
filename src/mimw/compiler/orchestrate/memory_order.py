"""Whether a load or store may become one by TMA, as the order of accesses to global memory has it.

Input: a program, and an access that is a box of a parameter. Output: a `Refused` with the line in the way, or None; and the pairs
of arguments that may share no byte at a launch. For example:

    tl.store(c_at, acc); x = tl.load(c_at)          refused: TMA reads what stores by pointers need not have written yet
    x = tl.load(a_at); tl.store(c_at, acc)          ("a", "c"): if they overlap, the plain kernel is launched

TMA accesses memory in the asynchronous proxy. What orders accesses by pointers (the program's order, a barrier, an atomic
operation) does not order those (PTX ISA, "Async proxy"), so an access is refused where any of these decides what it reads or what
stays written.
"""

from __future__ import annotations

from ...ir import Op, Program
from ..analysis.pointer_boxes import ranges_of
from ..analysis.polynomials import Trip
from ..analysis.tensor_boxes import Box, Refused
from ..analysis.uses import Uses, uses_of
from ..analysis.written import accessed, parameters_behind


def out_of_order(program: Program, op: Op, box: Box) -> Refused | None:
    """The reason for which an access keeps its place in the program's order; None if TMA may do it."""
    return _store(program, op, box) if op.row.stores else _load(program, op, box)


def apart(program: Program, op: Op, box: Box) -> list[tuple[str, str]]:
    """The names of arguments, in pairs, that may share no byte: the box' own, and one that the kernel writes (or reads, for a
    store)."""
    own = _name(program, box)
    hows = ("read", "write") if op.row.stores else ("write", )
    others = (name for other in program.walk() for how in hows for address in accessed(other, how)
              for name in parameters_behind(program, address) or ())
    return [(own, name) for name in dict.fromkeys(others) if name != own]


def may_run_on(program: Program) -> list[Op]:
    """The stores by descriptor that may land while the kernel goes on: nothing but others of them accesses their arrays, and
    nothing tells other programs that they have landed. Each of them waits for those before it."""
    found = program.named("descriptor_store")
    if any(_releases(op) for op in program.walk()):
        return []
    touched = [(op, parameters_behind(program, address)) for op in program.walk() for how in ("read", "write")
               for address in accessed(op, how)]
    while True:
        kept = []
        for store in found:
            own = parameters_behind(program, store.descriptor)
            others = [names for op, names in touched if op not in found]
            if own is not None and not any(names is None or names & own for names in others):
                kept.append(store)
        if len(kept) == len(found):
            return found
        found = kept


def _name(program: Program, box: Box) -> str:
    """The name of the array that a box is of; of an address out of an array "*" and that one's (`written.APART`), "" if nobody
    promises what it leads to."""
    return min(parameters_behind(program, box.base) or ("", ))


def _load(program: Program, op: Op, box: Box) -> Refused | None:
    own = _name(program, box)
    if not own:
        return Refused("its address comes from elsewhere", op.site)
    for other in program.walk():
        for address in accessed(other, "write"):
            names = parameters_behind(program, address)
            if names is None:
                return Refused(f"line {other.site.line} writes through an address that comes from elsewhere", other.site)
            if own in names:
                return Refused(f"line {other.site.line} writes the same array", other.site)
    return awaited(program, op)


def awaited(program: Program, op: Op) -> Refused | None:
    """The line in front of a load behind which it may read what other programs wrote; None if there is none."""
    uses = uses_of(program)
    for other in program.walk():
        if acquires(other) and _may_precede(uses, other, op):
            return Refused(f"`{other.row.word or other.name}` on line {other.site.line} orders it", other.site)
    return None


def _store(program: Program, op: Op, box: Box) -> Refused | None:
    uses, own = uses_of(program), _name(program, box)
    for other in program.walk():
        for address in (*accessed(other, "read"), *accessed(other, "write")):
            names = parameters_behind(program, address)
            if other is not op and (names is None or own in names):
                where = "through an address that comes from elsewhere" if names is None else "the same array"
                return Refused(f"line {other.site.line} accesses {where}", other.site)
    for other in program.walk():
        if _releases(other) and _may_precede(uses, op, other):
            return Refused(f"`{other.row.word or other.name}` on line {other.site.line} orders it", other.site)
    for loop in uses.loops(op):
        if not _moves(program, box, loop):
            return Refused(f"the loop on line {loop.site.line} may write one place in two of its rounds, and stores by TMA land in "
                           "any order", loop.site)
    return None


def acquires(op: Op) -> bool:
    """True if what others wrote may be read behind the op: atomic and volatile accesses, barriers, assembly with effects."""
    volatile = "is_volatile" in op.row.places and bool(op.is_volatile)
    assembly = "assembly" in op.row.traits and not op.is_pure
    return volatile or assembly or "atomic" in op.row.traits or "sync" in op.row.effects


def _releases(op: Op) -> bool:
    """True if others may read behind the op what was written in front of it."""
    return acquires(op) or op.row.releases


def _may_precede(uses: Uses, first: Op, op: Op) -> bool:
    """True if `first` may run before `op`: it stands in front, or both stand in one loop."""
    return uses.position[first] < uses.position[op] or bool(set(uses.loops(first)) & set(uses.loops(op)))


def _moves(program: Program, box: Box, loop: Op) -> bool:
    """True if the box of each of the loop's rounds lies beside those of all others: along one axis it moves by its extent or
    more."""
    forms = ranges_of(program).forms
    for offset, block in zip(box.offsets, box.block):
        step = offset.terms.get((Trip(loop), ), 0)
        rest = offset.part(lambda monomial: monomial != (Trip(loop), ))
        if abs(step) >= block and forms.invariant(rest, loop):
            return True
    return False
