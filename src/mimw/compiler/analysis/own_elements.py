"""Accesses to global memory by tasks that share out tiles: a task touches no element that another one writes, whoever comes first.

Input: a plain program, the ops of its consumer, and the axes along which its tiles are shared out. Output: the first access for
which that cannot be shown, and the reason in words; None if there is none. For example, with rows shared out:

    c_desc.store([m, 0], x); c_desc.store([m, 64], y)           each task has its own rows of both tiles
    for i in range(n): c_desc.store([i * BM, 0], x)             tiles of BM rows are the same rows or others altogether
    c_desc.store([m, 0], x); tl.load(c + at)                    refused: the load may read another task's rows

Two accesses to one parameter are compared by where they begin along the shared axis: by the same value, which from trip to trip of
the loops around changes by a multiple of the tile's extent only. Accesses by pointers are compared outside of loops only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...ir import Op, Program, Value
from .constants import constant_of
from .row_links import shape_of
from .uses import Uses, uses_of
from .written import accessed, parameters_behind


def foreign_element(program: Program, ops: Iterable[Op], axes: dict[Value, int],
                    independent: Collection[Op] = ()) -> tuple[Op, str] | None:
    """The first access of `ops` that may touch what another task writes, and why; None if each task keeps to its own elements.
    `independent` are loops whose trips may run in any order and at the same time by what the program means: accesses are compared
    within a trip of these."""
    uses = uses_of(program)
    writes = [(op, _names(program, op, "write")) for op in program.walk() if any(accessed(op, "write"))]
    reads = [(op, _names(program, op, "read")) for op in ops if any(accessed(op, "read"))]
    for op, names in writes:
        for other, others in (*writes, *reads):
            if (names is None or others is None or names & others) and not _apart(uses, op, other, axes, independent):
                if op is other:
                    return op, f"`{op.row.word}` in a loop may write in one trip what another task writes in another trip"
                verb = "writes" if (other, others) in writes else "loads"
                return other, f"`{other.row.word}` {verb} what line {op.site.line} may write for another task"
    return None


def _names(program: Program, op: Op, how: str) -> set[str] | None:
    found: set[str] = set()
    for address in accessed(op, how):
        names = parameters_behind(program, address)
        if names is None:
            return None
        found |= names
    return found


def _apart(uses: Uses, one: Op, other: Op, axes: dict[Value, int], independent: Collection[Op]) -> bool:
    """True if no task touches by `one` what another task touches by `other`, in no trips of the loops around."""
    if _never_both(uses, one, other, independent):
        return True
    tiles = _tile(one), _tile(other)
    if None in tiles or any(tile not in axes for tile in tiles):
        return False
    axis, extent = axes[tiles[0]], shape_of(tiles[0])[axes[tiles[0]]]
    if axes[tiles[1]] != axis or shape_of(tiles[1])[axis] != extent:
        return False
    loops = {*uses.loops(one), *uses.loops(other)}.difference(independent)
    if "pointer" in one.row.places and "pointer" in other.row.places:
        return one.pointer is other.pointer and not loops
    if not by_box(one) or not by_box(other) or one.descriptor is not other.descriptor:
        return False
    return one.offsets[axis] is other.offsets[axis] and stays(uses, one.descriptor, loops) and \
        _steady(uses, one.offsets[axis], extent, loops)


def _never_both(uses: Uses, one: Op, other: Op, independent: Collection[Op]) -> bool:
    """True of ops in two branches of one condition, which is a number, so that all tasks take the same branch: once in a program,
    or once in a trip of an independent loop."""
    mine, theirs = _branches(uses, one), _branches(uses, other)
    return any(theirs.get(branch, at) != at and set(uses.loops(branch)) <= set(independent) for branch, at in mine.items())


def _branches(uses: Uses, op: Op) -> dict[Op, int]:
    """The conditions that an op stands under: in which of their blocks."""
    found, place = {}, uses.place[op]
    while place.parent is not None:
        if "branch" in place.parent.row.traits:
            found[place.parent] = place.index
        place = uses.place[place.parent]
    return found


def by_box(op: Op) -> bool:
    """True of an access to a box of a tensor, of the tile's extents."""
    return "descriptor" in op.row.places and "offsets" in op.row.places


def _tile(op: Op) -> Value | None:
    """The tile that an op loads or stores; None of an op of another kind."""
    if "pointer" not in op.row.places and not by_box(op):
        return None
    if "value" in op.row.places:
        return op.value
    return op.result if op.results else None


def stays(uses: Uses, value: Value, loops: Collection[Op]) -> bool:
    """True if a value is made outside of the loops."""
    op, place = uses.definition[value], uses.argument.get(value)
    if op is not None:
        return set(loops).isdisjoint(uses.loops(op))
    return place is None or place.parent is None or set(loops).isdisjoint((place.parent, *uses.loops(place.parent)))


def _steady(uses: Uses, value: Value, extent: int, loops: set[Op]) -> bool:
    """True if a number changes by multiples of `extent` only while the loops run."""
    if stays(uses, value, loops):
        return True
    op, place = uses.definition[value], uses.argument.get(value)
    if op is None:
        loop = place.parent
        return loop.name == "for" and value is place.block.args[0] and _is_multiple(uses, loop.step, extent) and \
            _steady(uses, loop.start, extent, loops)
    if op.name == "sub" or "sum" in op.row.traits:
        return _steady(uses, op.lhs, extent, loops) and _steady(uses, op.rhs, extent, loops)
    if op.name == "mul":
        return _is_multiple(uses, op.lhs, extent) or _is_multiple(uses, op.rhs, extent)
    return op.name == "int_cast" and _steady(uses, op.value, extent, loops)


def _is_multiple(uses: Uses, value: Value, extent: int) -> bool:
    number = constant_of(uses, value)
    return number is not None and number % extent == 0
