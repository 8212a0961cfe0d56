"""Names of Triton that this package uses, and those that another Triton lacks or has in another form.

Input: the Triton that is installed. Output: for each name that is not as this release of the package needs it, what is wrong:

    broken()        {"triton.compiler.compiler:compile": "takes (src, target, options), and not (src, target=None, ...)"}

Three kinds of names: what the door's files import; functions that we call or replace, with their parameters, as `borrowed.txt`
has them (`module:name(parameters)`, without annotations); and the methods of Triton's builder that lowering calls. `mimw doctor
--triton` prints them; docs/PACKAGE.md, "Following Triton", says what to do then.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

from .differences import ABSENT

_HERE = Path(__file__).parent
_BUILDER = "triton._C.libtriton.gluon_ir:GluonOpBuilder"
_CALLED = re.compile(r"\bbuilder\.((?:create|get|set|restore|new)_\w+)\(")


@cache
def signatures() -> tuple[tuple[str, str], ...]:
    """(name, parameters) of each function that we call or replace."""
    lines = (_HERE / "borrowed.txt").read_text().splitlines()
    return tuple((name, parameters.removesuffix(")")) for name, _, parameters in (line.partition("(") for line in lines))


@cache
def imported() -> tuple[str, ...]:
    """Each name that a file of the door imports, as `module:name`, and each module, as `module:`."""
    found = set()
    for path in sorted(_HERE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "triton":
                found |= {f"{node.module}:{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {f"{alias.name}:" for alias in node.names if alias.name.partition(".")[0] == "triton"}
    return tuple(sorted(found))


@cache
def built() -> tuple[str, ...]:
    """Each method of Triton's builder that lowering calls by its name, as `module:GluonOpBuilder.method`."""
    called = {name for path in (_HERE.parent / "lowering").rglob("*.py") for name in _CALLED.findall(path.read_text())}
    return tuple(f"{_BUILDER}.{name}" for name in sorted(called))


def names() -> tuple[str, ...]:
    """All of them, each once."""
    return tuple(dict.fromkeys((*imported(), *(name for name, _ in signatures()), *built())))


def broken() -> dict[str, str]:
    """The names that the installed Triton lacks or has in another form, each with the difference; empty if there are none."""
    found = {}
    for name in (*imported(), *built()):
        wrong = None if name in ABSENT else missing(name)
        if wrong:
            found[name] = wrong
    for name, parameters in signatures():
        wrong = missing(name) or _other_parameters(name, parameters)
        if wrong:
            found[name] = wrong
    return found


def missing(name: str) -> str | None:
    """The part of `module:path` that does not exist, in words; None if all of it does."""
    module, _, path = name.partition(":")
    try:
        owner = importlib.import_module(module)
    except ImportError as error:
        return f"no module {module} ({error})"
    reached = module
    for part in filter(None, path.split(".")):
        if not hasattr(owner, part):
            if inspect.ismodule(owner) and _is_module(f"{reached}.{part}"):
                return None
            return f"{reached} has no {part}"
        owner, reached = getattr(owner, part), f"{reached}.{part}"
    return None


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _other_parameters(name: str, wanted: str) -> str | None:
    module, _, path = name.partition(":")
    owner: Any = importlib.import_module(module)
    for part in path.split("."):
        owner = getattr(owner, part)
    try:
        parameters = inspect.signature(owner).parameters.values()
    except (TypeError, ValueError):
        return "is no function with parameters"
    has = ", ".join(str(one.replace(annotation=inspect.Parameter.empty)) for one in parameters)
    return None if has == wanted else f"takes ({has}), and not ({wanted})"
