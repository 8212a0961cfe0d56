"""Idle elements that are as bad as they may be: what a load brings of them is NaN, or an odd number.

    spoil(monkeypatch)          mimw.simulate runs the program that layouts are chosen for

Input: pytest's monkeypatch. Output: none; a result that depends on an idle element is wrong then, while zeros would often hide it.
"""

from __future__ import annotations

from mimw.compiler.passes.pad_ends import ENDS, Padding, load, zeroed_loads
from mimw.compiler.pipeline import stages
from mimw.ir import Op, Pointer
from mimw.ir.extents import is_odd
from mimw.ir.types import element_of

_ODD = -77


def spoil(monkeypatch) -> None:
    """Simulate padded programs, with such numbers in what is idle."""
    monkeypatch.setattr(stages, "FRONT", (*stages.FRONT, stages.pad))
    monkeypatch.setitem(ENDS, "load", _load)
    monkeypatch.setitem(ENDS, "masked_load", _load)


def _load(padding: Padding, op: Op) -> None:
    """A load whose `other` is such a number in idle elements, but where products rely on zeros."""
    if op in zeroed_loads(padding.program):
        load(padding, op)
        return
    writer, shape = padding.writer, op.pointer.type.shape
    mask = writer.now(op.mask) if op.name == "masked_load" else None
    other = writer.now(op.other) if op.name == "masked_load" else None
    if is_odd(shape):
        within, type_ = padding.within(shape), padding.writer.now(op.pointer).type
        element = element_of(op.result.type)
        type_ = type(type_)(element, type_.shape)
        if not isinstance(element, Pointer):
            number = float("nan") if element.is_float else 1 if element.bits == 1 else _ODD % (1 << element.bits - 1)
            other = writer.emit("select", (within, writer.constant(0, type_) if other is None else other,
                                           writer.constant(number, type_)))
        mask = within if mask is None else writer.emit("and", (mask, within))
    args = (writer.now(op.pointer), mask, other, op.cache_policy, op.is_volatile)
    writer.env[op.result] = writer.emit("masked_load", args)
