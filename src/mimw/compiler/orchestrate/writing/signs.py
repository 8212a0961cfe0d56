"""Signs of integers that the IR does not say: of what arguments point to, and of the elements of buffers.

Input: a program. Output: signs by value. For example:

    argument_signs(program)     {%w: False}             what is loaded through %w is shifted as an unsigned number
    buffer_signs(program)       {%tiles: False}         a descriptor of unsigned elements is copied into %tiles

Triton gives both a sign, and an op that asks for one takes its operand as it is if it has that one; another it would have cast.
So the ops that a value goes into as it is tell its sign. Where none tells, any will do: the text casts a value whose sign is not
known.
"""

from __future__ import annotations

from collections import defaultdict

from ....ir import Pointer, Program, Value
from ....ir.flow import all_carries
from ....ir.types import element_of
from ...analysis.uses import uses_of
from .texts import has_sign

_ASK = {"sdiv": True, "srem": True, "ashr": True, "minsi": True, "maxsi": True, "si_to_fp": True, "iabs": True, "udiv": False,
        "urem": False, "lshr": False, "minui": False, "maxui": False, "ui_to_fp": False}
_KEEP = ("splat", "broadcast", "expand_dims", "reshape", "trans", "unsplat")
_BESIDE_A_NUMBER = ("add", "sub", "mul", "and", "or", "xor")


def argument_signs(program: Program) -> dict[Value, bool]:
    """The signs of integer arguments, and of the integers that arguments point to, as far as uses tell."""
    told = program.kept(_Told)
    return {param.value: sign for param in program.params if (sign := told.of(param.value, set())) is not None}


def buffer_signs(program: Program) -> dict[Value, bool]:
    """The signs of buffers' elements that descriptors give, by the value that was allocated."""
    found: dict[Value, bool] = {}
    for op in program.walk():
        if "descriptor" in op.row.places and "buffer" in op.row.places and op.buffer is not None:
            array = allocated(program, op.buffer)
            found[array] = found.get(array, True) and op.descriptor.type.signed
    return found


def allocated(program: Program, buffer: Value) -> Value:
    """The array that a buffer is a view of, with elements of the same type; of a pipe's slot the field."""
    definition = uses_of(program).definition
    while (op := definition.get(buffer)) is not None:
        if op.name in ("buffer_index", "buffer_slice", "buffer_trans", "buffer_flat"):
            buffer = op.buffer
        elif op.row.end and (make := definition.get(op.pipe)) is not None and make.name == "pipe_make" and \
                op.results.index(buffer) < len(make.fields):
            buffer = make.fields[op.results.index(buffer)]
        else:
            break
    return buffer


class _Told:
    """Signs of values by their uses."""

    def __init__(self, program: Program):
        self.uses = uses_of(program)
        self.handed: dict[Value, list[Value]] = defaultdict(list)
        for carry in all_carries(program):
            self.handed[carry.source].append(carry.target)

    def of(self, value: Value, seen: set[Value]) -> bool | None:
        """The sign of an integer, or of what a pointer points to."""
        element = element_of(value.type)
        pointee = getattr(element, "pointee", None)
        if value in seen or isinstance(pointee, Pointer) or not has_sign(pointee or element):
            return None
        seen.add(value)
        for op, _ in self.uses.of(value):
            found = self._op(op, value, seen, pointee is not None)
            if found is not None:
                return found
        return next((found for target in self.handed[value] if (found := self.of(target, seen)) is not None), None)

    def _op(self, op, value: Value, seen: set[Value], points: bool) -> bool | None:
        if op.name in _KEEP:
            return self.of(op.result, seen)
        if points:
            passes_on = op.name == "addptr" and op.lhs is value or op.name in ("load", "masked_load") and op.pointer is value
            return self.of(op.result, seen) if passes_on else None
        if op.name in _ASK:
            return _ASK[op.name]
        if op.name.startswith("icmp") and op.name[4] in "SU":
            return op.name[4] == "S"
        wide = element_of(value.type).bits
        if op.name == "int_cast":
            return bool(op.signed) if element_of(op.type).bits > wide else None
        if op.name == "addptr" and wide < 64:
            return True
        if op.name in _BESIDE_A_NUMBER and self._number(op.rhs if op.lhs is value else op.lhs):
            return self.of(op.result, seen)
        return None

    def _number(self, value: Value) -> bool:
        op = self.uses.definition.get(value)
        while op is not None and op.name in ("splat", "broadcast"):
            op = self.uses.definition.get(op.value)
        return op is not None and op.name == "constant"
