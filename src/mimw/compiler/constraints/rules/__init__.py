"""The layout rules: one function for each rule name of the op table.

Input: an op, and the layouts of the tiles so far. Output: layouts for its results, and for its operands:

    %z = fadd %x %y        %z in the layout of the stronger operand, and the other one is wanted in it
"""

from __future__ import annotations

from . import control, dots, elementwise, linear, memory, neighbours, pins, rows, shapes, slices, tensor_memory
from .registry import RULES, Rule, rule_of

__all__ = [
    "RULES", "Rule", "control", "dots", "elementwise", "linear", "memory", "neighbours", "pins", "rows", "rule_of", "shapes",
    "slices", "tensor_memory",
]
