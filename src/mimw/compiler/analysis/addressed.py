"""Values from which tile accesses compute their addresses, where these follow from arguments and the program's number alone.

Input: a program. Output: the values, pointers and masks included, that say which bytes are asked for. For example:

    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.load(x + at)                     at, x + at, and what they are made of
    tl.load(x + tl.load(rows + at))     of the outer load nothing: only memory says where it reads

The instructions for addresses are fewer than the elements: one computes where a vector of 16 bytes begins.
"""

from __future__ import annotations

from ...ir import Op, Program, Tensor, Value
from ...ir.ops import is_pure
from .flows import Flows


def addressed(program: Program) -> frozenset[Value]:
    """The values behind the pointers and masks of all accesses to global memory by tiles of pointers."""
    return program.kept(_addressed)


def accesses(program: Program) -> tuple[Op, ...]:
    """Loads and stores of whole tiles through pointers."""
    found = program.where(lambda row: (row.loads or row.stores) and "pointer" in row.places and "atomic" not in row.traits)
    return tuple(op for op in found if isinstance(op.pointer.type, Tensor))


def _addressed(program: Program) -> frozenset[Value]:
    flows, found = program.kept(Flows), set()
    for op in accesses(program):
        for place in ("pointer", "mask"):
            value = getattr(op, place) if place in op.row.places else None
            if isinstance(value, Value):
                found |= _behind(value, flows, found) or set()
    return frozenset(found)


def _behind(root: Value, flows: Flows, known: set[Value]) -> set[Value] | None:
    """All values that `root` is computed from, and it; None if memory or a product is among what makes them."""
    found, todo = set(), [root]
    while todo:
        value = todo.pop()
        if value in found or value in known:
            continue
        found.add(value)
        todo += flows.sources.get(value, ())
        op = flows.maker.get(value)
        if op is None or op.row.hands_on:
            continue
        if not is_pure(op.name) or op.blocks:
            return None
        todo += op.operands
    return found
