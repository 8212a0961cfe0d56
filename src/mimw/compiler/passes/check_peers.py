"""A pointer that leads to another GPU already is not turned into a peer's once more.

Input: a program and its target. Output: nothing, or a `RemoteTwice` with both lines:

    there = tle.remote(x_ptr, 1, scope=mesh)
    tle.remote(there + at, 2, scope=mesh)           refused: it would add the distance of two heaps twice

Pointers are followed through arithmetic, shapes and control flow.
"""

from __future__ import annotations

from ...errors import RemoteTwice
from ...ir import Op, Pointer, Program, Value
from ...ir.types import element_of
from ...target import Target
from ..analysis.flows import Flows


def check_peers(program: Program, target: Target) -> None:
    """Raise `RemoteTwice` for the first `peer_pointer` of a peer's pointer."""
    makers = program.named("peer_pointer")
    if len(makers) < 2:
        return
    flows = program.kept(Flows)
    for op in makers:
        earlier = _earlier(op.pointer, flows, set())
        if earlier is not None:
            raise RemoteTwice("the pointer is a peer's already, and the way to another GPU begins at this GPU's own array.",
                              op.site, earlier.site, hint="take the pointer into this GPU's array in both places.")


def _earlier(value: Value, flows: Flows, seen: set[Value]) -> Op | None:
    """The `peer_pointer` that `value` comes from."""
    if value in seen:
        return None
    seen.add(value)
    op = flows.maker.get(value)
    if op is not None and op.name == "peer_pointer":
        return op
    through = op is not None and (op.row.pointer_of or op.row.elements_of)
    for source in (*flows.sources.get(value, ()), *(op.operands if through else ())):
        if isinstance(element_of(source.type), Pointer):
            found = _earlier(source, flows, seen)
            if found is not None:
                return found
    return None
