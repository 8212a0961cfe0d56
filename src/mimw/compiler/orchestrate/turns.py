"""Turns of consumers at the tensor cores: who starts products, while the others compute.

Input: a program and the products that are started without a wait. Output: `Turns`: in front of which ops a turn begins, and behind
which it is passed on. For example, of attention's loop with its second product a trip later:

    for i: s = dot(q, k[i]); acc = dot(p, v[i - 1], acc); p = softmax(s)        a turn: both products, and no exponents

A turn is a named barrier of each consumer: it waits there until the one before it has passed the turn on, by arriving. The last
consumer opens the first one's. All consumers go round the same loops as often as each other: how often follows from numbers, and a
number is the same in all of them (`analysis/shared_rows.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...ir import Block, Builder, Op, Program, Site
from ..analysis.uses import uses_of

FIRST_BARRIER = 8       # named barriers from here on, one a consumer; those below are Triton's
WARP = 32


@dataclass(frozen=True)
class Turns:
    """A turn begins in front of each of `begins`, and is passed on behind each of `ends`."""

    begins: frozenset[Op] = frozenset()
    ends: frozenset[Op] = frozenset()


def turns_at_products(program: Program, products: Collection[Op]) -> Turns:
    """A turn for the products of a trip, in each loop that starts two or more of them one after the other."""
    begins, ends = set(), set()
    for op in program.walk():
        for block in op.blocks if op.name == "for" else ():
            run = _together(program, block, products)
            if len(run) > 1:
                begins.add(run[0])
                ends.add(run[-1])
    return Turns(frozenset(begins), frozenset(ends))


def _together(program: Program, block: Block, products: Collection[Op]) -> list[Op]:
    """The first products of a block that are started without a wait in between, as nothing takes there what one of them gives."""
    definition, run = uses_of(program).definition, []
    for op in block.ops:
        waits = bool(op.row.hands_on) or any(definition.get(value) in run for value in op.operands)
        if run and waits:
            break
        if op in products:
            run.append(op)
    return run


class Turn:
    """Writes the turns of consumer number `me` of `count`, each of so many warps."""

    def __init__(self, writer: Builder, me: int, count: int, warps: int):
        self.writer, self.me, self.count, self.threads = writer, me, count, 2 * WARP * warps

    def open(self, site: Site) -> None:
        """Once, in front of all turns: the first consumer may begin."""
        if self.me == self.count - 1:
            self._word("named_barrier_arrive", 0, site)

    def begin(self, site: Site) -> None:
        """Wait until the consumer before this one has passed the turn on."""
        self._word("named_barrier_wait", self.me, site)

    def end(self, site: Site) -> None:
        """The consumer after this one may begin."""
        self._word("named_barrier_arrive", (self.me + 1) % self.count, site)

    def _word(self, name: str, consumer: int, site: Site) -> None:
        self.writer.emit(name, (FIRST_BARRIER + consumer, self.threads), site)
