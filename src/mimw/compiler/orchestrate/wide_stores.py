"""Stores whose places and strides the kernel loads, in words of 16 bytes where the numbers allow it: plain to plain.

Input: a program with descriptors of its own (`boxes_of_groups`). Output: `Widened`: the program, and a remark for each store. For
example, of grouped products, where N and the place of C are loaded for each group:

    tl.store(c + at_c + rows[:, None] * N + cols, y, cols < N)              becomes

    if (N % 8 == 0) & (at_c % 8 == 0):
        N8, c8 = N // 8 * 8, at_c // 8 * 8
        tl.store(c + c8 + rows[:, None] * N8 + cols, y, cols < N8)
    else:
        tl.store(c + at_c + rows[:, None] * N + cols, y, cols < N)

Triton writes 16 bytes at a time where its axis analysis proves that they begin at multiples of 16 (`tl.multiple_of`, and products
with constants). Of a number that is loaded it knows nothing, and writes element by element: of a tile of 128 x 256 fp16, 128 stores
of two bytes a thread, where 16 of 16 bytes do. In the branch the numbers are the same ones, as multiples of a constant. A number
that is not rewritten there makes the store slower, not wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from ...ir import Block, Builder, Op, Pointer, Program, Scalar, Value
from ..analysis.address_forms import NoForm, positions
from ..analysis.pointer_boxes import is_tile_access, ranges_of
from ..analysis.pointer_forms import Forms
from ..analysis.polynomials import Poly
from ..analysis.remarks import Remark
from ..analysis.scalar_ranges import Ranges
from ..analysis.tensor_boxes import Multiple
from ..analysis.uses import uses_of
from .asked_in_kernel import WORD, Asked, begins_word, word_of


@dataclass(frozen=True)
class Widened:
    """`program` with the stores in two ways, the same object if there is none, and what is said of them."""

    program: Program
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class _Needs:
    """Numbers, each with what has to divide it, and an address that has to be a multiple of WORD, or None."""

    numbers: dict[Value, int]
    address: Value | None


def widened(program: Program) -> Widened:
    """The program with such stores in loops in two ways. Its parameters say which arrays begin at multiples of 16 bytes."""
    asking = _Asking(program)
    found = {op: asked for op in program.where(lambda row: row.stores) if is_tile_access(op) and (asked := asking.of(op))}
    if not found:
        return Widened(program)
    writer = _Writer(program, asking.forms, found)
    body = writer.block(program.body)
    return Widened(replace(program, body=body), tuple(_said(program, op, asked) for op, asked in found.items()))


def _said(program: Program, op: Op, asked: _Needs) -> Remark:
    shown = [f"{ranges_of(program).shown(Poly.of(number))} is a multiple of {of}" for number, of in asked.numbers.items()]
    shown += [f"its array begins at a multiple of {WORD} bytes"] * (asked.address is not None)
    return Remark(f"the store by pointers writes {WORD} bytes at a time where the kernel finds that {' and '.join(shown)}; else "
                  "element by element.", op.site)


class _Asking:
    """The questions by which a store is one of whole words."""

    def __init__(self, program: Program):
        self.uses = uses_of(program)
        self.forms = Forms(self.uses)
        self.forms.addresses = True
        self.params = {param.value: dict(param.attrs).get("tt.divisibility", 1) for param in program.params}

    def of(self, op: Op) -> _Needs | None:
        """The numbers to ask; None of a store that is left as it is."""
        tile, element = op.pointer.type, op.pointer.type.element
        if not isinstance(element.pointee, Scalar) or element.space != "global" or not self.uses.loops(op):
            return None
        granule = WORD // max(1, element.pointee.bytes)
        try:
            form = self.forms.of(op.pointer)
        except NoForm:
            return None
        found = positions(form.poly, tile)
        if form.base is None or found is None:
            return None
        start, strides = found
        rows = [stride for stride in strides if stride.constant != 1]
        if len(rows) != len(strides) - 1 or tile.shape[next(at for at, one in enumerate(strides) if one.constant == 1)] < granule:
            return None
        address = None if self.params.get(form.base, 1) % WORD == 0 else form.base
        if address in self.params:      # the caller's array, which begins elsewhere
            return None
        numbers: dict[Value, int] = {}
        for poly in (*rows, start):
            for monomial, factor in poly.terms.items():
                need = granule // gcd(factor, granule)
                if need == 1 or any(self._divides(symbol, numbers, need) for symbol in monomial):
                    continue
                number = next((symbol for symbol in reversed(monomial) if self._may_ask(symbol)), None)
                if number is None:
                    return None
                numbers[number] = max(need, numbers.get(number, 1))
        return _Needs(numbers, address) if numbers or address is not None else None

    def _divides(self, symbol, numbers: dict[Value, int], need: int) -> bool:
        """True if a symbol is known to be a multiple of `need`: of the caller's promise, or as it is asked already."""
        if not isinstance(symbol, Value):
            return False
        hints = [use.op for use in self.uses.of(symbol) if use.op.name == "hint" and use.op.attribute == "tt.divisibility"]
        return any(known % need == 0 for known in (
            numbers.get(symbol, 1), self.params.get(symbol, 1), *(hint.numbers[0] for hint in hints)))

    def _may_ask(self, symbol) -> bool:
        """True of a number that the kernel has loaded. What the host knows it says by the parameter's attributes."""
        op = self.uses.definition.get(symbol) if isinstance(symbol, Value) else None
        return op is not None and op.row.loads


class _Writer:
    """The program anew."""

    def __init__(self, program: Program, forms: Forms, found: dict[Op, _Needs]):
        self.uses, self.forms, self.found, self.b = uses_of(program), forms, found, Builder(program.site)

    def block(self, block: Block) -> Block:
        outside = self.b.open()
        for op in block.ops:
            if op in self.found:
                self._both(op, self.found[op])
            else:
                self.b.ops.append(op.with_blocks(self.block))
        return block.with_ops(self.b.close(outside))

    def _both(self, op: Op, asked: _Needs) -> None:
        """The store in words of 16 bytes where all that is asked holds, else as it was."""
        b, site = self.b, op.site
        multiples = [Multiple(Poly.of(number), of, "{poly} is no such multiple", site) for number, of in asked.numbers.items()]
        condition = Asked(b, Ranges(self.forms), None, site).all(multiples) if multiples else None
        if asked.address is not None:
            begins = begins_word(b, asked.address, site)
            condition = begins if condition is None else b.emit("and", (condition, begins), site)
        outside = b.open()
        env: dict[Value, Value] = {}
        known = {number: self._multiple(number, of, op) for number, of in asked.numbers.items()}
        if asked.address is not None:
            env[asked.address] = self._address(asked.address, op)
        args = [self._fresh(one, known, env) if isinstance(one, Value) and one is not op.value else one for one in op.args]
        b.ops.append(replace(op, args=tuple(args)))
        b.emit("yield", ((), ), site)
        then, outside_too = b.close(outside), b.open()
        b.ops.append(op)
        b.emit("yield", ((), ), site)
        blocks = Block((), then), Block((), b.close(outside_too))
        b.ops.append(Op("if", (condition, ()), (), blocks, site=site))

    def _multiple(self, number: Value, of: int, op: Op) -> Value:
        """The number, which `of` divides, as the product that shows it."""
        return self.b.by_constant("mul", self.b.by_constant("sdiv", number, of, op.site), of, op.site)

    def _address(self, address: Value, op: Op) -> Value:
        """The address, which is a multiple of WORD, with a hint of its own."""
        found = word_of(self.b, address, op.site)
        self.b.emit("hint", (found, "tt.divisibility", (WORD, )), op.site)
        return found

    def _fresh(self, value: Value, known: dict[Value, Value], env: dict[Value, Value]) -> Value:
        """A value as it follows from the numbers that are known to be multiples; itself if it does not."""
        if value not in env:
            env[value] = self._number(value, known) or self._result(value, known, env)
        return env[value]

    def _number(self, value: Value, known: dict[Value, Value]) -> Value | None:
        """The multiple that stands for one of the numbers, or for one that is computed alike."""
        if isinstance(value.type, Pointer):
            return None
        try:
            form = self.forms.of(value)
        except NoForm:
            return None
        return next((new for number, new in known.items() if form.poly == Poly.of(number) and value.type == number.type), None)

    def _result(self, value: Value, known: dict[Value, Value], env: dict[Value, Value]) -> Value:
        op = self.uses.definition.get(value)
        if op is None or op.blocks or op.row.effects - {"pure"} or "pure" not in op.row.effects or len(op.results) != 1:
            return value
        args = tuple(self._fresh(one, known, env) if isinstance(one, Value) else one for one in op.args)
        if all(new is old for new, old in zip(args, op.args)):
            return value
        made = Value(value.type, value.name)
        self.b.ops.append(Op(op.name, args, (made, ), (), op.attrs, op.site))
        return made


__all__ = ["Widened", "widened"]
