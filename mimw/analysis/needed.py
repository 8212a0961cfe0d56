"""Which values decide what a kernel does when: everything else can be left out where only time matters.

Loop bounds, branch conditions, phases, indices, offsets, predicates and whatever these are computed from are needed; the
tiles that a kernel is about mostly are not. What is needed but comes out of on-chip memory or a dot is only known by computing
everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import OPS, Block, Buffer, Op, Program, Site, Tensor, Token, Value
from ..ir.ops import is_pure

# Their results are data that no index arithmetic can stand in for; so is what copies and other CTAs put into a buffer. A buffer
# that tasks fill from registers, with the number of the next tile for instance, is as good as its values.
_DATA = frozenset("local_gather async_dot async_dot_wait dot dot_scaled descriptor_load descriptor_gather".split())
_FILLS = frozenset("tma_load tma_load_multicast bulk_load async_load local_scatter remote_store async_remote_store "
                   "async_remote_copy".split())
_VIEWS = frozenset("buffer_index buffer_slice buffer_trans buffer_reinterpret".split())
_LOADS = frozenset("load masked_load".split())
_OBSERVERS = frozenset("print assert assume hint assert_same_layout dump_layout".split())
_CARRIERS = ("if", "for", "while")
_COMMUNICATION = frozenset("atomic_rmw atomic_cas atomic_load atomic_store atomic_poll".split())


@dataclass(frozen=True)
class Needed:
    """`values` have to be computed; `unknown` are sites of branches that depend on data, `bounds` those of loops that do."""

    values: frozenset[Value]
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

        self.stores: dict[Value, list[Op]] = {}                      # by the buffer array
        self.local_loads: dict[Value, list[Op]] = {}
        self.filled: set[Value] = set()
        for op in program.walk():
            for kind, of in (("local_store", self.stores), ("local_load", self.local_loads)):
                if op.name == kind:
                    for root in self.arrays(op.args[0]):
                        of.setdefault(root, []).append(op)
            if op.name in _FILLS:
                self.filled.update(root for value in op.operands if isinstance(value.type, Buffer) for root in self.arrays(value))

    def arrays(self, buffer: Value) -> set[Value]:
        """The arrays that a buffer may be a part of."""
        found, todo, seen = set(), [buffer], set()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            op = self.maker.get(value)
            if op is not None and op.name in _VIEWS:
                todo.append(op.args[0])
            elif value in self.sources:
                todo += self.sources[value]
            else:
                found.add(value)
        return found

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
        while roots:
            value = roots.pop()
            if value in found:
                continue
            found.add(value)
            roots += self.sources.get(value, ())
            op = self.maker.get(value)
            if op is not None and op.name not in _CARRIERS and op.name != "warp_specialize":
                roots += op.operands
                if op.name == "local_load":
                    roots += [tile for array in self.arrays(op.args[0]) for store in self.stores.get(array, ())
                              for tile in store.args[1:]]
                roots += [yielded for block in op.blocks for yielded in block.yielded]
        return Needed(frozenset(found), frozenset(unknown), tuple(bounds))

    def roots(self, op: Op) -> Iterator[Value]:
        """Operands that decide something by themselves."""
        if op.name in _OBSERVERS or op.name == "yield":
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
        found = {result for op in self.program.walk() if op.name in _DATA for result in op.results}
        found.update(load.result for array in self.filled for load in self.local_loads.get(array, ()))
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
                if op.name == "local_store":
                    reached += [load.result for array in self.arrays(op.args[0]) for load in self.local_loads.get(array, ())]
                elif op.name not in _CARRIERS and not _is_place(op):
                    reached += op.results
            new = [one for one in reached if one not in found]
            found.update(new)
            todo += new
        return found


def _is_place(op: Op) -> bool:
    """Views and barriers: their results are places, not data."""
    return OPS[op.name].ours and op.name.startswith(("buffer_", "barrier_", "alloc", "local_alloc"))


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
