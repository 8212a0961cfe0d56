"""`mimw.check_ttgir`: is a compiled kernel right under every interleaving, whoever compiled it?

Input: TTGIR (a text, a file, or what a compiler returned), a grid and the arguments of the compiled kernel. Output: a `Report`, as
of `mimw.check`. For example:

    print(mimw.check_ttgir("tile.ttgir", (2, 2), a, b, c, 64))      ok: nothing found in 8 runs, 5184 ops ...
    print(mimw.check_compiled(kernel, (2, 2), a, b, c, 64, BLOCK=64, target="sm_90a"))

What is checked are the barriers, fences, waits and groups that the compiler has put in, too. docs/TTGIR.md says which ops are read,
and what is not covered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..compiler.ttgir import Reading, fenced, read_ttgir
from ..errors import SimulatorMisuse
from ..ir.callers import ends_at_call
from ..runtime.call import tool
from ..runtime.launch import Launch
from ..runtime.results import expectations
from ..runtime.ttgir import chip_of, compiled_launch, launch_of
from ..runtime.ttgir_threads import threads_named
from ..target import Target, asking
from .check import LIMIT, SEEDS, conflicts
from .findings import Report
from .search import Search
from .search.processes import job_count
from .search.sample import chosen


@ends_at_call
def check_ttgir(text: Any, grid: Any, *args: Any, file: str | None = None, target: str | None = None,
                seeds: int | Iterable[int] = SEEDS, search: str = "random", limit: int = LIMIT, shrink: bool = True,
                rounds: bool = True, progress: Callable[[int, int, int], None] | None = None, jobs: int | None = None,
                time_limit: float | None = None, ctas: str | Sequence[Sequence[int]] = "all", protocol: bool = False,
                memory: Sequence[Any] = (), expected: Any = None, tolerance: Any = None, late_fences: bool = True) -> Report:
    """Look for races, deadlocks, misused barriers and copies read early in a kernel that is given as TTGIR.

    args:      text      the text of a module with one kernel, as `compiled.asm["ttgir"]` has it or as MLIR prints it; a path to a
                         file with it; a compiled kernel of Triton's; or an MLIR module
               grid      1 to 3 ints
               args      the arguments of the compiled kernel, in order: arrays, numbers, descriptors (`mimw.TensorDescriptor`). No
                         compile-time values. Arrays are left as they were
               file      the name under which lines of the text itself are reported, by default the path
               target    the chip whose rules hold, by default the one that the module names
               late_fences   whether the compiler adds fences between proxies behind TTGIR, and barriers where halves of AMD's waves
                         are apart, as Triton does: they are put in first. False: they are those of the text
               the rest  as for `mimw.check`
    returns:   Report: `.ok`, `.findings`. Lines are those of the author's file, where the module has them
    errors:    TtgirError for a text that MLIR cannot read; NotYet, with text and line, for an op without a meaning here;
               SimulatorMisuse for arguments that do not fit
    """
    text, file = text_of(text, file)
    reading = read_ttgir(fenced(text, file) if late_fences else text, file)
    how = _How(seeds, search, limit, shrink, rounds, progress, jobs, time_limit, ctas, protocol, expected, tolerance)
    return _checked(launch_of(reading, grid, args, memory), reading, chip_of(reading, target), how)


@tool
def check_compiled(kernel: Any, grid: Any, *args: Any, target: str | Any = None, num_warps: int | Any = None,
                   num_stages: int | Any = None, seeds: int | Iterable[int] | Any = SEEDS, search: str | Any = "random",
                   limit: int | Any = LIMIT, shrink: bool | Any = True, rounds: bool | Any = True,
                   progress: Callable[[int, int, int], None] | Any = None, jobs: int | Any = None,
                   time_limit: float | Any = None, ctas: str | Sequence[Sequence[int]] | Any = "all",
                   protocol: bool | Any = False, memory: Sequence[Any] | Any = (), expected: Any = None, tolerance: Any = None,
                   **meta: Any) -> Report:
    """Compile `kernel` for `target`, and check what came out: after all passes of stock Triton (`triton.jit`), of Gluon
    (`gluon.jit`), or of mimw (`mimw.jit`).

    args:      as for `mimw.check`; a kernel of Gluon's, too. No GPU is needed
    returns:   Report
    errors:    those of the compilation, and of `check_ttgir`
    """
    launch, reading = compiled_launch(kernel, grid, args, dict(meta), target, memory)
    how = _How(seeds, search, limit, shrink, rounds, progress, jobs, time_limit, ctas, protocol, expected, tolerance)
    return _checked(launch, reading, chip_of(reading, target), how)


def text_of(given: Any, file: str | None = None) -> tuple[str, str]:
    """(the text of a module, the name of the file that it is in)."""
    if hasattr(given, "asm"):
        return given.asm["ttgir"], file or f"<{getattr(given, 'name', 'kernel')}>"
    if isinstance(given, Path) or isinstance(given, str) and "\n" not in given and given.endswith((".ttgir", ".mlir")):
        try:
            return Path(given).read_text(), file or str(given)
        except OSError as error:
            raise SimulatorMisuse(f"{given} cannot be read: {error.strerror}") from None
    if hasattr(given, "str_nodebug"):
        return str(given), file or "<module>"
    if not isinstance(given, str):
        raise SimulatorMisuse(f"TTGIR is a text, a path, a compiled kernel or a module, not {type(given).__name__}")
    return given, file or "<ttgir>"


class _How(NamedTuple):
    """The keywords of `mimw.check`."""

    seeds: Any
    search: str
    limit: int
    shrink: bool
    rounds: bool
    progress: Any
    jobs: int | None
    time_limit: float | None
    ctas: Any
    protocol: bool
    expected: Any
    tolerance: Any


def _checked(launch: Launch, reading: Reading, chip: Target, how: _How) -> Report:
    begun, choice = time.monotonic(), chosen(how.ctas, launch)
    with threads_named(reading), asking(chip):
        report = Search(launch, how.progress, job_count(how.jobs), how.time_limit, begun, choice, how.protocol,
                        expectations(how.expected, how.tolerance, launch)).all(how.seeds, how.search, how.limit, how.shrink,
                                                                               how.rounds)
    return replace(report, kernel=launch.name, remarks=conflicts(reading, chip))
