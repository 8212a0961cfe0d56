"""`tl.dot_scaled` of tiles with odd extents.

Input: a `dot_scaled` of the program as the author has it. Output: the product of padded tiles, in which operands and scales are
zeros along K where they are idle: 0 x 0 adds nothing in any format, and what is idle may be NaN. For example, of 96 in K:

    dot_scaled %a : fp8[48, 96], %sa : u8[48, 3] ..     of select (k < 96) %a 0 : [64, 128], select (block < 3) %sa 0 : [64, 4]
"""

from __future__ import annotations

from ...ir import Op
from .pad_ends import Padding, end


@end("dot_scaled")
def dot_scaled(padding: Padding, op: Op) -> None:
    """Scales lie (rows, K) and (columns, K). Idle rows and columns of the operands give those of the result."""
    deep = len(op.a.type.shape) - 1
    axes = {"a": deep, "a_scale": deep, "b": deep - 1, "b_scale": deep}
    given = {name: getattr(op, name) for name in axes}
    padding.again(op, **{name: padding.zero_behind(value, axes[name]) for name, value in given.items() if value is not None})
