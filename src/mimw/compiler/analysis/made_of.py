"""The source lines that made a stored value: from a store backwards through arithmetic, control flow and shared memory.

Input: a program and an op that writes global memory. Output: source positions, the nearest to the store first. For example:

    total += tlx.local_load(ring[slot])                             line 17
    tl.store(y + at, total)                                         line 19
    tlx.async_descriptor_load(x, ring[slot], [row, 0], full[slot])  line 27, in another task
    made_of(program, store)                                         lines 17 and 27, and those where `total` and `row` begin

Addresses count where something is read, since a wrong one brings a wrong value; barriers, masks of the store and its own address
do not. Every write into a buffer counts, in whatever order the tasks make them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ...ir import Barrier, Buffer, Op, Program, Site, Token, Value
from .flows import Flows

_WHERE = ("pointer", "descriptor", "offsets", "mask", "predicate", "row", "rows", "column")    # of a store: places, no values


def made_of(program: Program, store: Op) -> tuple[Site, ...]:
    """The positions of the ops whose results may reach memory by `store`, each line once, without that of the store itself."""
    flows: Flows = program.kept(Flows)
    fills = _fills(program, flows)
    places = {value for name in _WHERE if name in store.row.places for value in _values(getattr(store, name))}
    found = {_line(store): store.site}
    seen, todo = set(), deque(value for value in store.operands if value not in places)
    todo.extend(_behind(flows, fills, store, seen, found))
    while todo:
        value = todo.popleft()
        if value in seen or isinstance(value.type, (Barrier, Buffer, Token)):     # buffers: by the ops that fill them
            continue
        seen.add(value)
        todo.extend(flows.sources.get(value, ()))
        op = flows.maker.get(value)
        if op is None or op.row.hands_on:
            continue
        if op.name != "constant":
            found.setdefault(_line(op), op.site)
        todo.extend(op.operands)
        todo.extend(_behind(flows, fills, op, seen, found))
    return tuple(found.values())[1:]


def _fills(program: Program, flows: Flows) -> dict[Value, list[Op]]:
    """By the buffer array: the ops that write into it."""
    found: dict[Value, list[Op]] = {}
    for op in program.walk():
        for array in flows.touched(op, op.row.writes):
            found.setdefault(array, []).append(op)
    return found


def _behind(flows: Flows, fills: dict[Value, list[Op]], op: Op, seen: set, found: dict) -> Iterable[Value]:
    """The operands of all ops that write what `op` reads of buffers; the lines of these are noted."""
    for array in flows.touched(op, op.row.reads):
        if array not in seen:
            seen.add(array)
            for fill in fills.get(array, ()):
                found.setdefault(_line(fill), fill.site)
                yield from fill.operands
                yield from _behind(flows, fills, fill, seen, found)


def _values(operand) -> tuple[Value, ...]:
    return tuple(value for value in (operand if isinstance(operand, tuple) else (operand, )) if isinstance(value, Value))


def _line(op: Op) -> tuple[str, int]:
    return op.site.file, op.site.line
