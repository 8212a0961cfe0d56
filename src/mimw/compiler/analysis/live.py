"""Live values: those that an effect of the kernel needs, straight or by way of other values.

Input: a program. Output: the set of its live values. For example:

    %i = poison i32; for .. (%acc, %dead) ...; store %p, %acc          %acc and what it is made of; not %dead, nor %i

A value that a loop carries is live if its result, or its argument in the loop's body, is: then so are the value before the loop and
the one that a trip hands on. Everything that computes a value which is not live may be left out of the program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...ir import Op, Program, Value
from ...ir.flow import all_carries
from ...ir.ops import is_pure
from .uses import uses_of


def live_values(program: Program) -> frozenset[Value]:
    """The live values of a program, found once for each."""
    return program.kept(_live_values)


def _live_values(program: Program) -> frozenset[Value]:
    definition, sources = uses_of(program).definition, defaultdict(list)
    for carry in all_carries(program):
        sources[carry.target].append(carry.source)
    found: set[Value] = set()
    left = [value for op in program.walk() for value in _roots(op)]
    while left:
        value = left.pop()
        if value in found:
            continue
        found.add(value)
        left += sources[value]
        made = definition.get(value)
        if made is not None and is_pure(made.name):
            left += [operand for op in made.walk() for operand in op.operands]
    return frozenset(found)


def _roots(op: Op) -> Iterator[Value]:
    """Operands that an op needs, whoever takes its results: none of a pure one, of control flow what decides its course."""
    if is_pure(op.name):
        return
    if not op.row.hands_over:
        yield from op.operands
        return
    handed = "values" if "terminator" in op.row.traits else "inits" if "inits" in op.row.places else ""
    kept = set(getattr(op, handed)) if handed else set()
    decides = [getattr(op, name) for name in op.row.params if name != handed]
    yield from (value for value in decides if isinstance(value, Value))
    if not op.row.hands_on and "terminator" not in op.row.traits:
        yield from (value for value in op.operands if value not in kept)
