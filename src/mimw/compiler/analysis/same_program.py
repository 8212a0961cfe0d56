"""Equality of two programs up to names and places: which of their effects differ first, in a sentence.

Input: two programs. Output: None if both do the same, else one sentence with both ops and their lines. For example:

    difference(one, other)      'the value of store at a.py:9 is fadd at a.py:8, and in the other program fsub at b.py:12'

Effects (stores, loads, copies, waits, arrivals, loops, branches, tasks) have to be the same in the same order. Values are
compared by what they are made of, so it makes no difference how often, where, or in which order among themselves pure ops stand,
nor do ops that nothing needs. Ops that change nothing are their operand: a cast of a value to its own type, a tile spread to its
own shape. Integer ops of constants are a constant, a cache policy that asks for nothing is none, and values that a loop
carries may come in another order.

Each value gets a number, which stands for the op's name, its attributes and the numbers of its operands. What a loop carries is
divided into classes, by its start and by what a trip makes of it, until no class splits any more: values of one class are equal
on each trip.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable
from typing import Any

from ...ir import I32, Block, Op, Program, Scalar, Tensor, Value
from ...ir.flow import induction, loop_carries, region, terminator
from ...ir.ops import is_pure
from ...ir.types import element_of
from .folding import cast, folded
from .live import live_values

_NO_HINT = "cache", "none", "evict_normal"       # a cache policy that asks for nothing
_STEADY = -1, -1     # the class of what a loop carries and does not change
_SAME_IF_TYPES_ARE = ("int_cast", "bitcast", "fp_to_fp", "fp_trunc", "fp_ext")


def difference(one: Program, other: Program) -> str | None:
    """The first difference of two programs in a sentence, or None. Parameters are matched by order, and by type."""
    types, others = ([param.value.type for param in program.params] for program in (one, other))
    if types != others:
        return f"the parameters are {_listed(types)}, and in the other program {_listed(others)}"
    for what in ("num_warps", "launch_facts"):
        if getattr(one, what) != getattr(other, what):
            return f"{what} is {getattr(one, what)}, and in the other program {getattr(other, what)}"
    numbers: dict[Hashable, int] = {}
    first, second = _Numbered(one, numbers), _Numbered(other, numbers)
    for (number, op), (another, opposite) in zip(first.effects, second.effects):
        if number != another:
            return _sentence(first, second, number, another, op, opposite)
    if len(first.effects) == len(second.effects):
        return None
    longer, place = (first, "the first") if len(first.effects) > len(second.effects) else (second, "the other")
    op = longer.effects[min(len(first.effects), len(second.effects))][1]
    return f"{op.name} at {op.site} stands in {place} program only"


class _Numbered:
    """The numbers of a program's values and its effects, each with its op. `numbers` is common to both programs."""

    def __init__(self, program: Program, numbers: dict[Hashable, int]):
        self.numbers = numbers
        self.contents: list[Hashable] = list(numbers)
        self.of: dict[Value, int] = {}
        self.made_by: dict[int, Op] = {}
        self.effects: list[tuple[int, Op]] = []
        self.live = live_values(program)
        for place, param in enumerate(program.params):
            self.of[param.value] = self.number(("param", place))
        self.block(program.body)

    def number(self, content: Hashable, op: Op | None = None) -> int:
        found = self.numbers.setdefault(content, len(self.numbers))
        if op is not None:
            self.made_by.setdefault(found, op)
        return found

    def parts(self, number: int) -> tuple:
        """The content behind a number."""
        if number >= len(self.contents):
            self.contents = list(self.numbers)
        return self.contents[number]

    def effect(self, content: tuple, op: Op) -> int:
        """Note an effect; the number under which its results are known, which no other effect has."""
        self.effects.append((self.number(content, op), op))
        return len(self.effects)

    # ---- ops --------------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for op in block.ops:
            if "terminator" not in op.row.traits:
                self.op(op)

    def op(self, op: Op) -> None:
        control = {"for": self.loop, "while": self.while_loop, "if": self.branch, "warp_specialize": self.tasks}.get(op.name)
        if control is not None:
            control(op)
        elif is_pure(op.name) and self.live.isdisjoint(op.results):
            return
        elif not is_pure(op.name):
            serial = self.effect((op.name, *self.content(op)), op)
            for place, result in enumerate(op.results):
                self.of[result] = self.number(("result", serial, place), op)
        elif len(op.results) == 1:
            self.of[op.result] = self.pure(op)
        else:
            whole = self.number((op.name, *self.content(op)), op)
            for place, result in enumerate(op.results):
                self.of[result] = self.number(("result of", whole, place), op)

    def pure(self, op: Op) -> int:
        """The number of a pure op's result."""
        type_ = op.result.type
        if op.name in _SAME_IF_TYPES_ARE and op.value.type == type_:
            return self.of[op.value]
        if op.name == "constant" and not op.attrs.get("layout"):
            scalar = self.number(("constant", element_of(type_), _bits(op.value, element_of(type_))), op)
            return self.number(("splat", type_.shape, scalar), op) if isinstance(type_, Tensor) else scalar
        if op.name == "splat":
            return self.number(("splat", type_.shape, self.of[op.value]), op)
        if op.name in ("broadcast", "expand_dims"):
            return self.spread(op, type_)
        if (op.row.folds or op.name == "int_cast") and (number := self.folded(op)) is not None:
            return number
        if op.name == "int_cast":
            signed = op.signed and element_of(type_).bits > element_of(op.value.type).bits
            return self.number(("int_cast", self.of[op.value], type_, bool(signed)), op)
        if op.name[:4] in ("icmp", "fcmp"):
            return self.comparison(op)
        return self.number((op.name, *self.content(op)), op)

    def comparison(self, op: Op) -> int:
        """`0 < x` is `x > 0`: a number stands behind."""
        name, one, other = op.name, self.of[op.lhs], self.of[op.rhs]
        order = name[5:7]
        if self.is_constant(one) and (not self.is_constant(other) or order in ("GT", "GE")):
            name, one, other = name[:5] + {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(order, order), other, one
        return self.number((name, ("value", one), ("value", other)), op)

    def is_constant(self, number: int) -> bool:
        parts = self.parts(number)
        return parts[0] == "constant" or parts[0] == "splat" and self.is_constant(parts[2])

    def folded(self, op: Op) -> int | None:
        """The number of a constant that an op of constants gives."""
        if op.name == "int_cast":
            inner = self.parts(self.of[op.value])
            value = cast(op, inner[2]) if inner[0] == "constant" else None
            return None if value is None else self.number(("constant", op.result.type, _bits(value, op.result.type)), op)
        one, other = self.parts(self.of[op.lhs]), self.parts(self.of[op.rhs])
        if one[0] != "constant" or other[0] != "constant":
            return None
        value = folded(op, one[2], other[2])
        return None if value is None else self.number(("constant", op.result.type, _bits(value, op.result.type)), op)

    def spread(self, op: Op, type_: Tensor) -> int:
        inner = self.of[op.value]
        parts = self.parts(inner)
        if parts[0] == "splat":
            return self.number(("splat", type_.shape, parts[2]), op)
        if op.name == "expand_dims":
            return self.number((op.name, inner, op.axis % len(type_.shape)), op)
        if op.value.type == type_:
            return inner
        return self.number(("broadcast", parts[1] if parts[0] == "broadcast" else inner, type_.shape), op)

    def content(self, op: Op) -> tuple:
        """The operands of an op, its attributes, the types of its results, and the numbers of its regions."""
        args = [self.argument(arg) for arg in op.args]
        for place, operand in enumerate(op.row.operands[:len(args)]):
            if operand.text.startswith("int|#int") and isinstance(given := getattr(op, operand.name), int):
                args[place] = "value", self.number(("constant", I32, _bits(given, I32)), op)
        while args and args[-1] is None:
            args.pop()
        return tuple(args), self.attributes(op), tuple(result.type for result in op.results), tuple(map(self.inside, op.blocks))

    def attributes(self, op: Op) -> tuple:
        """Those that say something."""
        said = {name: given for name, given in op.attrs.items() if given is not None and given is not False}
        return tuple((name, self.argument(given)) for name, given in sorted(said.items()))

    def argument(self, arg: Any) -> Hashable:
        if isinstance(arg, Value):
            return ("value", self.of[arg])
        if arg == _NO_HINT:
            return None
        if isinstance(arg, (tuple, list)):
            return tuple(map(self.argument, arg))
        if hasattr(type(arg), "__members__"):
            return type(arg).__name__, arg.name
        return arg if isinstance(arg, Hashable) else repr(arg)

    def inside(self, block: Block) -> tuple:
        """A region that combines elements: what it yields in terms of its arguments."""
        for place, arg in enumerate(block.args):
            self.of[arg] = self.number(("element", place, arg.type))
        before = len(self.effects)
        self.block(block)
        effects, self.effects = self.effects[before:], self.effects[:before]
        return tuple(self.of[value] for value in block.yielded), tuple(number for number, _ in effects)

    # ---- control flow -----------------------------------------------------------------------------------------------

    def branch(self, op: Op) -> None:
        serial = self.effect(("if", self.of[op.condition]), op)
        for block in op.blocks:
            self.block(block)
            self.effect(("end of a branch", ), op)
        pairs = zip(*(block.yielded for block in op.blocks)) if op.results else ()
        for result, (then, otherwise) in zip(op.results, pairs):
            taken, not_taken = self.known(then), self.known(otherwise)
            same = taken == not_taken
            self.of[result] = taken if same else self.number(("result of if", serial, taken, not_taken), op)
        live = {self.of[result] for result in op.results if result in self.live}
        self.effect(("end of if", tuple(sorted(live))), op)

    def known(self, value: Value) -> int:
        """The number of a value; of one that is not live, and so need not be there, any."""
        return self.of.get(value, -1)

    def loop(self, op: Op) -> None:
        bounds = tuple(self.of[bound] for bound in (op.start, op.end, op.step))
        serial = self.effect(("for", bounds, self.attributes(op)), op)
        self.of[induction(op)] = self.number(("induction", serial), op)
        carries = [carry for carry in loop_carries(op) if carry.argument in self.live or carry.result in self.live]
        body = op.blocks[0]
        classes = self.classes(op, serial, [(one.init, one.argument) for one in carries],
                               lambda: self.block(body), [one.after for one in carries])
        for one, (class_, after) in zip(carries, classes):
            steady = self.of[one.argument] == self.of[one.init]
            self.of[one.result] = self.of[one.init] if steady else self.number(("result of for", serial, class_, after), op)
        self.effect(("end of for", _moving(classes)), op)

    def while_loop(self, op: Op) -> None:
        serial = self.effect(("while", self.attributes(op)), op)
        before, after = region(op, "before"), region(op, "after")
        last = terminator(before)
        pairs = [(init, arg) for init, arg in zip(op.inits, before.args) if arg in self.live]

        def trip() -> None:
            self.block(before)
            self.effect(("condition", self.of[last.condition]), op)
            for value, arg in zip(last.values, after.args):
                self.of[arg] = self.known(value)
            self.block(after)

        nexts = [value for value, arg in zip(after.yielded, before.args) if arg in self.live]
        classes = self.classes(op, serial, pairs, trip, nexts)
        steady = {self.of[arg] for init, arg in pairs if self.of[arg] == self.of[init]}
        for value, result in zip(last.values, op.results):
            known = self.known(value)
            self.of[result] = known if known in steady else self.number(("result of while", serial, known), op)
        self.effect(("end of while", _moving(classes)), op)

    def classes(self, op: Op, serial: int, pairs: list[tuple[Value, Value]], trip, afters: list[Value]) -> list[tuple[int, int]]:
        """Number what a loop carries, and its body by `trip`: of each carry its class and the number that a trip hands on."""
        classes = [self.number(("start", self.of[init])) for init, _ in pairs]
        steady, mark = set(), len(self.effects)
        while True:
            for place, (init, arg) in enumerate(pairs):
                self.of[arg] = self.of[init] if place in steady else self.number(("carried", serial, classes[place]), op)
            del self.effects[mark:]
            trip()
            handed = [self.of[value] for value in afters]
            still = {place for place, (_, arg) in enumerate(pairs) if handed[place] == self.of[arg]} - steady
            split = [self.number(("class", class_, after)) for class_, after in zip(classes, handed)]
            moving = [place for place in range(len(pairs)) if place not in steady]
            if still:
                steady |= still
            elif len({split[place] for place in moving}) == len({classes[place] for place in moving}):
                return [(classes[place], handed[place]) if place not in steady else _STEADY for place in range(len(pairs))]
            else:
                classes = split

    def tasks(self, op: Op) -> None:
        kept = {name: given for name, given in op.attrs.items() if given and name not in ("tasks", "types")}
        warps = tuple((task.num_warps, task.is_default, task.registers) for task in op.attrs["tasks"])
        self.effect(("tasks", warps, tuple(sorted(kept.items()))), op)
        for block in op.blocks:
            self.block(block)
            self.effect(("end of a task", ), op)
        for result, value in zip(op.results, op.blocks[0].yielded):
            self.of[result] = self.of[value]


def _moving(classes: list[tuple[int, int]]) -> tuple:
    """The classes that change from trip to trip, in no order."""
    return tuple(sorted(set(classes) - {_STEADY}))


def _bits(value: Any, type_: Any) -> Hashable:
    """A constant as its bits, so that -1 and 255 are the same byte, and 0.0 and -0.0 are not the same number."""
    if getattr(type_, "is_float", False):
        return "nan" if math.isnan(value) else struct.pack("d", float(value))
    return int(value) & (1 << type_.bits) - 1 if isinstance(type_, Scalar) and isinstance(value, (int, bool)) else value


# ---- the sentence --------------------------------------------------------------------------------------------------------

def _sentence(first: _Numbered, second: _Numbered, number: int, another: int, op: Op, opposite: Op) -> str:
    inner = _deepest(first, second, number, another)
    said = f"{op.name} at {op.site} and {opposite.name} at {opposite.site} differ"
    made, remade = (side.made_by.get(one) for side, one in zip((first, second), inner))
    if made is None or remade is None or (made, remade) == (op, opposite):
        return f"{said}: {_told(first, number)} and {_told(second, another)}" if op.name == opposite.name else said
    return (f"{said}, in {made.name} at {made.site} and {remade.name} at {remade.site}: {_told(first, inner[0])} and "
            f"{_told(second, inner[1])}")


def _deepest(first: _Numbered, second: _Numbered, number: int, another: int) -> tuple[int, int]:
    """The innermost numbers that differ behind two that do."""
    while True:
        one, other = first.parts(number), second.parts(another)
        if one[0] != other[0]:
            return number, another
        pairs = list(_numbers(one, other))
        differing = next(((a, b) for a, b in pairs if a != b), None)
        if differing is None:
            return number, another
        number, another = differing


def _numbers(one: Any, other: Any):
    """Pairs of operands' numbers that stand at the same place."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        if one and one[0] == "value" == other[0]:
            yield one[1], other[1]
        else:
            for a, b in zip(one, other):
                yield from _numbers(a, b)


def _told(side: _Numbered, number: int) -> str:
    parts = side.parts(number)
    return " ".join(map(_word, parts))


def _word(part: Any) -> str:
    if isinstance(part, tuple):
        return "(" + ", ".join(map(_word, part)) + ")"
    return str(part)


def _listed(types: list) -> str:
    return f"({', '.join(map(str, types))})"
