"""Tools that the ops of `scf` share: blocks that statements go into, regions and what they yield, values of a type around
handles.

Input: statements of a raw body. Output: a `Region` with what it has handed on, and blocks of the recorder. For example:

    with ir.InsertionPoint(if_op.then_block): ..        If.run(block, statements, assign)
    run(body, statements, "this scf.for_")              walks them, and keeps what they yield
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import triton.language.core as tl

from .dialect import op
from .threads import I1
from .types import Type, dtype_of
from .values import Number, Region


class Block:
    """A block that `ir.InsertionPoint` can stand in: `run` records statements as its body."""

    def __init__(self, owner: Any, role: str):
        self.owner, self.role, self.arguments = owner, role, ()


class Blocks:
    """The region of an op, to which the author appends a block."""

    def __init__(self, block: Block):
        self._block = block

    @property
    def blocks(self) -> Blocks:
        return self

    def append(self, *types: Type, **locations) -> Block:
        return self._block

    def __getitem__(self, index: int) -> Block:
        return (self._block, )[index]


class InsertionPoint:
    """`with ir.InsertionPoint(block):` what follows goes into the block."""

    def __init__(self, block: Block):
        self.block = block

    @classmethod
    def at_block_begin(cls, block: Block) -> InsertionPoint:
        return cls(block)

    at_block_terminator = at_block_begin


class Structured:
    """An op with regions. `results` are known once all its regions are."""

    what = "op"
    _results: tuple[Number, ...] | None = None

    def __init__(self, walker):
        self.walker, self.threads, self.region = walker, walker.threads, walker.threads.regions[-1]

    @property
    def results(self) -> tuple[Number, ...]:
        if self._results is None:
            self.walker.fail(f"the results of {self.what} are asked for before its regions are all there")
        return self._results

    @property
    def result(self) -> Number:
        if len(self.results) != 1:
            self.walker.fail(f"{self.what} has {len(self.results)} results, not one")
        return self.results[0]

    def finish(self) -> None:
        """Called where the block around the op ends."""


def run(body, statements: list[ast.stmt], what: str, assign: Callable[[], None] | None = None) -> Region:
    """Walk the statements of a region, after `assign` has bound names in it. Returns the region with the values that it
    yields."""
    with body.threads.inside(Region(what)) as region:
        if assign is not None:
            assign()
        body.block(statements)
    return region


def yielded(body, region: Region, count: int, what: str) -> list[Number]:
    """The `count` values that the region yields."""
    values = list(region.yielded or ())
    if len(values) != count:
        body.fail(f"{what} yields {len(values)} values, and {count} are wanted", "end the region with scf.yield_([..])")
    return values


def recorded(threads, type_: Type, lanes: bool, like: Number | None = None):
    """The recorder's type of a value."""
    dtype = like.tensor.dtype if like is not None else dtype_of(type_)
    return (tl.block_type(dtype, [threads.width]) if lanes else dtype).to_ir(threads.builder)


def around(threads, handle, like: Number, lanes: bool) -> Number:
    """A value of the type of another one around a handle."""
    dtype = like.tensor.dtype
    return threads.value(tl.tensor(handle, tl.block_type(dtype, [threads.width]) if lanes else dtype), like.type, like.pointee)


def loop(threads, inits: list[Number], first, second):
    """A `while` of the recorder with these blocks, whose results are of the types of `inits`."""
    made = threads.builder.create_while_op([], [init.handle for init in inits])
    made.get_before().push_back(first)
    made.get_after().push_back(second)
    return made


@op("scf", "yield_", classes=("YieldOp", ))
def yield_(body, results_=(), results=None):
    """Set the values that the region yields; its last statement."""
    values = results if results is not None else results_
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    body.threads.regions[-1].yielded = [body.threads.number(value, None, "scf.yield_: a value") for value in values]


@op("scf")
def condition(body, condition, args_=(), args=None):
    """End the first region of an scf.while_: the flag for one more trip, and the values for the second region, or for the op."""
    values = args if args is not None else args_
    threads = body.threads
    flags = threads.number(condition, I1, "scf.condition: the condition")
    if flags.type != I1:
        body.fail(f"scf.condition: the condition must be an i1, got {flags.type}")
    threads.regions[-1].condition = flags
    threads.regions[-1].yielded = [threads.number(value, None, "scf.condition: a value") for value in values]
