"""`mimw.compile_ahead`: the binaries that a function's launches need, compiled side by side before any of them is launched.

Input: a function that launches kernels of ours or calls `mimw.ops`, and its arguments. Output: its binaries, in Triton's cache
on disk. For example:

    done = mimw.compile_ahead(step, x, w)       step(x, w) is called with all launches left out; 32 binaries by as many processes
    done.binaries, done.seconds                 32, 9.4
    step(x, w)                                  launches what it finds in the cache

A process compiles one kernel after the other, as launches come; a model's first step is then minutes of one core. Here a launch is
noted instead: its kernel is specialised as ever, and what would go to the compiler goes to a list. Processes that have touched no
GPU compile the list, and the function's own launches find the results by Triton's key, which is the same.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any
from unittest import mock

from ..compiler.pipeline import MimwSource, compile_source
from ..compiler.triton_port.runtime import JITFunction
from ..runtime.jit import MimwFunction
from ..runtime.standing_still import lasts, still
from ..runtime.text_modules import kernel_of_text, text_of

LIMIT = 600.0       # seconds in which a process compiles its part


@dataclass(frozen=True)
class CompiledAhead:
    """binaries   how many were compiled by processes of this call
    failed     what was not, each a line with the kernel's name; its launch will say it with the kernel's line
    seconds    of the whole
    """

    binaries: int
    failed: tuple[str, ...]
    seconds: float


def compile_ahead(function: Callable[..., Any], /, *args: Any, jobs: int | None = None, share: tuple[int, int] = (0, 1),
                  **keywords: Any) -> CompiledAhead:
    """Call `function(*args, **keywords)` with every launch left out, then compile its kernels in parallel.

    args:      function   anything that launches: a model's step, a test. What kernels would have written is not there, so tensors
                          hold whatever they held: a function that decides by their values, or indexes with them, may go astray. Its
                          other calls, of torch too, happen; ranks of a group still synchronise where their operators do
               jobs       processes; by default MIMW_JOBS, or one a core
               share      (rank, ranks): of the binaries, in an order that is the same for the same list, this process has every
                          `ranks`-th compiled from `rank` on. For ranks that share a cache on disk and synchronise before the launch
    returns:   CompiledAhead. Whatever the function returns is of no use, and dropped
    errors:    those of `function`; the result lists kernels that do not compile, and their launches raise the error
    """
    from .search.processes import job_count

    began = time.monotonic()
    with noted() as noting:
        function(*args, **keywords)
    rank, ranks = share
    mine = sorted(noting.values(), key=lambda job: sha256(job).digest())[rank::ranks]
    failed = compiled(mine, job_count(jobs))
    return CompiledAhead(len(mine) - len(failed), tuple(failed), time.monotonic() - began)


@contextlib.contextmanager
def noted() -> Iterator[dict[tuple, bytes]]:
    """Meanwhile no kernel of ours is launched by this process, and what would be compiled is noted: {its key: a job}. A kernel
    that no other process can import is compiled at once, as ever."""
    jobs: dict[tuple, bytes] = {}

    def note(kernel: MimwFunction, key: str, target: Any, signature: dict, constants: dict, options: Any, attrs: dict) -> bool:
        job = job_of(kernel, signature, constants, attrs, target, options.__dict__)
        if job is not None:
            jobs[id(kernel), key] = job
        return job is not None

    with still(), mock.patch.multiple(MimwFunction, note=staticmethod(note), __getitem__=_noting, freeze=_not_frozen):
        yield jobs


def leaves_launches_out() -> bool:
    """True while launches are left out, by this or by a recording of a graph: what they would have written is not there."""
    return lasts()


def _noting(kernel: MimwFunction, grid: Any) -> Callable[..., None]:
    """`kernel[grid]`, meanwhile."""
    return lambda *args, **keywords: _noted(kernel, grid, args, keywords)


def _noted(kernel: MimwFunction, grid: Any, args: tuple, keywords: dict) -> None:
    kernel.warmup(*args, grid=grid, **keywords)


class NotFrozen:
    """The result of `kernel.freeze` meanwhile: it launches nothing, and is for no device."""

    device = None

    def __call__(self, *values: Any, stream: Any = None) -> None:
        """Nothing."""

    launch = launch_arrays = __call__

    def forget(self) -> NotFrozen:
        return self


def _not_frozen(kernel: MimwFunction, grid: Any, /, *args: Any, **keywords: Any) -> NotFrozen:
    _noted(kernel, grid, args, keywords)
    return NotFrozen()


# ---- jobs: what is to be compiled, as bytes for another process -----------------------------------------------------------------


class _NoOtherProcess(Exception):
    """A kernel is not to be found by its module and name."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> tuple[str, str] | None:
        return place_of(value) if isinstance(value, JITFunction) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, place: tuple[str, str]) -> Any:
        return found(*place)


def place_of(kernel: JITFunction) -> tuple[str, str]:
    """(module, name) by which another process finds a kernel or a helper; (file, name) of one that mimw has written."""
    if (file := text_of(kernel)) is not None:
        return file, kernel.fn.__qualname__
    place = kernel.fn.__module__, kernel.fn.__qualname__
    try:
        same = place[0] != "__main__" and found(*place) is kernel
    except (AttributeError, ImportError):
        same = False
    if not same:
        raise _NoOtherProcess(f"{place[0]}.{place[1]}")
    return place


def found(module: str, name: str) -> Any:
    """The kernel of that name, without an autotuner around it."""
    if module.endswith(".py"):
        return kernel_of_text(module, name)
    value: Any = import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    while not isinstance(value, JITFunction):
        value = value.fn
    return value


def job_of(*what: Any) -> bytes | None:
    """A kernel's specialisation as bytes; None where another process could not have it."""
    try:
        _Pickler(written := io.BytesIO()).dump(what)
    except (_NoOtherProcess, pickle.PicklingError, AttributeError, TypeError):
        return None
    return written.getvalue()


def compiled(jobs: list[bytes], processes: int) -> list[str]:
    """Have the jobs compiled, each process some of them. What failed, and why."""
    from .processes import DONE, run

    processes = max(1, min(processes, len(jobs)))
    parts = [(number, _compile_all, (jobs[number::processes], )) for number in range(processes if jobs else 0)]
    failed: list[str] = []
    for ended in run(parts, processes, LIMIT):
        failed += ended.value if ended.how == DONE else [f"{ended.how}: {ended.text}"]
    return failed


def _compile_all(jobs: list[bytes]) -> list[str]:
    """Of a process: the errors of its jobs."""
    failed = []
    for job in jobs:
        name = "a kernel that this process does not find"
        try:
            kernel, signature, constants, attrs, target, options = _Unpickler(io.BytesIO(job)).load()
            name = kernel.__name__
            compile_source(MimwSource(kernel, signature, constants, attrs), target, options)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
    return failed


__all__ = ["CompiledAhead", "compile_ahead", "noted"]
