"""`mimw.check`: is a kernel right under every interleaving?

Input: a kernel, a grid and arguments, as for `mimw.simulate`, and how many seeds. Output: a `Report`. For example:

    print(mimw.check(double, (2, ), x, 256, BLOCK=128))       ok: nothing found in 8 runs, 304 ops ...

One launch is run many times on the simulator, each time by another interleaving, and every access, barrier and wait is
held against the memory model (docs/MEMORY_MODEL.md). A finding is reported, not raised, with the smallest launch that
shows the finding.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..compiler.passes import declared_effects, remarks
from ..errors import (
    AssertionFailed,
    KernelError,
    LanguageError,
    MimwError,
    NotYet,
    RemarkWarning,
    SimulatorMisuse,
    TargetError,
    causes,
)
from ..runtime.call import resolve, tool
from ..runtime.fits import check_fits
from ..runtime.results import expectations
from ..runtime.simulate import prepare
from ..runtime.ttgir_threads import threads_named
from ..target import Target, asking, wanted
from .findings import Report
from .mends.mending import mending
from .search import Search
from .search.outcomes import finding_of
from .search.processes import job_count
from .search.replay import Replay
from .search.sample import chosen

SEEDS, LIMIT = 8, 200


@tool
@mending
def check(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
          gpus: int | Any = None, seeds: int | Iterable[int] | Any = SEEDS, search: str | Any = "random", limit: int | Any = LIMIT,
          shrink: bool | Any = True, rounds: bool | Any = True, mends: bool | float | Any = False,
          progress: Callable[[int, int, int], None] | Any = None,
          jobs: int | Any = None, time_limit: float | Any = None, ctas: str | Sequence[Sequence[int]] | Any = "all",
          protocol: bool | Any = False, memory: Sequence[Any] | Any = (), expected: Any = None, tolerance: Any = None,
          **meta: Any) -> Report:
    """Look for races, deadlocks and protocol errors of `kernel` over `grid`. Arrays are left as they were.

    args:      kernel, grid, args, target, num_warps, num_stages, gpus, memory, meta   as for `mimw.simulate`
               expected, tolerance   as for `mimw.Case`: the results of all runs of the launch are compared, and these have all data
               seeds     how many seeds, or which; each is one random interleaving. 0 lands every copy as late as can be;
                         the schedule of a finding may stand among them, too
               search    "random": the seeds. "systematic": all interleavings that can matter, by partial-order reduction,
                         `limit` runs at most. "both"
               shrink    whether to look for a smaller grid and smaller integer arguments that still show a finding
               rounds    whether to run smaller launches, too, if nothing is found: as many rounds of each loop as break rings
                         (0, 1, 2, and as many as slots, one less and one more), and two tiles a program, where arguments allow.
                         Of programs that do the same there, the first and the last run
               mends     True, or a number of seconds: where something is found, look for a small change of the kernel's source with
                         which nothing is found (docs/CHECKING.md, "Mends"). The report has it in `.mend`, and its findings `.edits`
               progress  called as progress(run, runs, findings) after every run
               jobs      how many processes share the seeds, and the smaller launches, among themselves; by default MIMW_JOBS or as
                         many as there are cores. The report is the same with any number. More than one are started only where
                         the runs take long enough, and where a process can be forked: by the main thread, with no other thread
                         (torch's included) and no CUDA context in it, and no array in memory shared with other processes
               time_limit  seconds from the call on after which no run is started any more but the first; a run that has started is
                         not interrupted. The report says in `.stopped` what there was no time for
               ctas      "all"; "sample": in each run the first, the last and one more cluster, which the seed draws, in a grid of
                         which the others are left out; or program ids, whose clusters run. The report says in `.unseen` what that
                         does not show; stores of different clusters are still compared, by their addresses, for the whole grid.
                         Refused are kernels whose CTAs wait for each other, or draw their work from a counter. On several GPUs
                         a program runs at all ranks, together with those whose signals it waits for
               protocol  True: leave tile data out, where it decides nothing (zeros stand for it), so that runs are faster. What
                         decides control flow, addresses, masks, barriers and atomics is still computed, so the findings are
                         those of a full run, less assertions on tiles, divisions by zero and indices of `tl.gather`. Seeds after
                         the first and smaller launches run so by themselves where none of these is about such tiles
    returns:   Report: `.ok`, `.findings`, each different finding once. What the compiler refuses is a finding, too
    errors:    misuse only: SimulatorMisuse, NotYet, TargetError, and Triton's errors in a kernel that cannot be recorded
    """
    jobs, begun, chip = job_count(jobs), time.monotonic(), wanted(target)
    if search not in ("random", "systematic", "both"):
        raise SimulatorMisuse(f"search is {search!r}; it may be 'random', 'systematic' or 'both'")
    if time_limit is not None and not time_limit > 0:
        raise SimulatorMisuse(f"time_limit is {time_limit!r}; it may be a number of seconds above 0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RemarkWarning)  # the report says it
            launch = prepare(kernel, grid, args, dict(meta), chip.name, gpus, memory)
            with asking(chip):
                check_fits(launch.specialisation, launch.program)
    except Exception as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        return Report((finding_of(refusal, None, ()), ), 0, kernel=resolve(kernel, args, dict(meta))[0].__name__)
    choice = chosen(ctas, launch)
    with threads_named(launch.reading):
        report = Search(launch, progress, jobs, time_limit, begun, choice, protocol,
                        expectations(expected, tolerance, launch)).all(seeds, search, limit, shrink, rounds)
    return replace(report, remarks=remarks(launch.recorded, chip) if launch.reading is None else conflicts(launch.reading, chip),
                   declared=declared_effects(launch.recorded), kernel=launch.name, replay=Replay(launch, choice, chip))


def conflicts(reading: Any, chip: Target) -> tuple:
    """Remarks on what was read: the bank conflicts of its layouts. Those on words of ours are not about it."""
    from ..compiler.ttgir.shared_accesses import remarks
    return remarks(reading.accesses, chip)


def _refusal(error: BaseException | None) -> MimwError | None:
    """The compiler's refusal, the last in the chain of an error; None if that is no finding but misuse."""
    refused = None
    for one in causes(error):
        refused = one if isinstance(one, KernelError) else refused
    return None if isinstance(refused, (AssertionFailed, LanguageError, NotYet, TargetError)) else refused
