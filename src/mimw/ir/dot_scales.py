"""The scales of a product of scaled blocks, which are operands of it as A and B are.

Input: a product. Output: its tiles of scales. For example:

    scales_of(op)       (%sa, %sb) of `dot_scaled %a %sa E4M3 %b %sb E4M3 ..`, () of `dot %a %b %acc`
"""

from __future__ import annotations

from .core import Op, Value


def scales_of(op: Op) -> tuple[Value, ...]:
    """Those of A and of B, without those that are not given."""
    given = (getattr(op, name) for name in ("a_scale", "b_scale") if name in op.row.places)
    return tuple(value for value in given if value is not None)
