"""The time of a plain kernel and of its orchestrated forms on this machine's GPU, in turn.

Input: what the search has found, and a launch with tensors on the GPU. Output: the same with measured microseconds. For example:

    measured(search, kernel, grid, args, meta).plain_measured       691.2

Each is timed in rounds, one after the other, and has the median of its rounds, so that a clock that changes meets all alike. All
plans have a first round, and those near the quickest one the others: the last plans of the order, as of four consumers or of two
programs on a multiprocessor, are the best ones of some kernels. What the kernel writes is put back afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import Any

from ...compiler.launch import extents_of
from ...compiler.triton_port.runtime import gpu_is_active
from ..compile_ahead import compile_ahead
from .choose import Search
from .same_on_gpu import strangers

ROUNDS, NEAR = 5, 1.15  # rounds; times the quickest one's time, up to which a plan has all of them
WARM_MS, TIMED_MS = 5, 20


def may_measure(args: tuple, meta: Mapping[str, Any]) -> bool:
    """True if the arguments of a launch lie on a GPU that is there."""
    return gpu_is_active() and any(_tensor(value) is not None for value in (*args, *meta.values()))


def measured(search: Search, kernel: Any, grid: Any, args: tuple, meta: Mapping[str, Any], near: float = NEAR) -> Search:
    """The search with times: of the plain kernel, and of all candidates that are not out."""
    from triton.testing import do_bench
    tried = [one for one in search.candidates if not one.out]
    runs: list[Callable[[], Any]] = [lambda: kernel[grid](*args, **meta)]
    extents = extents_of(grid, dict(zip(getattr(kernel, "arg_names", ()), args)) | dict(meta))
    runs += [one.written.runs(extents, args, meta) for one in tried]
    tensors = {id(tensor): tensor for value in (*args, *meta.values()) if (tensor := _tensor(value)) is not None}
    kept = [(tensor, tensor.clone()) for tensor in tensors.values()]
    times: dict[int, list[float]] = {at: [] for at in range(len(runs))}
    failed: dict[int, str] = {}
    compile_side_by_side(runs)
    try:
        if any(one.written.plain.chip.has("tensor_memory") for one in tried):
            failed |= strangers(runs, kept)
        for turn in range(ROUNDS):
            quickest = min((median(each) for at, each in times.items() if at and each and at not in failed), default=0.0)
            for at, run in enumerate(runs):
                if at not in failed and (not turn or not at or median(times[at]) <= near * quickest):
                    try:
                        times[at].append(1e3 * do_bench(run, warmup=WARM_MS, rep=TIMED_MS, return_mode="median"))
                    except Exception as error:      # more memory or registers than there are: not this plan, or not this kernel
                        failed[at] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    finally:
        for tensor, before in kept:
            tensor.copy_(before)
    search.plain_measured = None if 0 in failed else median(times[0])
    done = [replace(one, out=failed[at]) if at in failed else replace(one, measured=median(times[at]))
            for at, one in enumerate(tried, 1)]
    search.candidates = sorted(done, key=lambda one: (bool(one.out), one.measured)) + \
        [one for one in search.candidates if one not in tried]
    return search


def compile_side_by_side(runs: Sequence[Callable[[], Any]]) -> None:
    """Have the kernels of these launches compiled by processes. One that does not compile says so where it is timed."""
    def every() -> None:
        for run in runs:
            with suppress(Exception):
                run()

    compile_ahead(every)


def _tensor(value: Any) -> Any:
    """The tensor on a GPU of an argument; None for anything else."""
    value = getattr(value, "base", value) if hasattr(value, "block_shape") else value
    return value if getattr(value, "is_cuda", False) else None
