"""The IR itself: values, ops, blocks, programs. Everything here is immutable once made.

A program is one kernel. Helpers are inlined while it is recorded, so there are no calls; control flow is structured
(`if`, `for`, `while`), so there are no branches. An op with regions lists its blocks in `blocks`; the last op of a block
that gives values to its parent is a `yield`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

from .site import UNKNOWN, Site
from .types import Type


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
        """What the block gives to its parent op."""
        return self.ops[-1].operands if self.ops and self.ops[-1].name == "yield" else ()


@dataclass(frozen=True, eq=False)
class Op:
    """One operation.

    `args` are in the order of the op's definition (`ops.OPS[name].params`): values, None, tuples of values, and plain
    constants such as ints, types or Triton's enums. `attrs` is what orchestration ops say about themselves by name.
    """

    name: str
    args: tuple[Any, ...] = ()
    results: tuple[Value, ...] = ()
    blocks: tuple[Block, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    site: Site = UNKNOWN

    @property
    def operands(self) -> tuple[Value, ...]:
        """Every value among the arguments, in order."""
        return tuple(_values(self.args))

    @property
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


@dataclass(frozen=True)
class Task:
    """What one region of a `warp_specialize` op runs on.

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
    """One kernel: its run-time parameters, its body, the warps of its default task, and the cluster it is launched in.

    `uses_words` is true if a word of ours was called, also one that left no op (`size_of`, a region with one task).
    `suspend_ns` is how long a barrier wait may put a thread to sleep before it looks again, a hint; 0 gives none.
    """

    name: str
    params: tuple[Param, ...]
    body: Block
    num_warps: int
    site: Site = UNKNOWN
    uses_words: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    suspend_ns: int = 0

    @property
    def cluster_size(self) -> int:
        """CTAs in a cluster."""
        return prod(self.cluster)

    def walk(self) -> Iterator[Op]:
        """Every op of the kernel in program order, parents before their regions."""
        for op in self.body.ops:
            yield from op.walk()

    def orchestrates(self) -> bool:
        """True if Triton's own path cannot compile it: a word was called, or an op is one of ours."""
        from .ops import OPS
        return self.uses_words or any(OPS[op.name].ours for op in self.walk())


def _values(args) -> Iterator[Value]:
    for arg in args:
        if isinstance(arg, Value):
            yield arg
        elif isinstance(arg, tuple):
            yield from _values(arg)
