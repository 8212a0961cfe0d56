"""The state while a kernel is written: texts and names of its values, its lines, and functions that reductions need.

Input: a program, op by op. Output: lines. For example:

    w = Writer(program, "gemm")
    w.block(program.body.ops)       w.lines
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import contextmanager

from ....ir import Op, Program, Scalar, Tensor, Value
from ....ir.ops import is_pure
from ....ir.types import element_of
from ...analysis.folding import cast, folded
from .holders import Holders
from .inlining import Inlining
from .lines import broken
from .names import Names
from .rows import EXPRESSIONS, STATEMENTS, unwritten
from .signs import buffer_signs
from .texts import ATOM, LONGEST, Text, has_sign, literal, reads_as, type_name


class Writer:
    """Writes one kernel. `notes` are the comments of the words of pipes (`comments.py`), `targets` the names that values get
    because a loop or a branch hands them on under these."""

    def __init__(self, program: Program, name: str, notes: Mapping[Op, str] | None = None, inlining: Inlining | None = None):
        self.program, self.notes = program, notes or {}
        self.inlining = inlining or Inlining(program)
        self.uses, self.live = self.inlining.uses, self.inlining.live
        self.buffer_signs = buffer_signs(program)
        self.params = {param.value for param in program.params}
        self.names = Names((name, ))
        self.texts: dict[Value, Text] = {}
        self.targets: dict[Value, tuple[str, bool | None]] = {}
        self.holders = Holders(self)
        self.constants: dict[Value, Op] = {}
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}
        self.depth, self.all_inside = 1, False

    def child(self) -> Writer:
        """A writer of a function beside the kernel."""
        return Writer(self.program, "", inlining=self.inlining)

    def note(self, op: Op) -> str:
        """The comment on an op."""
        return self.notes.get(op, "")

    # ---- texts of values --------------------------------------------------------------------------------------------

    def text(self, value: Value) -> Text:
        """The value as it is written."""
        return self.texts[value]

    def code(self, value: Value, level: int = 0) -> str:
        """The code of a value that Triton reads with the type it has in the program."""
        return self.typed(value).inside(level)

    def constant(self, value: Value) -> Op | None:
        """The op of a value that is a number; of one that is computed from numbers, an op that says which."""
        return self.constants.get(value)

    def typed(self, value: Value) -> Text:
        """The text of a value as a tensor of its own type, whatever stands beside it."""
        text = self.texts[value]
        if not text.number:
            return text
        op = self.constant(value)
        sign = True if has_sign(op.type) else None
        return Text(f"tl.full((), {literal(op.value, op.type)}, {type_name(op.type)})", signed=sign)

    def alone(self, value: Value) -> Text:
        """The text of a value where Triton makes a tensor of a bare number: the literal, if it reads as the type that is wanted."""
        op = self.constant(value) if self.texts[value].number else None
        if op is None or not reads_as(op.value, op.type):
            return self.typed(value)
        return Text(literal(op.value, op.type), self.texts[value].level, True if has_sign(op.type) else None, True)

    def with_sign(self, text: Text, type_, signed: bool | None) -> Text:
        """The text cast so that Triton gives it that sign. Such a cast computes nothing."""
        if signed is None or not has_sign(type_) or text.signed is signed:
            return text
        return Text(f"{text.inside(ATOM)}.to({type_name(element_of(type_), signed)})", ATOM, signed)

    def carried(self, value: Value, signed: bool | None) -> Text:
        """The text of a value that is assigned to a name with that sign."""
        return self.with_sign(self.alone(value), value.type, signed)

    # ---- lines ------------------------------------------------------------------------------------------------------

    def line(self, code: str, note: str = "") -> None:
        """A line of code, broken where it is too long; a note that does not fit behind it stands above."""
        self.lines += broken(code, "    " * self.depth, note)

    @contextmanager
    def indented(self):
        """Write a block one step to the right; `pass` if it has no lines."""
        before = len(self.lines)
        self.depth += 1
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def bind(self, value: Value, text: Text, hint: str = "", note: str = "") -> None:
        """Write an assignment of a text to the name of a value."""
        name, signed = self.aimed(value)
        text = self.with_sign(text, value.type, signed)
        name = name or self.holders.free_again(value) or self.names.fresh(value.name or hint or "t")
        self.hold(value, name, text.signed)
        self.assign(self.texts[value].code, text.code, note)

    def aimed(self, value: Value | None) -> tuple[str | None, bool | None]:
        """The name and the sign under which a loop or a branch hands a value on, and which it takes where it is made; (None,
        None) where
        something reads behind that what the name means now."""
        name, signed = self.targets.pop(value, (None, None))
        held = self.holders.value.get(name)
        if held is None or self.texts[held].code != name:
            return name, signed
        made = self.uses.definition[value]
        last = self.uses.last[made] if made.name == "if" else self.uses.position[made]
        return (None, None) if any(read > last for read in self.inlining.reads(held)) else (name, signed)

    def hold(self, value: Value, name: str, signed: bool | None) -> None:
        """From here on the name means the value."""
        self.texts[value] = Text(name, signed=signed)
        self.holders.note(value, name)

    def assign(self, name: str, code: str, note: str = "") -> None:
        """Write an assignment; `x += y` for `x = x + y`."""
        added = re.fullmatch(rf"{name} ([-+*]) ([\w.]+|[\w.]+\([^()]*\))", code)
        self.line(f"{name} {added[1]}= {added[2]}" if added else f"{name} = {code}", note)

    # ---- ops --------------------------------------------------------------------------------------------------------

    def block(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if "terminator" not in op.row.traits:
                self.op(op)

    def op(self, op: Op) -> None:
        if is_pure(op.name) and self.live.isdisjoint(op.results):
            return
        if op.name in STATEMENTS:
            STATEMENTS[op.name](self, op)
            return
        if (number := self.number(op)) is not None:
            self.constants[op.result] = number
            self.texts[op.result] = self.expression(number)
            return
        text = self.expression(op)
        if self.all_inside or self.inlining.inside(op) and (len(text.code) <= LONGEST or text.number):
            self.texts[op.result] = text
        elif is_pure(op.name) or op.result in self.live:
            self.bind(op.result, text, self.hint(op))
        else:
            self.line(text.code)

    def number(self, op: Op) -> Op | None:
        """The constant that an op of numbers gives."""
        if op.name == "constant" and isinstance(op.type, Scalar):
            return op
        if op.name == "int_cast" and op.value in self.constants:
            if op.value.type == op.type:
                return self.constants[op.value]
            value = cast(op, self.constants[op.value].value)
            return None if value is None else Op("constant", (value, op.result.type), op.results, site=op.site)
        if not op.row.folds or op.lhs not in self.constants or op.rhs not in self.constants:
            return None
        value = folded(op, self.constants[op.lhs].value, self.constants[op.rhs].value)
        return None if value is None else Op("constant", (value, op.result.type), op.results, site=op.site)

    def expression(self, op: Op) -> Text:
        """The text of an op's result."""
        if op.name not in EXPRESSIONS:
            raise unwritten(op)
        return EXPRESSIONS[op.name](self, op)

    def hint(self, op: Op) -> str:
        """A name for what has none of the author's."""
        if op.row.loads and (base := self.base_of(op.pointer)):
            return f"{base}_tile" if isinstance(op.result.type, Tensor) else f"{base}_value"
        return _HINTS.get(op.name) or (f"pid_{'xyz'[op.axis]}" if op.name == "get_program_id" else "t")


    def base_of(self, pointer: Value) -> str:
        """The name of the argument that a pointer is computed from, or of what carries it."""
        while (op := self.uses.definition.get(pointer)) is not None and (inner := op.row.pointer_of or "value") in op.row.places \
                and isinstance(getattr(op, inner), Value):
            pointer = getattr(op, inner)
        return pointer.name


_HINTS = {"dot": "product", "async_dot": "product", "async_dot_wait": "product", "reduce": "total", "load": "loaded",
          "masked_load": "loaded", "descriptor_load": "tile", "local_load": "tile", "get_num_programs": "programs",
          "make_range": "at", "atomic_rmw": "before", "atomic_cas": "before", "make_tensor_descriptor": "desc",
          "local_alloc": "buffer", "alloc_barriers": "barriers"}
