"""Writes the ops of a block anew, for passes that replace values.

Input: the ops of the old program, one after the other, and new ones by name. Output: the ops of the new block. For
example:

    outside = writer.open()
    writer.env[op.result] = writer.emit("local_load", (view, ), op.site)       the old result is the new op's from here on
    ops = writer.close(outside)
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType

from ..analysis.affine import Affine
from ..ir import I32, Op, Site, Tensor, Type, Value, like
from ..ir.ops import result_types
from ..ir.types import element_of


class Writer:
    """Collects ops in `ops`. `env` holds what values of the old program are in the new one, where that differs."""

    def __init__(self):
        self.ops: list[Op] = []
        self.env: dict[Value, Value] = {}

    def open(self) -> list[Op]:
        """Start a block; give the result to `close`."""
        outside, self.ops = self.ops, []
        return outside

    def close(self, outside: list[Op]) -> tuple[Op, ...]:
        ops, self.ops = tuple(self.ops), outside
        return ops

    def now(self, arg):
        """An argument of the old program in the new one."""
        if isinstance(arg, tuple):
            return tuple(self.now(item) for item in arg)
        return self.env.get(arg, arg) if isinstance(arg, Value) else arg

    def copy(self, op: Op, args) -> None:
        """The op as it was, on the values of the new program."""
        args = self.now(args)
        self.ops.append(op if args == op.args else Op(op.name, args, op.results, op.blocks, op.attrs, op.site))

    def emit(self, name: str, args: tuple, site: Site, results: tuple[Value, ...] | None = None, **attrs) -> Value | None:
        """A new op; its only result, if it has one. `label` names the result."""
        label = attrs.pop("label", "")
        if results is None:
            results = tuple(Value(type_, label) for type_ in result_types(name, args, attrs))
        self.ops.append(Op(name, args, results, (), MappingProxyType(attrs), site))
        return results[0] if results else None

    # ---- arithmetic on indices --------------------------------------------------------------------------------------

    def constant(self, number, type_: Type, site: Site) -> Value:
        """A number, or a tile filled with it."""
        scalar = self.emit("constant", (number, element_of(type_)), site)
        return self.emit("splat", (type_, scalar), site) if isinstance(type_, Tensor) else scalar

    def number(self, op: str, value: Value, number: int, site: Site) -> Value:
        """`op(value, number)`, element by element."""
        return self.emit(op, (value, self.constant(number, value.type, site)), site)

    def scaled(self, value: Value, factor: int, site: Site) -> Value:
        return value if factor == 1 else self.number("mul", value, factor, site)

    def cast_i32(self, value: Value, site: Site) -> Value:
        if element_of(value.type) == I32:
            return value
        return self.emit("int_cast", (value, like(value.type, I32), True), site)

    def scalar(self, form: Affine, site: Site) -> Value:
        """The i32 value of a scalar's affine form, over values of the old program."""
        total = self.constant(form.constant, I32, site) if form.constant or not form.terms else None
        for value, factor in form.terms:
            term = self.scaled(self.cast_i32(self.now(value), site), factor, site)
            total = term if total is None else self.emit("add", (total, term), site)
        return total

    def reshaped(self, value: Value, shape: tuple[int, ...], site: Site) -> Value:
        """The elements of a tile in row-major order in another shape; a scalar becomes a tile of one element, and back."""
        have = value.type.shape if isinstance(value.type, Tensor) else ()
        if have == shape:
            return value
        if not have:
            return self.emit("splat", (Tensor(value.type, shape), value), site)
        if not shape:
            return self.emit("unsplat", (value, ), site)
        return self.emit("reshape", (value, shape, False), site)

    def positions(self, shape: tuple[int, ...], site: Site) -> Value:
        """An i32 tile of the row-major number of each of its elements."""
        if not shape:
            return self.constant(0, I32, site)
        flat = self.emit("make_range", (Tensor(I32, (prod(shape), )), 0, prod(shape)), site)
        return self.reshaped(flat, shape, site)
