"""The layout rules: one function per rule name of the op table, or per op where an op is a special case of its rule."""

from __future__ import annotations

from ...ir.core import Op
from ...ir.ops import OPS
from . import control, dots, elementwise, linear, memory, pins, shapes
from .registry import RULES, Rule

__all__ = ["RULES", "Rule", "control", "dots", "elementwise", "linear", "memory", "pins", "rule_of", "shapes"]


def rule_of(op: Op) -> Rule:
    """The rule of an op: its own by name, else that of its row in the table."""
    return RULES.get(op.name) or RULES[OPS[op.name].layout]
