"""Allocations behind buffer values: the allocation to which the bytes of a value belong.

    a = local_alloc(...); b = buffer_reinterpret(a); c = buffer_index(b, i)      a, b and c have the root a

Input: a program. Output: for every buffer value the allocations, or storages shared by several arrays, that it may be part of.
`views.find_views` also says how a value lies in its allocation, and counts a retyped buffer as an allocation of its own.
"""

from __future__ import annotations

from ...ir.core import Program, Value
from ...ir.flow import all_carries
from ...ir.types import Buffer, Storage

_MEMORY = (Buffer, Storage)


def memory_roots(program: Program) -> dict[Value, frozenset[Value]]:
    """The roots of every value that is a buffer or a storage; control flow may give a value several."""
    roots: dict[Value, frozenset[Value]] = {}
    for op in program.walk():
        if op.blocks:
            continue
        sources = [roots.get(value, frozenset()) for value in op.operands if isinstance(value.type, _MEMORY)]
        for result in op.results:
            if isinstance(result.type, _MEMORY):
                roots[result] = frozenset().union(*sources) or frozenset((result, ))
    carries = [carry for carry in all_carries(program) if isinstance(carry.target.type, _MEMORY)]
    if not carries:
        return roots
    # A value that control flow hands on has no op that makes it: the roots of its views were not known above.
    views = [op for op in program.walk() if not op.blocks and op.results and isinstance(op.results[0].type, _MEMORY)]
    count = -1
    while count != (count := sum(map(len, roots.values()))):
        for carry in carries:
            roots[carry.target] = roots.get(carry.target, frozenset()) | roots.get(carry.source, frozenset())
        for op in views:
            sources = [roots.get(value, frozenset()) for value in op.operands if isinstance(value.type, _MEMORY)]
            if any(sources):
                roots[op.results[0]] = frozenset().union(roots[op.results[0]], *sources)
    return roots
