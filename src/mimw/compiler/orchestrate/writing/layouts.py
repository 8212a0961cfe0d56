"""Layouts that are asked for, as text.

Input: an op. Output: its text. For example:

    require_layout %x ThreadValue(threads ((8, 8), (16, 64)), values ((8, 1), (8, 1024)))
    tlx.require_layout(x, tlx.layout(((8, 16), (8, 8)), ((8, 64), (1, 1024))), False)
"""

from __future__ import annotations

from ....ir import Op
from ....ir.layouts import ThreadValue
from .rows import expression, unwritten
from .texts import ATOM, Text


@expression("require_layout")
def _required(w, op: Op) -> Text:
    if not isinstance(op.layout, ThreadValue):
        raise unwritten(op, f"a layout {op.layout}")
    shape, stride = (tuple(tuple(mode[at] for mode in modes) for modes in (op.layout.threads, op.layout.values)) for at in (0, 1))
    value = w.text(op.value)
    return Text(f"tlx.require_layout({value.code}, tlx.layout({shape}, {stride}), {bool(op.pin)})", ATOM, value.signed)
