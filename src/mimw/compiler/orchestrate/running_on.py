"""Products that run on into the next trip of their loop, so that the tensor core always has one to go on with.

Input: products that wgmma does from slots, and the loads that it reads where they lie. Output: those of them that run on. For
example, of `for k: acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)`:

    running_on(uses, {dot}, {a.load, b.load})       {dot}: nothing but the next trip's product takes its sum
"""

from __future__ import annotations

from ...ir import Op
from ...ir.flow import induction
from ..analysis.uses import Uses
from .tiles_read import source


def running_on(uses: Uses, products: set[Op], direct: set[Op]) -> set[Op]:
    """Products that run on into the next trip: of loops whose products do nothing but add to what goes round. They end in the order
    in which they are issued. None that reads a tile of this trip from registers: the next trip writes these registers while the
    product still reads them, which PTX leaves undefined (PTX ISA, "wgmma.mma_async") and a GPU got wrong."""
    loops = dict.fromkeys(uses.place[dot].parent for dot in products)
    found: set[Op] = set()
    for loop in loops:
        if loop is not None and loop.name == "for":
            dots = {op for op in loop.walk() if "dot" in op.row.traits}
            if dots <= products and all(_only_adds(uses, loop, dot) and _stays(uses, loop, dot, direct) for dot in dots):
                found |= dots
    return found


def _stays(uses: Uses, loop: Op, dot: Op, direct: set[Op]) -> bool:
    """True if no trip of a loop writes registers from which a product reads A: it lies in a slot, or is made before the loop."""
    maker, _ = source(uses, dot.a)
    return maker in direct or maker is not None and loop not in uses.loops(uses.definition[dot.a])


def _only_adds(uses: Uses, loop: Op, dot: Op) -> bool:
    """True if a product adds to a number that the loop carries, itself or through other such products, and nothing else takes its
    result."""
    block = uses.place[dot].block
    if uses.place[dot].parent is not loop:
        return False
    first = dot
    while first.acc not in block.args:
        before = uses.definition.get(first.acc)
        if before is None or before.name != "dot" or uses.place[before].block is not block:
            return False
        first = before
    if first.acc is induction(loop) or len(uses.of(first.acc)) != 1 or len(uses.of(dot.result)) != 1:
        return False
    after = uses.of(dot.result)[0].op
    return block.yielded[block.args.index(first.acc) - 1] is dot.result or \
        after.name == "dot" and after.acc is dot.result and uses.place[after].block is block
