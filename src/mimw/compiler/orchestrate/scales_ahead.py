"""Products of scales that are loaded a trip ahead, carried in place of the scales: plain program to plain program, same bits.

Input: a plain program in which loops carry small loads (`small_loads.py`). Output: the program in which they carry the product of
two of these that nothing else takes; itself if there is none. For example, of 64 rows:

    for k: t = tl.dot(..); sa, sb of the next trip = ..; acc += t * (sa[:, None] * sb)      carries sa and sb
    for k: t = tl.dot(..); ..; acc += t * s; s = sa[:, None] * sb of the next trip          carries s

A number that all lanes load ptxas moves to a uniform register, in front of a product of the trip that loads it: the move waits for
the load, and the product for the move. A product of it stands at the end of the trip, and no number goes round. It is a register
less as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Block, Builder, Op, Program, Tensor, Value
from ...ir.flow import bounds, loop_carries, terminator
from ..analysis.spreads import Spread, in_shape, spread
from ..analysis.uses import Uses, uses_of

MOST = 512      # elements of such a product


@dataclass(frozen=True)
class _Product:
    """A product of two loads that a loop carries, as spreads of these."""

    op: Op
    lhs: Spread
    rhs: Spread


def scales_ahead(program: Program) -> Program:
    """The program whose loops carry products of scales."""
    uses = uses_of(program)
    found = {loop: products for loop in program.named("for") if (products := _products(uses, loop))}
    if not found:
        return program
    b = Builder(program.site)
    return replace(program, body=b.anew(program.body, found, lambda loop: _carrying(b, loop, found[loop])))


def _products(uses: Uses, loop: Op) -> list[_Product]:
    """The products in a loop's own body of two loads of the trip before, which nothing else takes."""
    loaded = {carry.argument for carry in loop_carries(loop) if carry.after is not None and not uses.of(carry.result)
              and (op := uses.definition.get(carry.after)) is not None and op.row.loads and op in loop.blocks[0].ops}
    found = []
    for op in loop.blocks[0].ops:
        if op.name != "fmul" or not isinstance(op.result.type, Tensor) or op.result.type.numel > MOST:
            continue
        lhs, rhs = spread(uses, op.lhs), spread(uses, op.rhs)
        if lhs.core is not rhs.core and {lhs.core, rhs.core} <= loaded and _is_alone(uses, op.lhs) and _is_alone(uses, op.rhs):
            found.append(_Product(op, lhs, rhs))
    return found


def _is_alone(uses: Uses, value: Value) -> bool:
    """True if nothing else takes a tile, nor what it is a spread of."""
    while len(uses.of(value)) == 1 and (op := uses.definition.get(value)) is not None and op.row.elements_of:
        value = op.value
    return len(uses.of(value)) == 1


def _carrying(b: Builder, loop: Op, products: list[_Product]) -> None:
    """The loop with the products in place of the loads among the values that go round. Its other ops are the same objects: who has
    remarks on them finds them again."""
    gone = {value for one in products for value in (one.lhs.core, one.rhs.core)}
    stay = [carry for carry in loop_carries(loop) if carry.argument not in gone]
    first, after = ({carry.argument: getattr(carry, name) for carry in loop_carries(loop)} for name in ("init", "after"))
    body, last = loop.blocks[0], terminator(loop.blocks[0])
    inits = (*(carry.init for carry in stay), *(_product(b, one, first) for one in products))
    outside, dropped, ops = b.open(), set(gone), {one.op for one in products}
    for op in body.ops:
        if op is last:
            b.emit("yield", ((*(carry.after for carry in stay), *(_product(b, one, after) for one in products)), ), op.site)
        elif op in ops:
            continue
        elif not dropped.isdisjoint(op.operands):       # a load that is spread for a product
            dropped.update(op.results)
        else:
            b.ops.append(op)
    block = Block((body.args[0], *(carry.argument for carry in stay), *(one.op.result for one in products)), b.close(outside))
    results = (*(carry.result for carry in stay), *(Value(one.op.result.type, one.op.result.name) for one in products))
    b.ops.append(Op("for", (*bounds(loop), inits), results, (block, ), loop.attrs, loop.site))


def _product(b: Builder, one: _Product, values: dict[Value, Value]) -> Value:
    """The product of other values of the two loads."""
    shape = one.op.result.type.shape
    sides = (in_shape(b, replace(side, core=values[side.core]), shape, one.op.site) for side in (one.lhs, one.rhs))
    return b.emit("fmul", tuple(sides), one.op.site)
