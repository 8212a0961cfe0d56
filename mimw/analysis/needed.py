"""Which values decide what a kernel does when: everything else can be left out where only time matters.

Loop bounds, branch conditions, phases, indices, offsets, predicates and whatever these are computed from are needed; the
tiles that a kernel is about mostly are not. What is needed but comes out of on-chip memory or a dot is only known by computing
everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import OPS, Barrier, Block, Buffer, DescriptorSlots, Op, Program, Site, Storage, Tensor, Token, Value
from ..ir.ops import is_pure

_LOADS = frozenset("load masked_load".split())
_CARRIERS = ("if", "for", "while")
_COMMUNICATION = frozenset("atomic_rmw atomic_cas atomic_load atomic_store atomic_poll".split())
_PLACES = (Barrier, Buffer, DescriptorSlots, Storage)


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


class _Search:
    def __init__(self, program: Program):
        self.program = program
        self.spins = any(op.name in _COMMUNICATION or op.name in _LOADS and op.args[-1] for op in program.walk())
        self.maker: dict[Value, Op] = {result: op for op in program.walk() for result in op.results}
        self.sources: dict[Value, list[Value]] = {}                  # of carried values: where they come from
        for op in program.walk():
            for target, source in _carried(op):
                self.sources.setdefault(target, []).append(source)

        # By the buffer array: ops that put values of the task into it, ops with results that read it, and whether anything
        # else fills it, a copy or another CTA, whose bytes only a full run knows.
        self.stores: dict[Value, list[Op]] = {}
        self.reads: dict[Value, list[Op]] = {}
        self.filled: set[Value] = set()
        for op in program.walk():
            row = OPS[op.name]
            for root in self.touched(op, row.writes):
                if row.stores_registers:
                    self.stores.setdefault(root, []).append(op)
                else:
                    self.filled.add(root)
            if op.results:
                for root in self.touched(op, row.reads):
                    self.reads.setdefault(root, []).append(op)

    def touched(self, op: Op, operands: tuple[str, ...]) -> set[Value]:
        """The arrays behind those of the op's operands that are buffers."""
        values = (op.args[OPS[op.name].params.index(name)] for name in operands)
        return {root for value in values if isinstance(getattr(value, "type", None), Buffer) for root in self.arrays(value)}

    def arrays(self, buffer: Value) -> set[Value]:
        """The arrays that a buffer may be a part of."""
        found, todo, seen = set(), [buffer], set()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            seen_through = self.seen_through(value)
            if seen_through is not None:
                todo.append(seen_through)
            elif value in self.sources:
                todo += self.sources[value]
            else:
                found.add(value)
        return found

    def seen_through(self, value: Value) -> Value | None:
        """What a view is a view of; None for anything else, an array with memory of its own among them."""
        op = self.maker.get(value)
        row = OPS[op.name] if op is not None else None
        if not row or not row.view_of:
            return None
        position = row.params.index(row.view_of)
        return op.args[position] if position < len(op.args) else None

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
            if op is not None and op.name not in _CARRIERS and op.name != "warp_specialize":
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
        users: dict[Value, list[Op]] = {}
        for op in self.program.walk():
            for value in op.operands:
                users.setdefault(value, []).append(op)
        flows: dict[Value, list[Value]] = {}
        for target, sources in self.sources.items():
            for source in sources:
                flows.setdefault(source, []).append(target)
        todo = list(found)
        while todo:
            value = todo.pop()
            reached = list(flows.get(value, ()))
            for op in users.get(value, ()):
                if OPS[op.name].stores_registers:
                    reached += [result for array in self.touched(op, OPS[op.name].writes) for read in self.reads.get(array, ())
                                for result in read.results]
                if op.name not in _CARRIERS:
                    reached += (result for result in op.results if not isinstance(result.type, _PLACES))
            new = [one for one in reached if one not in found]
            found.update(new)
            todo += new
        return found


def _is_data(op: Op) -> bool:
    """Whether no index arithmetic can stand in for the results: products, what copies bring, and what other CTAs hold."""
    row = OPS[op.name]
    return "dot" in row.traits or row.copy == "in" or bool(row.peers and row.reads)


def _carried(op: Op) -> Iterator[tuple[Value, Value]]:
    """(value inside or behind a region, value that becomes it)."""
    if op.name == "for":
        body: Block = op.blocks[0]
        yield from zip(body.args[1:], op.args[3])
        yield from zip(body.args[1:], body.yielded)
        yield from zip(op.results, op.args[3])
        yield from zip(op.results, body.yielded)
        yield body.args[0], op.args[0]
    elif op.name == "while":
        before, after = op.blocks
        given = before.ops[-1].args[1]
        yield from zip(before.args, op.args[0])
        yield from zip(before.args, after.yielded)
        yield from zip(after.args, given)
        yield from zip(op.results, given)
    elif op.name == "if":
        for block in op.blocks:
            yield from zip(op.results, block.yielded)
            yield from ((result, op.args[0]) for result in op.results)
