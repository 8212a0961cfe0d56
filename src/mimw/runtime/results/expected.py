"""`expected=` read: which arrays are to hold what after a launch.

Input: what the author gives, and a launch made ready. Output: an `Expected` for each array. For example:

    expectations({"y": x.sum(0)}, None, launch)             Expected("y", None, array, want, 1e-4)
    expectations(lambda x: x.sum(0), None, launch)          the same, where `y` is all that the kernel writes

A function is called here, before the launch, while the arguments still are what they were; what it gives is copied.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compiler.analysis.written import written
from ...errors import SimulatorMisuse
from ...ir.world import PerRank
from .arrays import base_of, is_arraylike, numbers, type_name

# By how much a result may differ: rounding of the type, and of sums of some thousand numbers in another order.
TOLERANCES = {"float64": 1e-10, "float32": 1e-4, "float16": 2e-3, "bfloat16": 1.6e-2, "float8_e4m3fn": 0.125, "float8_e5m2": 0.25}
OF_TF32 = 2e-3          # fp32 where the kernel multiplies tiles of fp32, which tensor cores read as tf32


@dataclass(frozen=True, eq=False)
class Expected:
    """One array, the argument `name` (of `rank`, where there are several GPUs), which is to hold `want`; `tolerance` is 0 for
    integers."""

    name: str
    rank: int | None
    array: Any
    want: np.ndarray
    tolerance: float


def expectations(expected: Any, tolerance: Any, launch: Any) -> tuple[Expected, ...]:
    """The arrays of a `Launch` of which something is expected, each with what it is to hold; () for None.

    errors:    SimulatorMisuse for a name or place that the kernel does not have, an argument that is no array, another shape, and a
               function with parameters that are no arguments of the kernel
    """
    if expected is None:
        return ()
    given = launch.arguments
    if callable(expected):
        expected = _called(expected, given)
    by_name = _by_name(expected, launch, "expected") if not is_arraylike(expected) else {_only_result(launch): expected}
    allowed = _by_name(tolerance, launch, "tolerance") if isinstance(tolerance, Mapping) else dict.fromkeys(by_name, tolerance)
    found = []
    for name, want in by_name.items():
        argument = given[name]
        if isinstance(argument, PerRank):
            if len(want) != len(argument):
                raise SimulatorMisuse(f"expected= gives {len(want)} arrays for {name!r}, which has one for each of "
                                      f"{len(argument)} ranks", hint="give an array for each rank")
            found += [_one(name, rank, argument[rank], want[rank], allowed.get(name), launch) for rank in range(len(argument))]
        else:
            found.append(_one(name, None, argument, want, allowed.get(name), launch))
    return tuple(found)


def _one(name: str, rank: int | None, argument: Any, want: Any, tolerance: float | None, launch: Any) -> Expected:
    array = base_of(argument)
    if not is_arraylike(array):
        raise SimulatorMisuse(f"expected= gives values for {name!r}, which is no array but {argument!r:.60}",
                              hint=f"name an array that the kernel writes{_results(launch)}")
    want = numbers(base_of(want))
    want = np.ma.array(want, copy=True) if isinstance(want, np.ma.MaskedArray) else np.array(want)
    if want.shape != tuple(array.shape):
        raise SimulatorMisuse(f"expected= gives the shape {want.shape} for {name!r}, which has {tuple(array.shape)}",
                              hint="give an array of the argument's shape")
    if tolerance is None:
        tolerance = _tolerance(type_name(array), launch)
    if not isinstance(tolerance, (int, float)) or not 0 <= tolerance < float("inf"):
        raise SimulatorMisuse(f"tolerance= is {tolerance!r} for {name!r}",
                              hint="give a number, 0 or more, or a dictionary of such by the names of arguments")
    return Expected(name, rank, array, want, float(tolerance))


def _called(function: Callable, given: Mapping[str, Any]) -> Any:
    """The value of the author's function, for the arguments that its parameters name."""
    parameters = inspect.signature(function).parameters.values()
    unknown = next((one.name for one in parameters if one.name not in given and one.default is one.empty), None)
    if unknown is not None:
        raise SimulatorMisuse(f"expected= is a function with a parameter {unknown!r}, and the kernel has no argument of that name. "
                              f"It has: {', '.join(given)}", hint="name the arguments that it computes from")
    inputs = {one.name: _input(given[one.name]) for one in parameters if one.name in given}
    try:
        return function(**inputs)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise SimulatorMisuse(f"expected= raised {type(error).__name__}: {' '.join(str(error).split())} ({where.filename}:"
                              f"{where.lineno})", hint="it is called with the arguments that its parameters name, before the "
                                                       "launch") from error


def _input(value: Any) -> Any:
    if isinstance(value, PerRank):
        return [base_of(one) for one in value]
    return base_of(value)


def _by_name(values: Any, launch: Any, what: str) -> dict[str, Any]:
    """By names what is given by names or places of arguments."""
    if not isinstance(values, Mapping):
        raise SimulatorMisuse(f"{what}= is, or gives, a {type(values).__name__}",
                              hint=f"give a dictionary by the names of arguments{_results(launch)}")
    names = list(launch.arguments)
    found = {}
    for key, value in values.items():
        known = key in names if isinstance(key, str) else isinstance(key, int) and 0 <= key < len(names)
        if not known:
            raise SimulatorMisuse(f"{what}= names {key!r}, and the kernel has no such argument. It has: {', '.join(names)}",
                                  hint=f"name an array that the kernel writes{_results(launch)}")
        found[key if isinstance(key, str) else names[key]] = value
    return found


def _only_result(launch: Any) -> str:
    """The one argument that the kernel writes."""
    found = written(launch.program)
    if found is None or len(found) != 1:
        raise SimulatorMisuse("expected= is, or gives, one array, and the kernel writes "
                              + (f"{len(found)} arguments" if found else "no argument that can be identified"),
                              hint=f"give a dictionary by the names of arguments{_results(launch)}")
    return next(iter(found))


def _results(launch: Any) -> str:
    found = sorted(written(launch.program) or ())
    return f": {', '.join(found)}" if found else ""


def _tolerance(kind: str, launch: Any) -> float:
    if kind == "float32" and any("dot" in op.row.traits and _of_fp32(op) for op in launch.program.walk()):
        return OF_TF32
    return TOLERANCES.get(kind, TOLERANCES["float8_e5m2"] if kind.startswith("float8") else 0.0)


def _of_fp32(op: Any) -> bool:
    kind = getattr(getattr(op, "a", None), "type", None)
    return str(getattr(kind, "element", "")) == "fp32"
