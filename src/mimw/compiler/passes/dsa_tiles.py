"""Buffers of local memories that are tiles in registers on a GPU, and arithmetic on such tiles.

Input: the uses of a program's values. Output: the buffers that need no memory, and slots of rings that are read from there once.
For example:

    dsa_load %p, %a, [64];  dsa_binary 'add' %a %b %a;  dsa_store %q, %a, [64]          %a is a tile: no memory for it
    %h = dsa_subview %a, ..                                                             %a has views, and lies in shared memory
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir import Builder, Op, Scalar, Site, Type, Value, like
from ...ir.extents import padded
from ...ir.types import element_of
from ..analysis.uses import Uses

_WIDE = Scalar("fp32")


def in_registers(uses: Uses, is_local: Callable[[Type], bool]) -> set[Value]:
    """The buffers that are tiles in registers: all accesses take the whole buffer and stand in one block, which is the block
    where the buffer is made, or one inside if the first access there writes every element, so that nothing comes from one
    trip of a loop to the next; also buffers that are only read outside of the block where they are made. A slot of a ring
    (`pipeline_dsa`) is filled again before its next read, so the writes of a trip need not reach the slot."""
    found = set()
    for op in uses.ops:
        if op.name == "local_alloc" and is_local(op.result.type) and not op.result.type.count:
            accesses = [use.op for use in uses.of(op.result)]
            blocks = {uses.place[access].block for access in accesses}
            if not accesses or not all(_is_whole(access, op.result) for access in accesses):
                continue
            first = min(accesses, key=uses.position.__getitem__)
            alone = len(blocks) == 1 and (uses.place[op].block in blocks or _fills(first, op.result))
            if alone or _is_constant(uses, op, accesses):
                found.add(op.result)
        elif op.name == "buffer_index" and is_local(op.result.type):
            accesses = [use.op for use in uses.of(op.result)]
            if all(_is_whole(access, op.result) and uses.place[access].block is uses.place[op].block for access in accesses):
                found.add(op.result)
    return found


def _is_constant(uses: Uses, made: Op, accesses: list[Op]) -> bool:
    """True for a buffer that is written where it is made, and then only read, in loops and branches, too: weights, say.
    Registers hold it all that while, so a buffer that the tensor cores take from shared memory stays there."""
    writers = [op for op in accesses if any(getattr(op, name) is made.result for name in op.row.writes)]
    last = max((uses.position[op] for op in writers), default=-1)
    home = uses.place[made].block
    return bool(writers) and made.result.type.space == "ub" and all(uses.place[op].block is home for op in writers) and all(
        uses.position[op] > last and uses.task(op) is uses.task(made) for op in accesses if op not in writers)


def nobody_sees_the_rest(uses: Uses, loop: Op, copy: Op) -> bool:
    """True if the elements outside of a copy's box make no difference: they get into elements outside of that box only, in buffers
    that every trip fills anew, and no more than the box is stored."""
    body, order, left, seen = loop.blocks[0], uses.position, [copy.buffer], set()
    while left:
        buffer = left.pop()
        if buffer in seen:
            continue
        seen.add(buffer)
        accesses = sorted((use.op for use in uses.of(buffer)), key=order.__getitem__)
        first = accesses[0]
        if "extents" in first.row.places and first.extents != copy.extents and not covers(first) or not _only_writes(first, buffer):
            return False
        for op in accesses:
            same_box = "extents" not in op.row.places or op.extents == copy.extents or not op.row.reads
            if uses.place[op].block is not body or not _is_whole(op, buffer) or op.results or not same_box:
                return False
            left += [getattr(op, name) for name in op.row.writes if not _only_writes(op, buffer)]
    return True


def _only_writes(op: Op, buffer: Value) -> bool:
    """True if an op writes a buffer and does not read it."""
    written, read = ([getattr(op, name) for name in names] for names in (op.row.writes, op.row.reads))
    return any(one is buffer for one in written) and not any(one is buffer for one in read)


def _is_whole(op: Op, buffer: Value) -> bool:
    """True of an op of `tle.dsa` that takes the elements where they are in the tile, and is over when it is."""
    if "dsa" not in op.row.traits or op.row.view_of or "async" in op.row.effects:
        return False
    shape = buffer.type.shape
    return "pointer" not in op.row.places or getattr(op.pointer.type, "shape", (1, ) * len(shape)) == padded(shape)


def _fills(op: Op, buffer: Value) -> bool:
    """True if the op gives every element of the buffer a value, and reads none."""
    return _only_writes(op, buffer) and ("extents" not in op.row.places or covers(op))


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
