"""Which values decide what a kernel does when: everything else can be left out where only time matters.

Loop bounds, branch conditions, phases, indices, offsets, predicates and whatever these are computed from are needed; the
tiles that a kernel is about mostly are not. What is needed but comes out of on-chip memory or a dot is only known by computing
everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import OPS, Op, Program, Site, Tensor, Token, Value
from ..ir.ops import is_pure
from .flows import CARRIERS, Flows

_LOADS = frozenset("load masked_load".split())
_COMMUNICATION = frozenset("atomic_rmw atomic_cas atomic_load atomic_store atomic_poll".split())


@dataclass(frozen=True)
class Needed:
    """`values` have to be computed, and what the ops in `stores` write into shared memory be there; `unknown` are the branches that
    depend on data, `bounds` the sites of loops that do."""

    values: frozenset[Value]
    stores: frozenset[Op]
    unknown: frozenset[Op]
    bounds: tuple[Site, ...]


def needed(program: Program) -> Needed:
    """The values of a program that decide its course, found by going back from conditions, indices and predicates."""
    return _Search(program).result()


class _Search(Flows):
    def __init__(self, program: Program):
        super().__init__(program)
        self.spins = any(op.name in _COMMUNICATION or op.name in _LOADS and op.args[-1] for op in program.walk())

    def result(self) -> Needed:
        tainted = self.tainted()
        unknown, bounds, roots = set(), [], []
        for op in self.program.walk():
            wanted = list(self.roots(op))
            if op.name == "if" and wanted[0] in tainted:
                unknown.add(op)
                continue
            if op.name in ("for", "condition") and any(value in tainted for value in wanted):
                bounds.append(op.site)
            roots += wanted
        found: set[Value] = set()
        stores: set[Op] = set()
        while roots:
            value = roots.pop()
            if value in found:
                continue
            found.add(value)
            roots += self.sources.get(value, ())
            op = self.maker.get(value)
            if op is not None and op.name not in CARRIERS and op.name != "warp_specialize":
                roots += op.operands
                for store in self.stores_behind(op):
                    stores.add(store)
                    roots += store.operands
                roots += [yielded for block in op.blocks for yielded in block.yielded]
        return Needed(frozenset(found), frozenset(stores), frozenset(unknown), tuple(bounds))

    def stores_behind(self, op: Op) -> list[Op]:
        """The ops that store what `op` may read."""
        return [store for array in self.touched(op, OPS[op.name].reads) for store in self.stores.get(array, ())]

    def roots(self, op: Op) -> Iterator[Value]:
        """Operands that decide something by themselves."""
        if "observer" in OPS[op.name].traits or op.name == "yield":
            return
        if op.name == "if":
            yield op.args[0]
        elif op.name == "for":
            yield from op.args[:3]
        elif op.name == "condition":
            yield op.args[0]
        elif op.name in _COMMUNICATION or self.spins and op.name in ("store", "masked_store", *_LOADS) and not any(
                isinstance(value.type, Tensor) for value in op.operands):
            yield from op.operands
        elif not is_pure(op.name) and op.name not in ("while", "warp_specialize", "store", "masked_store", *_LOADS):
            yield from (value for value in op.operands if not isinstance(value.type, (Tensor, Token)))

    def tainted(self) -> set[Value]:
        """Values that depend on data."""
        found = {result for op in self.program.walk() if _is_data(op) for result in op.results}
        found.update(result for array in self.filled for op in self.reads.get(array, ()) for result in op.results)
        return self.reached(found)


def _is_data(op: Op) -> bool:
    """Whether no index arithmetic can stand in for the results: products, what copies bring, and what other CTAs hold."""
    row = OPS[op.name]
    return "dot" in row.traits or row.copy == "in" or bool(row.peers and row.reads)
