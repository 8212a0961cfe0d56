"""Expressions of Python over the names of a kernel, at the op where a task stands.

Input: a text, a task, and what is known of its launch. Output: the value. For example:

    total[0, :4] * 2            a tile of the task, as an array of numpy
    ring[1].max()               slot 1 of a buffer, as it is now
    full[0].phase, row == 3     a barrier; numbers
    y, x                        what the arrays of the launch hold now
    np.allclose(y, 0)           numpy, and whatever else the kernel's file names

The kernel's own names come first, then its arguments and constants, then those of its file.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from types import CodeType
from typing import Any

import numpy as np

from ...errors import SimulatorMisuse
from ...ir import Barrier, Buffer, Op
from ...ir.world import at_rank
from ...runtime.simulate import Launch
from .scope import Scopes
from .values import plain, seen

_MISSING = object()
Place = tuple[Any, Op | None]       # a task, and the op at which it stands


class Names:
    """The names of one launch. A name that a task does not know is looked for in the other tasks of its CTA."""

    def __init__(self, launch: Launch, scopes: Scopes):
        self.fn, self._values = launch.specialisation.fn, launch.values
        self._scopes = scopes
        self._constants = {self.fn.arg_names[path[0]]: value for path, value in launch.specialisation.constants.items()
                           if len(path) == 1}
        self._params = {param.value: param.path for param in launch.program.params}

    def of(self, place: Place) -> list[str]:
        """The names that a task has a value for at an op, and the kernel's arguments and constants."""
        task, op = place
        known = [name for name, value in self._scopes.at(op).items()
                 if value in task.env and value not in self._params] if task is not None else []
        return list(dict.fromkeys([*known, *self.fn.arg_names]))

    def held(self, task: Any, op: Op) -> list[tuple[str, Any]]:
        """(name, what the task's environment holds) of its own names at an op: not those of the launch, no buffers, no barriers."""
        return [(name, task.env[value]) for name, value in self._scopes.at(op).items() if value in task.env
                and value not in self._params and not isinstance(value.type, (Buffer, Barrier))]

    def evaluated(self, text: str, places: Sequence[Place]) -> tuple[Any, list[str]]:
        """The value of an expression, and which names in it are another task's: "total of task 'add'". `places` are tasks with the
        op at which each stands, the one that is meant first.

        errors:    those of the expression; SimulatorMisuse for a name that is not there
        """
        code = compile(text.strip(), "<expression>", "eval")
        found, others = {"np": np}, []
        for name in sorted(_names(code)):
            value, owner = self.value(name, places)
            if value is not _MISSING:
                found[name] = value
            if owner is not None and owner is not places[0][0]:
                others.append(f"{name} of task {owner.name!r}")
        try:
            return eval(code, found), others
        except NameError as error:
            raise self._missing(getattr(error, "name", None) or text, places) from None

    def _missing(self, name: str, places: Sequence[Place]) -> SimulatorMisuse:
        there = list(dict.fromkeys(name for place in places for name in self.of(place)))
        close = get_close_matches(name, there, n=1)
        mend = f"did you mean {close[0]!r}?" if close else (
            f"there are {', '.join(there)}. A name has a value once it is assigned; what nothing uses is not computed.")
        return SimulatorMisuse(f"{name!r} has no value here", hint=mend)

    def value(self, name: str, places: Sequence[Place]) -> tuple[Any, Any]:
        """The value of a name, also of "rows.total", a field of a struct; and the task whose it is, if it is a task's."""
        for task, op in places:
            value = self._scopes.at(op).get(name)
            if value in self._params:
                break
            if value is not None and value in task.env:
                return seen(task.env[value]), task
        else:
            value = None
        given = self._params.get(value) or ((self.fn.arg_names.index(name), ) if name in self.fn.arg_names else None)
        if given is not None and (array := self._array(given, places[0][0] if places else None)) is not None:
            return array, None
        if value is not None:
            return seen(places[0][0].env[value]), None
        if any(value.startswith(f"{name}.") for place in places for value in self.of(place)):
            return Fields(name, self, places), None
        for _, op in places:
            if constant := self._scopes.constant(op, name):
                return constant[0], None
        if name in self._constants:
            return self._constants[name], None
        return self.fn.get_capture_scope().get(name, _MISSING), None

    def _array(self, path: tuple[int, ...], task: Any) -> np.ndarray | None:
        """The array of an argument, as it is in global memory now; None for what is no array."""
        host = self._values.get(path[:1]) if path[:1] in self._values else self._values.get(path)
        rank = task.cta.gpu.rank if task is not None and task.cta.gpu is not None else 0
        return array_of(at_rank(host, rank or 0))


class Fields:
    """A struct of the kernel: its fields are attributes, those that have a value."""

    def __init__(self, name: str, names: Names, places: Sequence[Place]):
        self._name, self._names, self._places = name, names, places

    def __getattr__(self, field: str) -> Any:
        value, _ = self._names.value(f"{self._name}.{field}", self._places)
        if value is _MISSING:
            raise AttributeError(f"{self._name} has no field {field!r} here; there are {', '.join(dir(self))}")
        return value

    def __dir__(self) -> list[str]:
        known = (name.removeprefix(f"{self._name}.") for place in self._places for name in self._names.of(place)
                 if name.startswith(f"{self._name}."))
        return sorted({name.partition(".")[0] for name in known})

    def __repr__(self) -> str:
        return f"{self._name} with the fields {', '.join(dir(self))}"


def array_of(host: Any) -> np.ndarray | None:
    """The array of an argument of the host: of a descriptor the one under it, of a tensor its elements."""
    host = getattr(host, "base", host) if hasattr(host, "block_shape") else host
    host = getattr(host, "array", host)
    if isinstance(host, np.ndarray):
        return plain(host)
    if hasattr(host, "detach"):
        host = host.detach()
        return host.float().numpy() if host.is_floating_point() and host.element_size() < 4 else host.numpy()
    return None


def _names(code: CodeType) -> set[str]:
    """The names that an expression mentions, also in its comprehensions and lambdas."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return {*code.co_names, *(name for one in inner for name in _names(one))}
