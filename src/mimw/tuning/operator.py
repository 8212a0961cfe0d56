"""Operators to tune: an operator's problems, its configurations, and the functions that make, check and time a launch.

Input: a shape and a type, as text. Output: a `Problem`; for it candidates, launches and, on a GPU, a `Trial`. For example:

    gemm = operators.find("gemm")
    problem = gemm.problem("4096x4096x4096", "bf16")
    gemm.candidates(problem, 132)                       [Configuration(bm=128, bn=256, ...), ...]

The operators of the library are in `operators/`; one of your own is a subclass of `Operator`, and `mimw tune module:NAME` finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from ..errors import TuningError


@dataclass(frozen=True)
class Problem:
    """One shape of one operator: `extents` in the order of the operator's `names`, and words such as "causal"."""

    operator: str
    extents: tuple[int, ...]
    dtype: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join(["x".join(map(str, self.extents)), *self.words]) + f" {self.dtype}"


@dataclass(frozen=True)
class Trial:
    """A launch on the device, ready to run.

    run        launches; its arguments are made
    check      after a run: how far the result is off; an AssertionError that says how far, where that is too far
    baselines  what computes the same, by name; the first is the one that the ratio of a report is to
    calls      how many calls a `run`, and a baseline, are: of those that replay a graph
    """

    run: Callable[[], Any]
    check: Callable[[], float]
    baselines: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    calls: int = 1


class Cuda:
    """The CUDA device of the process, by torch. Only processes that measure ask it: one that has asked cannot fork any more."""

    def describe(self) -> dict | None:
        """Name and number of multiprocessors of the device; None where torch or a device is missing."""
        try:
            import torch
        except ImportError:
            return None
        if not torch.cuda.is_available():
            return None
        found = torch.cuda.get_device_properties(0)
        return {"name": found.name, "sms": found.multi_processor_count, "target": "sm_{}{}".format(*_capability(found))}

    def wait(self) -> None:
        """Wait for the end of all launches; raise the errors of those that failed."""
        import torch
        torch.cuda.synchronize()

    def time(self, candidates: Mapping[str, Callable[[], Any]], at_least_ms: float) -> dict[str, float]:
        """Median microseconds of each, in turn (`mimw.testing.benchmark.alternate`)."""
        from ..testing.benchmark import alternate
        return alternate(candidates, at_least_ms)


def _capability(found) -> tuple[int, str]:
    suffix = "a" if found.major in (9, 10, 12) else ""
    return found.major, f"{found.minor}{suffix}"


class Operator:
    """The base of all operators. A subclass says

    name, names, dtypes, words   its own name, those of its extents, what `--dtype` may be (the first by default), and the words
                                 that a shape may end in
    configuration_type           the dataclass of its configurations
    file                         the kernel's configs.json, or None where configurations follow from a rule in code
    candidates, launches, trial  below
    """

    name: ClassVar[str] = ""
    names: ClassVar[tuple[str, ...]] = ()
    dtypes: ClassVar[tuple[str, ...]] = ("bf16", )
    words: ClassVar[tuple[str, ...]] = ()
    configuration_type: ClassVar[type] = dict
    file: ClassVar[Path | None] = None
    device: Any = Cuda()

    def used(self, problem: Problem, sms: int):
        """The library's present choice on a device of `sms` multiprocessors; it is always among the configurations measured.
        None if there is none yet."""
        return None

    def candidates(self, problem: Problem, sms: int) -> list:
        """The configurations that may be good for the problem on such a device."""
        raise NotImplementedError

    def launches(self, problem: Problem, chosen, sms: int) -> list[tuple]:
        """(kernel, grid, args, meta) of each launch on a device of so many multiprocessors, with numpy arrays that hold nothing:
        they are compiled and predicted, never run. The first is the one that is pruned by."""
        raise NotImplementedError

    def trial(self, problem: Problem, chosen) -> Trial:
        """The launch on this process's device, on random numbers."""
        raise NotImplementedError

    def rate(self, problem: Problem, microseconds: float) -> str:
        """The rate of a launch of `microseconds`, as "612 TFLOP/s"; "" for an operator without such a unit."""
        return ""

    def row(self, problem: Problem, chosen) -> dict:
        """One row of `file`: the fields that identify a problem, and `configuration`."""
        raise TuningError(f"{self.name} chooses by a rule in its configs.py and reads no file, so there is nothing to write to",
                          hint="take the best from the report, or from the journal")

    def problem(self, text: str, dtype: str | None = None) -> Problem:
        """The problem that `text` names, as "4096x4096x4096" or "4x48x8192x128:causal"; TuningError for any other text."""
        shape, *words = text.split(":")
        numbers = shape.split("x")
        if len(numbers) != len(self.names) or not all(one.isdigit() and int(one) for one in numbers):
            raise TuningError(f"{text!r} is no shape of {self.name}", hint=f"write {'x'.join(self.names)} as numbers"
                              + (f", then if wanted {' or '.join(':' + word for word in self.words)}" if self.words else ""))
        if unknown := [word for word in words if word not in self.words]:
            raise TuningError(f"{text!r}: {self.name} knows no {unknown[0]!r}",
                              hint=f"it takes {', '.join(self.words) or 'no such names'}")
        dtype = dtype or self.dtypes[0]
        if dtype not in self.dtypes:
            raise TuningError(f"{self.name} is not tuned for {dtype!r}", hint=f"there are {', '.join(self.dtypes)}")
        return Problem(self.name, tuple(map(int, numbers)), dtype, tuple(sorted(words)))


def values_of(chosen) -> dict:
    """A configuration as data."""
    return asdict(chosen)


def with_fields(operator: Operator, candidates: list, wanted: Mapping[str, tuple]) -> list:
    """The candidates with each of the fields at each of the values that are `wanted`, without repetitions."""
    known = operator.configuration_type.__dataclass_fields__
    for name in wanted:
        if name not in known:
            raise TuningError(f"a configuration of {operator.name} has no {name!r}", hint=f"it has {', '.join(known)}")
    found = [replace(one, **dict(zip(wanted, values))) for one in candidates for values in product(*wanted.values())]
    return list(dict.fromkeys(found))
