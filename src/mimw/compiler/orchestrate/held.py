"""Where a slot is given back that is read inside of loops: behind the last one of them, on each way through branches.

Input: a program, a load, and the products that read what it loads. Output: `Ends`. For example, of queries that a loop over tiles
loads, and that a loop over keys multiplies:

    for tile: q = load(..); if some: { for i: s = dot(q, k[i]) .. ; last product } else: ..

    ends(uses, load, products)      behind the loop over keys, before the last product; and where the other branch begins

So the next tile's queries are loaded while this one's last product and its stores are under way.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ...ir import Block, Op
from ..analysis.uses import Uses


@dataclass
class Ends:
    """`behind` are ops behind which the slot is given back: loops, and products themselves, behind the wait for them; `beginning`
    are blocks of branches in which nothing reads it."""

    behind: list[Op] = field(default_factory=list)
    beginning: list[Block] = field(default_factory=list)


def ends(uses: Uses, load: Op, products: Collection[Op]) -> Ends:
    """The ends of a slot's use, in the block of the load or in branches that stand in it: one on each way."""
    found = Ends()
    _in(uses.place[load].block, frozenset(products), found)
    return found


def _in(block: Block, products: frozenset[Op], found: Ends) -> None:
    last = next((op for op in reversed(block.ops) if not products.isdisjoint(op.walk())), None)
    if last is None:
        found.beginning.append(block)
    elif last.name == "if" and len(last.blocks) == 2:
        for inner in last.blocks:
            _in(inner, products, found)
    else:
        found.behind.append(last)
