"""Builds programs op by op: for passes that write blocks anew, and for tests that write kernels by hand.

Input: names of ops and their arguments. Output: ops in the block that is open, and a `Program` at the end. An example:

    b = Builder(Site("kernel.py", 1))
    n = b.param("n", I32)
    loop = b.place("for", n, n, n, ())                  an op with regions stands where it is placed ..
    with b.inside(loop, (I32, )) as (i, ):              .. and each block that is filled is its next one
        b.emit("add", (i, n), label="sum")
        b.emit("yield", ((), ))
    program = b.program("kernel", num_warps=4)

A pass takes the blocks only (`open`, `close`), copies what it keeps (`copy`), and notes in `env` what the values of the old program
are in the new one, where that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

from .core import Block, Op, Param, Program, Value
from .launch_facts import LaunchFacts
from .ops import OPS, result_types
from .site import UNKNOWN, Site
from .types import I32, Tensor, Type, element_of, like


class Placed:
    """An op whose regions are still to be filled. Its results may be used at once."""

    def __init__(self, op: Op):
        self.op, self.blocks = op, []

    @property
    def results(self) -> tuple[Value, ...]:
        return self.op.results

    def finished(self) -> Op:
        return replace(self.op, blocks=tuple(Block(args, _finished(ops)) for args, ops in self.blocks))


class Builder:
    """Collects ops in `ops`, the block that is open. `site` is where ops come from that name no other."""

    def __init__(self, site: Site = UNKNOWN):
        self.ops: list[Op | Placed] = []
        self.params: list[Param] = []
        self.env: dict[Value, Value] = {}
        self.site = site

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def open(self) -> list[Op | Placed]:
        """Start a block; give the result to `close`."""
        outside, self.ops = self.ops, []
        return outside

    def close(self, outside: list[Op | Placed]) -> tuple[Op, ...]:
        """End the block; its ops."""
        ops, self.ops = _finished(self.ops), outside
        return ops

    def anew(self, block: Block, changes: Container[Op], change: Callable[[Op], object]) -> Block:
        """The block with what `change` writes in place of each op of `changes`, wherever it stands; else as it is."""
        outside = self.open()
        for op in block.ops:
            if op in changes:
                change(op)
            else:
                self.ops.append(op.with_blocks(lambda inner: self.anew(inner, changes, change)))
        return block.with_ops(self.close(outside))

    @contextmanager
    def inside(self, placed: Placed, types: tuple[Type, ...] = ()) -> Iterator[tuple[Value, ...]]:
        """Write the next region of an op; gives its block's arguments."""
        args, outside = tuple(Value(type_) for type_ in types), self.open()
        placed.blocks.append((args, self.ops))
        yield args
        self.ops = outside

    # ---- ops --------------------------------------------------------------------------------------------------------

    def emit(self, name: str, args: tuple, site: Site | None = None, results: tuple[Value, ...] | None = None, label: str = "",
             **attrs) -> Value | None:
        """A new op; its first result, if it has one. `label` names the results."""
        made = self._op(name, args, site, results, label, attrs)
        self.ops.append(made)
        return made.results[0] if made.results else None

    def place(self, name: str, *args, label: str = "", **attrs) -> Placed:
        """A new op with regions, which `inside` fills."""
        self.ops.append(placed := Placed(self._op(name, args, None, None, label, attrs)))
        return placed

    def _op(self, name: str, args: tuple, site: Site | None, results: tuple[Value, ...] | None, label: str, attrs: dict) -> Op:
        args += (None, ) * (len(OPS[name].operands) - len(args))
        if results is None:
            results = tuple(Value(type_, label) for type_ in result_types(name, args, attrs))
        return Op(name, args, results, (), MappingProxyType(attrs), site or self.site)

    def now(self, arg: Any) -> Any:
        """An argument of the old program in the new one."""
        if isinstance(arg, tuple):
            return tuple(self.now(item) for item in arg)
        return self.env.get(arg, arg) if isinstance(arg, Value) else arg

    def copy(self, op: Op, args: tuple) -> None:
        """The op as it was, on the values of the new program."""
        args = self.now(args)
        self.ops.append(op if args == op.args else Op(op.name, args, op.results, op.blocks, op.attrs, op.site))

    # ---- arithmetic on indices --------------------------------------------------------------------------------------

    def constant(self, number, type_: Type, site: Site | None = None) -> Value:
        """A number, or a tile filled with it."""
        scalar = self.emit("constant", (number, element_of(type_)), site)
        return self.emit("splat", (type_, scalar), site) if isinstance(type_, Tensor) else scalar

    def by_constant(self, op: str, value: Value, number: int, site: Site | None = None) -> Value:
        """`op(value, number)`, element by element."""
        return self.emit(op, (value, self.constant(number, value.type, site)), site)

    def scaled(self, value: Value, factor: int, site: Site | None = None) -> Value:
        return value if factor == 1 else self.by_constant("mul", value, factor, site)

    def cast_i32(self, value: Value, site: Site | None = None) -> Value:
        if element_of(value.type) == I32:
            return value
        return self.emit("int_cast", (value, like(value.type, I32), True), site)

    def reshaped(self, value: Value, shape: tuple[int, ...], site: Site | None = None) -> Value:
        """The elements of a tile in row-major order in another shape; a scalar becomes a tile of one element, and back."""
        have = value.type.shape if isinstance(value.type, Tensor) else ()
        if have == shape:
            return value
        if not have:
            return self.emit("splat", (Tensor(value.type, shape), value), site)
        if not shape:
            return self.emit("unsplat", (value, ), site)
        return self.emit("reshape", (value, shape, False), site)

    def positions(self, shape: tuple[int, ...], site: Site | None = None) -> Value:
        """An i32 tile of the row-major number of each of its elements."""
        if not shape:
            return self.constant(0, I32, site)
        flat = self.emit("make_range", (Tensor(I32, (prod(shape), )), 0, prod(shape)), site)
        return self.reshaped(flat, shape, site)

    # ---- kernels ----------------------------------------------------------------------------------------------------

    def param(self, name: str, type_: Type, path: tuple[int, ...] | None = None, attrs: tuple[tuple[str, Any], ...] = ()) -> Value:
        """The next run-time argument; `path` is its place in the Python signature, by default the next one."""
        self.params.append(Param(Value(type_, name), name, (len(self.params), ) if path is None else path, attrs))
        return self.params[-1].value

    def program(self, name: str, num_warps: int, site: Site | None = None, launch_facts: LaunchFacts = LaunchFacts()) -> Program:
        """The ops built so far, as a program; its values are numbered in the order in which they are printed."""
        program = Program(name, tuple(self.params), Block((), _finished(self.ops)), num_warps, site or self.site,
                          launch_facts=launch_facts)
        values = [param.value for param in self.params]
        for op in program.walk():
            values += op.results
            values += [arg for block in op.blocks for arg in block.args]
        for number, value in enumerate(values):
            value.number = number
        return replace(program, uses_words=program.orchestrates())


def _finished(ops: list[Op | Placed]) -> tuple[Op, ...]:
    return tuple(op.finished() if isinstance(op, Placed) else op for op in ops)
