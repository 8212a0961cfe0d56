"""Which of its arguments a kernel writes: torch has to know that of an operator.

Input: a recorded program. Output: the names of the parameters through which it writes global memory, or None if it writes through
an address that comes from elsewhere:

    written(program_of_double)      {"y"}, of `tl.store(y + at, 2 * tl.load(x + at))`
"""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.analysis.flows import Flows
from ...ir import Descriptor, Op, Pointer, Program, Value
from ...ir.types import element_of


def written(program: Program) -> set[str] | None:
    """The names of the parameters that are pointers or descriptors and may be written; None if that cannot be said."""
    flows = program.kept(Flows)
    params = {param.value: param.name for param in program.params}
    found, seen = set(), set()
    todo = [value for op in program.walk() for value in _through(op)]
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in params:
            found.add(params[value])
            continue
        behind = flows.sources.get(value)
        if behind is None:
            maker = flows.maker.get(value)
            behind = [one for one in maker.operands if _addresses(one)] if maker else []
        if not behind:
            return None
        todo += behind
    return found


def _through(op: Op) -> Iterator[Value]:
    """The addresses through which an op writes. What the author's own assembly does with an address only the author knows."""
    if "assembly" in op.row.traits:
        yield from filter(_addresses, op.operands)
    for name, access in op.row.touches:
        value = getattr(op, name)
        if access.endswith("write") and isinstance(value, Value) and _addresses(value):
            yield value


def _addresses(value: Value) -> bool:
    return isinstance(element_of(value.type), (Pointer, Descriptor))
