"""The rows of forms.json: what a package has to know of each binary to choose it and to launch it.

Input: an exported kernel. Output: a dictionary of plain values, of which packaged/forms.py is the reader:

    row_of(exported, "swiglu-0.cubin", {"block": 1024})["threads"]      128

The schema of an operator that is the launch itself is made here, too, of all forms together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ....errors import LaunchError
from ..arguments import KINDS, Argument, Number
from ..made import Exported
from ..torch_cpp import check_for_torch

_GRID = ("SymInt grid_x", "SymInt grid_y=1", "SymInt grid_z=1")


def row_of(exported: Exported, file: str, select: Mapping[str, Any]) -> dict[str, Any]:
    """The row of one form.

    errors:    LaunchError for arguments that torch does not pass, and for constants or facts that are no plain values
    """
    arguments = check_for_torch(exported.facts.name, exported.arguments)
    for name, value in (*exported.fixed.items(), *select.items()):
        if not isinstance(value, (int, float, str, type(None))):
            raise LaunchError(f"{name} of {exported.facts.name} is {value!r}; a package has numbers, texts, truth values and None",
                              hint="choose forms by such facts")
    return {"file": file, **asdict(exported.facts), "select": dict(select), "parameters": list(exported.parameters),
            "fixed": dict(exported.fixed), "arguments": [{"is": KINDS[type(one)], **asdict(one)} for one in arguments]}


def schema_of(exported: Sequence[Exported]) -> tuple[str, list[str]]:
    """The schema of the launch as an operator, without its name, and the parameters that it has. A parameter that is a constant in
    every form is none; a tensor that is None in some form may be None."""
    found, aliases = [], iter("abcdefghijklmnopqrstuvwxyz")
    for name in exported[0].parameters:
        kinds = [one for form in exported for one in form.arguments if one.name == name]
        if not kinds:
            continue
        absent = any(name in form.fixed and form.fixed[name] is None for form in exported)
        found.append((name, _type(kinds[0], absent, aliases if any(name in form.written for form in exported) else None)))
    parts = [*(f"{kind} {name}" for name, kind in found), *_GRID]
    return f"({', '.join(parts)}) -> ()", [name for name, _ in found]


def _type(one: Argument, absent: bool, aliases: Any) -> str:
    if isinstance(one, Number):
        return ("float" if one.c_type in ("float", "double") else "SymInt") + "?" * absent
    return f"Tensor({next(aliases)}!)" + "?" * absent if aliases else "Tensor" + "?" * absent
