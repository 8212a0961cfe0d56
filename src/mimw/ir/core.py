"""The IR itself: values, ops, blocks, programs. Everything here is immutable once made.

Input: what a recorder, a parser or a pass puts together. Output: a `Program`, which is one kernel. For example:

    op = Op("barrier_wait", (full, phase))
    op.barrier, op.row.barrier, op.with_operands(phase=other)       %full, "wait", the same wait for another phase

Helpers are inlined while a kernel is recorded, so there are no calls; control flow is structured (`if`, `for`,
`while`), so there are no branches. An op with regions lists its blocks in `blocks`; the last op of a block that gives
values to its parent is a terminator (`ir.flow` says what becomes of these values).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_
from types import MappingProxyType
from typing import Any, TypeVar

from .launch_facts import LaunchFacts
from .ops import OPS, OpDef
from .site import UNKNOWN, Site
from .types import Type

Answer = TypeVar("Answer")


class Value:
    """One SSA value. Two values are the same only if they are the same object; `name` is the user's name, a hint."""

    __slots__ = ("type", "name", "number")

    def __init__(self, type: Type, name: str = "", number: int = -1):
        self.type, self.name, self.number = type, name, number

    def __repr__(self) -> str:
        return f"%{self.name}.{self.number}" if self.name else f"%{self.number}"


@dataclass(frozen=True, eq=False)
class Block:
    """A straight line of ops with its own arguments."""

    args: tuple[Value, ...]
    ops: tuple[Op, ...]

    @property
    def yielded(self) -> tuple[Value, ...]:
        """The values that the block gives to its parent op."""
        return self.ops[-1].operands if self.ops and self.ops[-1].name == "yield" else ()

    def with_ops(self, ops: Iterable[Op]) -> Block:
        """The block with these ops; the same object if they are the block's own, so that facts known of a block stay known."""
        ops = tuple(ops)
        return self if len(ops) == len(self.ops) and all(map(is_, ops, self.ops)) else replace(self, ops=ops)


@dataclass(frozen=True, eq=False)
class Op:
    """One operation.

    `args` are in the order of the op's definition (`ops.OPS[name].params`): values, None, tuples of values, and plain
    constants such as ints, types or Triton's enums. `attrs` is what orchestration ops say about themselves by name.
    An operand is read by the name that the op's row gives it: `op.barrier` of a `barrier_wait` is `op.args[0]`, and None where
    the recorder left an optional operand out.
    """

    name: str
    args: tuple[Any, ...] = ()
    results: tuple[Value, ...] = ()
    blocks: tuple[Block, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    site: Site = UNKNOWN

    def __getattr__(self, operand: str) -> Any:
        """The operand of that name. Python asks here once an op: then the operand stands among the op's attributes."""
        row = OPS.get(self.__dict__.get("name"))
        place = row.places.get(operand) if row else None
        if place is None:
            raise AttributeError(f"{self.__dict__.get('name', 'an op')} has no operand {operand!r}"
                                 f"{'; there are ' + ', '.join(row.params) if row else ''}")
        found = self.__dict__[operand] = self.args[place] if place < len(self.args) else None
        return found

    def with_operands(self, **changed: Any) -> Op:
        """The op with other operands, by their names: `op.with_operands(buffer=view)`. The results stay, and so do their types."""
        names, args = self.row.params, list(self.args)
        for name, value in changed.items():
            if name not in self.row.places:
                raise AttributeError(f"{self.name} has no operand {name!r}; there are {', '.join(names)}")
            place = self.row.places[name]
            args += [None] * (place + 1 - len(args))
            args[place] = value
        return replace(self, args=tuple(args))

    def with_attrs(self, **changed: Any) -> Op:
        """The op with these attributes besides, or instead of, those that it has."""
        return replace(self, attrs=MappingProxyType({**self.attrs, **changed}))

    def with_blocks(self, change: Callable[[Block], Block]) -> Op:
        """The op with `change` of each of its blocks; the same object where none changes."""
        if not self.blocks:
            return self
        blocks = tuple(map(change, self.blocks))
        return self if all(new is old for new, old in zip(blocks, self.blocks)) else replace(self, blocks=blocks)

    @property
    def viewed(self) -> Value | None:
        """The value of which the result is a view; None for an op that is no view, and for an array with memory of its own."""
        return getattr(self, self.row.view_of) if self.row.view_of else None

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle: without an op's row, which has functions in it and is found again by the op's name."""
        return {name: value for name, value in self.__dict__.items() if name != "row"}

    @cached_property
    def row(self) -> OpDef:
        """The row of the op table for ops of this name."""
        return OPS[self.name]

    @cached_property
    def operands(self) -> tuple[Value, ...]:
        """Every value among the arguments, in order."""
        return tuple(_values(self.args))

    def index_of(self, operand: str) -> int:
        """The index in `operands` of the operand of that name; for a tuple, of its first value."""
        return sum(1 for _ in _values(self.args[:self.row.places[operand]]))

    @cached_property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def walk(self) -> Iterator[Op]:
        """This op, then every op inside it, in program order."""
        yield self
        for block in self.blocks:
            for op in block.ops:
                yield from op.walk()


Names = Mapping[tuple[str, Site | None], Mapping[str, tuple[Value | bool | int | float | str, ...]]]


@dataclass(frozen=True)
class Task:
    """The warps that run one region of a `warp_specialize` op.

    `registers` is the author's request per thread, or None. `replica` counts the copies of one `async_task` block.
    """

    name: str
    num_warps: int
    is_default: bool = False
    registers: int | None = None
    replica: int = 0
    replicas: int = 1
    site: Site = UNKNOWN


@dataclass(frozen=True)
class Param:
    """A run-time argument. `path` is its place in the Python signature; `attrs` what specialisation knows of it."""

    value: Value
    name: str
    path: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """One kernel: its run-time parameters, its body, the warps of its default task, and its requests to the launch.

    `uses_words` is true if a word of ours was called, also one that left no op (`size_of`, a region with one task). `names` has,
    by function and the call that led there, the values and constants that each name of the author's meant; passes may have
    replaced some.
    """

    name: str
    params: tuple[Param, ...]
    body: Block
    num_warps: int
    site: Site = UNKNOWN
    uses_words: bool = False
    launch_facts: LaunchFacts = LaunchFacts()
    names: Names = field(default_factory=lambda: MappingProxyType({}), repr=False)

    @property
    def cluster(self) -> tuple[int, int, int]:
        """The shape of the launch's clusters in CTAs, x first."""
        return self.launch_facts.cluster

    @property
    def cluster_size(self) -> int:
        """CTAs in a cluster."""
        return self.launch_facts.cluster_size

    @property
    def cooperative(self) -> bool:
        """True if all CTAs of the launch have to run at the same time."""
        return bool(self.named("grid_barrier"))

    @cached_property
    def in_pairs(self) -> bool:
        """True if the tensor cores of pairs of CTAs work together: then all use of tensor memory is a pair's (PTX ISA: the tcgen05
        instructions of a kernel have one .cta_group)."""
        return bool(self.where(lambda row: "pairs" in row.traits))

    def named(self, name: str) -> tuple[Op, ...]:
        """The ops of that name in program order, by an index that is made once for a program."""
        return self._by_name.get(name, ())

    def where(self, asks: Callable[[OpDef], Any]) -> tuple[Op, ...]:
        """The ops whose row in the op table answers `asks` with yes, in program order. Each row is asked once, however many ops
        have it: a pass that looks for ops which the program does not have costs microseconds."""
        found = [ops for name, ops in self._by_name.items() if asks(OPS[name])]
        if len(found) < 2:
            return found[0] if found else ()
        names = {ops[0].name for ops in found}
        return tuple(op for op in self._ops if op.name in names)

    def walk(self) -> Iterator[Op]:
        """Every op of the kernel in program order, parents before their regions."""
        return iter(self._ops)

    def kept(self, make: Callable[[Program], Answer]) -> Answer:
        """`make(self)`, made at the first request: a program never changes, so neither does a fact about it.
        Callers must not change the result."""
        if make not in self._answers:
            self._answers[make] = make(self)
        return self._answers[make]

    @cached_property
    def _ops(self) -> tuple[Op, ...]:
        ops: list[Op] = []

        def look(block: Block) -> None:
            for op in block.ops:
                ops.append(op)
                for inner in op.blocks:
                    look(inner)

        look(self.body)
        return tuple(ops)

    @cached_property
    def _by_name(self) -> dict[str, tuple[Op, ...]]:
        found: dict[str, list[Op]] = {}
        for op in self._ops:
            found.setdefault(op.name, []).append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    @cached_property
    def _answers(self) -> dict[Callable, Any]:
        return {}

    def orchestrates(self) -> bool:
        """True if Triton's own path cannot compile it: a word was called, or an op is one of ours."""
        return self.uses_words or bool(self.where(lambda row: row.ours))


def _values(args) -> Iterator[Value]:
    for arg in args:
        if isinstance(arg, Value):
            yield arg
        elif isinstance(arg, tuple):
            yield from _values(arg)
