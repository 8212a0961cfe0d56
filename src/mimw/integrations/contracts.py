"""What adaptors stand on in a server: names and parameters of its classes and functions, recorded from one version of it.

Input: names, as `module:Class.method`, and a record of them beside this file. Output: nothing, or an error where the server that
is installed has others. For example:

    check("vllm", "0.33.", "0.33.0", ["vllm.model_executor.layers.layernorm:RMSNorm.forward_cuda"])
    parameters(RMSNorm.forward_cuda)            ["x", "residual=None"]

`python -m tests.integrations.record_vllm` writes the records from the sources of the server.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from mimw.errors import MimwError

UNREAD = "..."      # stands for a default that is no literal
_MISSING = object()


class UnreadVersion(MimwError, ImportError):
    """A server has another version than the one whose sources were read."""


class ChangedContract(MimwError, ImportError):
    """A server lacks a class, a function or a parameter that an adaptor uses, or has others."""


def names_of(owner: str, *attributes: str) -> tuple[str, ...]:
    """A class and attributes of it, as names of the record; `module:` and functions of a module likewise, without the module."""
    return tuple(owner + one for one in attributes) if owner.endswith(":") else (owner, *(f"{owner}.{one}" for one in attributes))


def record_of(server: str) -> Path:
    """The file with what was recorded of a server: its version, and for each name its parameters, or which kind of name it is."""
    return Path(__file__).with_name(f"recorded_{server}.json")


@cache
def recorded(server: str) -> dict[str, Any]:
    """The content of the file: {"version": "0.33.0", "contracts": {name: ["x", "residual=None"] or "class" or "attribute"}}."""
    return json.loads(record_of(server).read_text())


def check(server: str, versions: str, found: str, names: Iterable[str]) -> None:
    """Compare the installed server with the record, name by name.

    args:      server     the package, which has a record
               versions   how the versions begin that adaptors are for
               found      the version that is installed
    errors:    UnreadVersion, ChangedContract
    """
    mend = f"Install {server}=={recorded(server)['version']}, or set MIMW_{server.upper()}=none"
    if not found.startswith(versions):
        raise UnreadVersion(f"mimw's adaptors are for {server} {versions.rstrip('.')}, and this is {server} {found}. {mend}")
    for name in names:
        wanted = recorded(server)["contracts"][name]
        there = _found(name, wanted == "attribute")
        if wanted != there and not (isinstance(wanted, list) and isinstance(there, list) and _fit(wanted, there)):
            raise ChangedContract(f"mimw's adaptors were written for {server} {recorded(server)['version']}, where {name} is "
                                  f"{said(wanted)}; in {server} {found}, which is installed, it is {said(there)}. {mend}")


def said(contract: list[str] | str | None) -> str:
    """A contract in words of a message: (x, residual=None), a class, an attribute or missing."""
    if isinstance(contract, list):
        return f"({', '.join(contract)})"
    return f"{'an' if contract == 'attribute' else 'a'} {contract}" if contract else "missing"


def parameters(function: Callable) -> list[str]:
    """The parameters of a function without `self` and `cls`, each with its default, as the record has them."""
    found, star = [], False
    for one in inspect.signature(function).parameters.values():
        if one.name in ("self", "cls") and not found:
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            found, star = [*found, "*"], True
        star = star or one.kind is one.VAR_POSITIONAL
        front = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        found.append(front + one.name + ("" if one.default is one.empty else f"={_literal(one.default)}"))
    return found


def _literal(default: object) -> str:
    try:
        return repr(default) if ast.literal_eval(repr(default)) == default else UNREAD
    except (ValueError, SyntaxError):
        return UNREAD


def _fit(wanted: list[str], there: list[str]) -> bool:
    """True for the same parameters; a default that is no literal may be any."""
    return len(wanted) == len(there) and all(
        a == b or UNREAD in (a.partition("=")[2], b.partition("=")[2]) and a.partition("=")[0] == b.partition("=")[0]
        for a, b in zip(wanted, there))


def _found(name: str, instance: bool) -> list[str] | str | None:
    """The contract of a name in the installed server; `instance` where it may be an attribute that only instances get."""
    module, _, path = name.partition(":")
    *owners, last = path.split(".")
    try:
        owner = import_module(module)
        for part in owners:
            owner = getattr(owner, part)
    except (ImportError, AttributeError):
        return None
    there = inspect.getattr_static(owner, last, _MISSING)
    there = getattr(there, "__func__", there)
    if inspect.isclass(there):
        return "class"
    if inspect.isroutine(there):
        return parameters(there)
    if there is not _MISSING or hasattr(owner, last):
        return "attribute"
    if is_dataclass(owner):
        instance = last in {one.name for one in fields(owner)}
    return "attribute" if instance and inspect.isclass(owner) and not issubclass(owner, Enum) else None


__all__ = ["ChangedContract", "UNREAD", "UnreadVersion", "check", "names_of", "parameters", "record_of", "recorded", "said"]
