"""Which buffers of local memories are tiles in registers on a GPU, and arithmetic on such tiles.

Input: the uses of a program's values. Output: the buffers that need no memory. For example:

    dsa_load %p, %a, [64];  dsa_binary 'add' %a %b %a;  dsa_store %q, %a, [64]          %a is a tile: no memory for it
    %h = dsa_subview %a, ..                                                             %a has views, and lies in shared memory
"""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.uses import Uses
from ..ir import Builder, Op, Scalar, Site, Type, Value, like
from ..ir.types import element_of
from .dsa_places import padded

_WIDE = Scalar("fp32")


def in_registers(uses: Uses, is_local: Callable[[Type], bool]) -> set[Value]:
    """The buffers whose accesses are all of the whole buffer and stand in one block: where the buffer is made, or further inside if
    the first of them gives every element a value, so that nothing comes from one trip of a loop to the next."""
    found = set()
    for op in uses.ops:
        if op.name == "local_alloc" and is_local(op.result.type) and not op.result.type.count:
            accesses = [use.op for use in uses.of(op.result)]
            blocks = {uses.place[access].block for access in accesses}
            if len(blocks) != 1 or not all(_is_whole(access, op.result) for access in accesses):
                continue
            first = min(accesses, key=uses.position.__getitem__)
            if uses.place[op].block in blocks or _fills(first, op.result):
                found.add(op.result)
    return found


def _is_whole(op: Op, buffer: Value) -> bool:
    """True of an op of `tle.dsa` that takes the elements where they are in the tile, and is over when it is."""
    if "dsa" not in op.row.traits or op.row.view_of or "async" in op.row.effects:
        return False
    shape = buffer.type.shape
    return "pointer" not in op.row.places or getattr(op.pointer.type, "shape", (1, ) * len(shape)) == padded(shape)


def _fills(op: Op, buffer: Value) -> bool:
    """True if the op gives every element of the buffer a value, and reads none."""
    reads, writes = ({getattr(op, name) for name in names} for names in (op.row.reads, op.row.writes))
    return buffer in writes - reads and ("extents" not in op.row.places or covers(op))


def covers(op: Op) -> bool:
    """True if the leading box of a copy is surely the whole buffer."""
    return op.extents == op.buffer.type.shape


def combined(writer: Builder, kind: str, lhs: Value, rhs: Value, unsigned: bool, site: Site) -> Value:
    """`kind` of two tiles of one type: add, sub, mul, div, max or min."""
    element = element_of(lhs.type)
    if not element.is_float:
        sign = "u" if unsigned else "s"
        op = {"div": f"{sign}div", "max": f"max{sign}i", "min": f"min{sign}i"}.get(kind, kind)
        return writer.emit(op, (lhs, rhs), site)
    op = {"max": "maxnumf", "min": "minnumf"}.get(kind, f"f{kind}")
    if kind != "div" or element.bits >= 32:
        return writer.emit(op, (lhs, rhs), site)
    wide = (writer.emit("fp_ext", (one, like(one.type, _WIDE)), site) for one in (lhs, rhs))
    return writer.emit("fp_trunc", (writer.emit(op, tuple(wide), site), lhs.type), site)
