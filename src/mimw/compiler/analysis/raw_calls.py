"""Declared effects of a call of native code: a line for reports.

Input: a `raw_call`. Output: text. For example:

    effects_of(op)      scale (kernel.py:12) reads and writes x, reads y, ends in a fence 'gpu'; its text was not looked at
"""

from __future__ import annotations

from ...ir import Op
from ...ir.raw_code import forms_of

_DOES = {"in": "reads", "out": "writes", "inout": "reads and writes"}


def effects_of(op: Op) -> str:
    """The declared effects of one call."""
    done: dict[str, list[str]] = {}
    for name, form in zip(op.attrs["names"], forms_of(op)):
        if form.effect:
            what = _DOES.get(form.effect) or f"arrives {form.arrivals} times on"
            done.setdefault(what, []).append(name)
    said = [f"{what} {', '.join(names)}" for what, names in done.items()]
    if op.attrs.get("fence"):
        said.append(f"ends in a fence {op.attrs['fence']!r}")
    return f"{op.function} ({op.site}) {', '.join(said) or 'touches no memory'}; its text was not looked at"
