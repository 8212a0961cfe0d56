"""Where the tiles of loads are read: by products that the tensor core does from slots of a pipe, or from registers.

Input: a plain program, its loads, and a `Plan`. Output: products and loads. For example, of `x = a.load(..); y = b.load(..); acc =
tl.dot(x, tl.trans(y), acc)`:

    direct_reads(program, uses, [x, y], plan)       ({dot}, {x, y}): wgmma reads both where they lie, y turned
"""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import LayoutConflict
from ...ir import Op, Program, Value
from ..analysis.uses import Uses
from ..constraints.wgmma import accumulator_layout
from .plan import Plan


def reached(uses: Uses, value: Value) -> Iterator[Op]:
    """The ops that take a tile, as it is, transposed, or without axes of one element."""
    for use in uses.of(value):
        if turns_over(use.op) or flattens(use.op):
            yield from reached(uses, use.op.result)
        else:
            yield use.op


def turns_over(op: Op) -> bool:
    return op.name == "trans" and tuple(op.order) == (1, 0)


def flattens(op: Op) -> bool:
    """True if an op leaves out axes of one element in front of a tile: `[1, 128, 64]` as `[128, 64]`, which are the same bytes."""
    if op.name != "reshape":
        return False
    shape, whole = op.result.type.shape, op.value.type.shape
    return len(shape) < len(whole) and whole == (1, ) * (len(whole) - len(shape)) + shape


def source(uses: Uses, value: Value) -> tuple[Op | None, bool]:
    """The op behind a tile, and whether the tile is turned."""
    op, turned = uses.definition.get(value), False
    while op is not None and (turns_over(op) or flattens(op)):
        op, turned = uses.definition.get(op.value), turned != turns_over(op)
    return op, turned


def direct_reads(program: Program, uses: Uses, loads: list[Op], plan: Plan) -> tuple[set[Op], set[Op]]:
    """(products that the tensor core does from slots, loads that are read by such products alone)."""
    warps = plan.warps_of(program.num_warps)
    products = {op for op in program.named("dot") if _suits(uses, op, warps, plan.parts)}
    direct = set(loads)
    while True:
        before = len(products), len(direct)
        products = {op for op in products if source(uses, op.b)[0] in direct}
        direct = {load for load in direct if all(
            use in products and (uses.place[use].block is uses.place[load].block or _inside(uses, use, load))
            for use in reached(uses, load.result))}
        if before == (len(products), len(direct)):
            return products, direct


def _inside(uses: Uses, use: Op, load: Op) -> bool:
    """True if an op stands in a loop or a branch of the block of a load."""
    return uses.place[load].parent is None or uses.place[load].parent in uses.parents(use)


def _suits(uses: Uses, dot: Op, warps: int, parts: int) -> bool:
    """True if wgmma takes B from shared memory: types of 16 bits, or 8 bits, of which A and B lie along K, and whole
    warpgroups of 64 rows."""
    a, b, acc = dot.a.type, dot.b.type, dot.acc.type
    if len(a.shape) != 2 or a.element != b.element or acc.element.name != "fp32" or acc.shape[0] % parts:
        return False
    try:
        accumulator_layout(type(acc)(acc.element, (acc.shape[0] // parts, acc.shape[1])), a.element, a.shape[1], warps, dot.site)
    except LayoutConflict:
        return False
    return a.element.bits == 16 or a.element.bits == 8 and source(uses, dot.b)[1] and not source(uses, dot.a)[1]
