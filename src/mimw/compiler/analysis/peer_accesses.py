"""Accesses to memory of other GPUs, with the op that decides which GPU.

Input: a program. Output: for each op that reaches memory through a peer's pointer, the `peer_pointer` that made the pointer.
For example:

    there = tlx.peer_pointer(x, peer, world)
    tl.store(there + at, tile)                  peer_accesses(program)[store] is the peer_pointer, its `gpu` the rank

Pointers are followed through arithmetic, descriptors and control flow. A pointer that may be a peer's or this rank's own
counts as the peer's.
"""

from __future__ import annotations

from ...ir import Descriptor, Op, Pointer, Program, Value
from ...ir.types import element_of
from .flows import Flows


def peer_accesses(program: Program) -> dict[Op, Op]:
    """The `peer_pointer` behind the pointer or descriptor of each op that accesses memory of a peer."""
    flows: Flows = program.kept(Flows)
    makers: dict[Value, Op | None] = {}
    found = {}
    for op in program.walk():
        if op.row.pointer_of:       # it makes a pointer of one, and accesses nothing
            continue
        for name in ("pointer", "descriptor"):
            value = getattr(op, name) if name in op.row.places else None
            maker = _maker(value, flows, makers) if isinstance(value, Value) else None
            if maker is not None:
                found[op] = maker
    return found


def _maker(value: Value, flows: Flows, makers: dict[Value, Op | None]) -> Op | None:
    if value in makers:
        return makers[value]
    makers[value] = None            # while it is asked: a loop hands its own pointer on
    op = flows.maker.get(value)
    if op is not None and op.name == "peer_pointer":
        makers[value] = op
        return op
    sources = [*flows.sources.get(value, ()), *(op.operands if op is not None and not op.row.hands_on else ())]
    for source in sources:
        if isinstance(source.type, Descriptor) or isinstance(element_of(source.type), Pointer):
            maker = _maker(source, flows, makers)
            if maker is not None:
                makers[value] = maker
                return maker
    return None
