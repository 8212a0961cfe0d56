"""Measurement of times: ours and the baselines alternate in one process, the L2 cache is flushed, medians are compared.

Input: functions that launch. Output: median microseconds of each, and `Row`s, one JSON object a line of a file:

    alternate({"mimw": lambda: ops.matmul(a, b), "cuBLAS": lambda: a @ b})        {"mimw": ..., "cuBLAS": ...}

A GPU's clock drifts by several percent within a run, so only ratios of times taken side by side count. Needs torch and
a CUDA device.
"""

from __future__ import annotations

import datetime
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import cycle, islice
from pathlib import Path
from typing import Any

_WARM_UPS = 2
_AT_LEAST_MS = 200.0
_FLUSH_BYTES = 256 << 20
_AHEAD = 4      # rounds that are launched before the GPU is waited for: so the host is ahead of it, and its time is in no figure
_PACKAGES = ("mimw", "triton", "torch")


@dataclass(frozen=True)
class Row:
    """One measured shape. Times are medians in microseconds; `error` is the largest difference to the reference."""

    name: str
    shape: Mapping[str, int]
    configuration: Mapping[str, Any]
    microseconds: float
    baselines: Mapping[str, float]
    error: float
    inputs: str
    chip: str
    versions: Mapping[str, str] = field(default_factory=lambda: versions())
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())

    def ratios(self) -> dict[str, float]:
        """The speed relative to each baseline: 2.0 is twice as fast."""
        return {name: time / self.microseconds for name, time in self.baselines.items()}

    def write(self, path: Path) -> None:
        """Append to a file of one JSON object a line."""
        with open(path, "a") as file:
            file.write(json.dumps(asdict(self), sort_keys=True) + "\n")


def alternate(candidates: Mapping[str, Callable[[], Any]], at_least_ms: float = _AT_LEAST_MS) -> dict[str, float]:
    """Median microseconds of each candidate, called in turn until each has run for `at_least_ms`.

    Every call starts with a cold L2 and is timed by CUDA events on the current stream; two warm-up rounds come first. Each
    candidate begins as many rounds as any other one, as the first call after a wait shows what its launch takes on the host, and
    follows each other one as often: a kernel that leaves the chip cool may lend its successor a higher clock.
    RuntimeError while launches are left out (`mimw.compile_ahead`): nothing of ours would be timed, and peers at length.
    """
    import torch

    from ..tools.compile_ahead import leaves_launches_out

    if leaves_launches_out():
        raise RuntimeError("alternate: launches are left out now, as mimw.compile_ahead does; time them after it")

    flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(_WARM_UPS):
        for run in candidates.values():
            run()
    rounds = cycle(_orders(list(candidates.items())))
    while min(map(sum, times.values())) < at_least_ms:
        events = []
        for order in islice(rounds, _AHEAD):
            for name, run in order:
                flush.zero_()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                run()
                end.record()
                events.append((name, start, end))
        torch.cuda.synchronize()
        for name, start, end in events:
            times[name].append(start.elapsed_time(end))
    return {name: statistics.median(taken) * 1000 for name, taken in times.items()}


def _orders(candidates: list[Any]) -> list[list[Any]]:
    """Orders in which, together, each one follows each other one as often: two balanced Latin squares, one the reverse of the
    other (E. J. Williams, Experimental designs balanced for the estimation of residual effects of treatments, 1949)."""
    count = len(candidates)
    zigzag = [(at + 1) // 2 * (1 if at % 2 else -1) for at in range(count)]
    square = [[candidates[(one + by) % count] for one in zigzag] for by in range(count)]
    return square + [order[::-1] for order in square]


def versions() -> dict[str, str]:
    """The versions a row is worth nothing without."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
