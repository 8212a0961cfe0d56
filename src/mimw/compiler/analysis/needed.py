"""Values that decide the course of a kernel: a run that only measures time can leave out all other values.

Input: a program. Output: a `Needed` with the values that have to be computed, the stores that those values are read
from, and the branches and loop bounds that depend on the kernel's data. For example:

    for i in range(n):                     n, i, and what slot and phase are computed from: needed
        barrier_wait(full[i % 4], (i // 4) & 1)
        acc = tl.dot(a, b, acc)            the tiles a, b and acc: not needed

Loop bounds, branch conditions, phases, indices, offsets and predicates are needed, with every value that they are
computed from; the tiles that a kernel is about mostly are not. A tile that is stored into an argument is needed where the
kernel loads such values from that argument, as the counts of tokens that one GPU sends to another. A needed value that comes out of
a product, out of a copy or from another CTA cannot be known without computing everything: a branch on it is listed in
`unknown`, a loop bounded by it in `bounds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir import Op, Program, Site, Tensor, Token, Value
from ...ir.flow import bounds
from ...ir.ops import is_pure
from .flows import Flows
from .global_arrays import GlobalArrays


@dataclass(frozen=True)
class Needed:
    """The parts of a program that decide its course: `values` have to be computed, and the stores in `stores`, into shared
    memory or of tiles into global memory, have to be made; `unknown` are the branches that depend on data, `bounds` the sites
    of loops whose bounds do."""

    values: frozenset[Value]
    stores: frozenset[Op]
    unknown: frozenset[Op]
    bounds: tuple[Site, ...]
    tainted: frozenset[Value] = frozenset()     # that depend on data which is not computed


def needed(program: Program) -> Needed:
    """The values of a program that decide its course, found by going back from conditions, indices and predicates."""
    return _Search(program).result()


class _Search(Flows):
    def __init__(self, program: Program):
        super().__init__(program)
        self.spins = any(_communicates(op) or op.row.loads and op.is_volatile for op in program.walk())
        self.global_arrays = GlobalArrays(program)

    def result(self) -> Needed:
        tainted = self.tainted()
        told = self.told(tainted)
        unknown, bounds, roots = set(), [], []
        for op in self.program.walk():
            wanted = list(self.roots(op))
            if "branch" in op.row.traits and wanted[0] in tainted:
                unknown.add(op)
                continue
            if _communicates(op) and not tainted.isdisjoint(wanted):
                continue                        # the sum of a product: it is not there to be added
            if "descriptor" in op.row.places and "offsets" in op.row.places:      # a box takes as long wherever data puts it
                wanted = [value for value in wanted if value not in tainted or value not in op.offsets]
            if op.row.hands_over and any(value in tainted for value in wanted):
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
            if op is not None and not op.row.hands_on:
                roots += op.operands
                for store in (*self.stores_behind(op), *self.stores_told(op, told)):
                    stores.add(store)
                    roots += store.operands
                roots += [yielded for block in op.blocks for yielded in block.yielded]
        return Needed(frozenset(found), frozenset(stores), frozenset(unknown), tuple(bounds), frozenset(tainted))

    def stores_behind(self, op: Op) -> list[Op]:
        """The ops that store what `op` may read."""
        return [store for array in self.touched(op, op.row.reads) for store in self.stores.get(array, ())]

    def told(self, tainted: set[Value]) -> dict[Value, list[Op]]:
        """The ops that store tiles into each argument and do not depend on data."""
        found: dict[Value, list[Op]] = {}
        for op in self.program.walk():
            if _stores_a_tile(op) and tainted.isdisjoint(op.operands):
                for array in self.global_arrays.behind(op.pointer):
                    found.setdefault(array, []).append(op)
        return found

    def stores_told(self, op: Op, told: dict[Value, list[Op]]) -> list[Op]:
        """The stores in `told` of data that `op` may load."""
        if not op.row.loads or "pointer" not in op.row.places:
            return []
        return [store for array in self.global_arrays.behind(op.pointer) for store in told.get(array, ())]

    def roots(self, op: Op) -> Iterator[Value]:
        """Operands that decide something by themselves."""
        row = op.row
        if "observer" in row.traits or op.name == "yield":
            return
        if op.name == "for":
            yield from bounds(op)
        elif "condition" in row.places and row.hands_over:      # an `if`, and the end of a `while`'s first block
            yield op.condition
        elif op.name == "peer_pointer":
            yield op.gpu        # over which link
        elif _communicates(op) or self.spins and (row.loads or row.stores) and not any(
                isinstance(value.type, Tensor) for value in op.operands):
            yield from op.operands
        elif not (is_pure(op.name) or row.hands_on or row.loads or row.stores):
            yield from (value for value in op.operands if not isinstance(value.type, (Tensor, Token)))

    def tainted(self) -> set[Value]:
        """Values that depend on data."""
        found = {result for op in self.program.walk() if _is_data(op) for result in op.results}
        found.update(result for array in self.filled for op in self.reads.get(array, ()) for result in op.results)
        return self.reached(found)


def _is_data(op: Op) -> bool:
    """True if index arithmetic cannot give the results of `op`: products, data that copies bring, and memory of other CTAs."""
    row = op.row
    return not row.traits.isdisjoint(("dot", "declared")) or row.copy == "in" or bool(row.peers and row.reads)


def _stores_a_tile(op: Op) -> bool:
    """True if `op` stores a whole tile through pointers at once."""
    row = op.row
    return bool(row.stores and not row.loads and "pointer" in row.places and "atomic" not in row.traits
                and isinstance(op.value.type, Tensor))


def _communicates(op: Op) -> bool:
    """True of the atomic ops through pointers into global memory, where another CTA may look."""
    return "atomic" in op.row.traits and "pointer" in op.row.places
