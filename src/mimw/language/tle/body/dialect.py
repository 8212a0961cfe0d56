"""The dialects that raw bodies name: modules of ops, of which each records what it does for all threads.

Input: a function that records an op. Output: the op, under its name and under the class name of MLIR's bindings. For example:

    @op("arith")
    def addi(body, lhs, rhs): ..        arith.addi(a, b), and arith.AddIOp(a, b).result
    arith.addi(1, 2)                    on the host: RuntimeError

`body` is the `Walker` of the body. MLIR's bindings are not needed: these modules stand in for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from types import ModuleType
from typing import Any

import triton.language.core as tl

_HIDDEN = ("loc", "ip", "context")      # what MLIR's bindings take everywhere, and bodies do not need


class Op:
    """An op of a dialect: a name in bodies, nothing that the host can call."""

    def __init__(self, dialect: str, name: str, record: Callable):
        self.name, self._record = f"{dialect}.{name}", record
        self.signature = inspect.signature(record)
        self.__doc__ = record.__doc__
        setattr(self, tl.TRITON_BUILTIN, True)

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"{self.name} is called outside a raw body; write it in a function under "
                           "@tle.raw.language(name=\"mlir\") or @tle.raw.dialect(name=\"mlir\")")

    def record(self, body, args: list, kwargs: dict) -> Any:
        """Record the op in `body`; return its result. RawCodeError for arguments that do not bind."""
        kwargs = {name: value for name, value in kwargs.items() if name not in _HIDDEN}
        try:
            bound = self.signature.bind(body, *args, **kwargs)
        except TypeError as error:
            usage = ", ".join(name for name in list(self.signature.parameters)[1:])
            body.fail(f"{self.name}({usage}): {error}")
        return self._record(*bound.args, **bound.kwargs)

    def __repr__(self) -> str:
        return self.name


class Dialect(ModuleType):
    """A module of ops. It answers to the names of the functions and of the op classes, as MLIR's bindings have them."""

    def __init__(self, name: str):
        super().__init__(f"mimw.tle.raw.{name}", f"Ops of the dialect {name} for raw bodies.")
        self._dialect, self._classes = name, {}

    def _add(self, name: str, record: Callable, classes: tuple[str, ...]) -> Op:
        found = Op(self._dialect, name, record)
        setattr(self, name, found)
        for one in (*classes, f"{name.strip('_')}Op"):
            self._classes[_plain(one)] = found
        return found

    def __getattr__(self, name: str):
        if not name.startswith("_"):
            if name.endswith("Op") and _plain(name) in self._classes:
                return self._classes[_plain(name)]
            close = get_close_matches(name, [one for one in vars(self) if not one.startswith("_")], n=2, cutoff=0.6)
            hint = f". Did you mean {' or '.join(f'{self._dialect}.{one}' for one in close)}?" if close else ""
            raise AttributeError(f"raw bodies have no {self._dialect}.{name}{hint}")
        raise AttributeError(name)


DIALECTS = {name: Dialect(name) for name in ("arith", "math", "memref", "tensor", "vector", "scf", "llvm", "nvvm", "gpu", "func",
                                             "mlir")}


def op(dialect: str, name: str = "", classes: tuple[str, ...] = ()):
    """Make a function an op of a dialect, by its own name or `name`; `classes` are further names of its class."""

    def define(record: Callable) -> Op:
        return DIALECTS[dialect]._add(name or record.__name__, record, classes)

    return define


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
