"""`triton.testing.perf_report` where launches are simulated: its tables with predicted times, in bounded time.

Input: Triton's `Benchmark`s and the function that they sweep. Output: a table on stdout whose heading says what it is:

    vector-add-performance: predicted for NVIDIA H200, not measured
        size   Triton (GB/s)
      ──────────────────────
        4096             9.6
    3 of 16 rows, within 20 s; not timed: Torch, which launches no kernel of mimw. No plot is drawn.

A sweep takes minutes of a simulator. So rows are taken from the first on in halves of what lies between, each line is left out from
its first row without a time on, and no row begins once the seconds that a report has are over (MIMW_BENCH, 20; 0 leaves reports
out). Launches of the function outside of `do_bench` are not run.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import SimulatorMisuse
from ...report.table import table
from ...runtime.simulate import instead
from .bench import Timed, heard

SECONDS = 20.0


def seconds() -> float:
    """The seconds that a report may take, of MIMW_BENCH."""
    text = os.environ.get("MIMW_BENCH") or str(SECONDS)
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not found >= 0:
        raise SimulatorMisuse(f"MIMW_BENCH is {text!r}", hint="give seconds, as MIMW_BENCH=20; 0 leaves benchmarks out")
    return found


def predicted_report(fn: Callable, benchmarks: Any, show_plots: bool = False, print_data: bool = False, save_path: str = "",
                     return_df: bool = False, **kwargs: Any) -> Any:
    """`Mark.run` of Triton's, with predicted times and without plots."""
    alone = not isinstance(benchmarks, (list, tuple))
    swept = [Sweep(fn, bench, kwargs) for bench in ([benchmarks] if alone else benchmarks)]
    for sweep in swept:
        sweep.run(seconds())
        if print_data:
            print(sweep, flush=True)
        if save_path and sweep.rows:
            sweep.save(Path(save_path))
    if not return_df:
        return None
    frames = [sweep.frame() for sweep in swept]
    return frames[0] if alone else frames


class Sweep:
    """One `Benchmark`: `rows` by their number in it, each the values of its lines, of which `dropped` says why some have none."""

    def __init__(self, fn, bench, fixed: dict[str, Any]):
        self.fn, self.bench, self.fixed = fn, bench, {**bench.args, **fixed}
        self.rows: dict[int, list[float]] = {}
        self.dropped: dict[str, str] = {}
        self.chips: list[str] = []
        self.limit = 0.0

    def run(self, limit: float) -> None:
        """Fill in rows until the limit, in seconds, is over."""
        self.limit, ends = limit, time.monotonic() + limit
        for number in in_halves(len(self.bench.x_vals)):
            if time.monotonic() >= ends or len(self.dropped) == len(self.bench.line_vals):
                return
            self.rows[number] = [self._value(number, line, name) for line, name in zip(self.bench.line_vals, self.bench.line_names)]

    def at(self, number: int) -> tuple:
        """The values on the x axis of a row."""
        x = self.bench.x_vals[number]
        x = tuple(x) if isinstance(x, (list, tuple)) else (x, ) * len(self.bench.x_names)
        if len(x) != len(self.bench.x_names):
            raise ValueError(f"Expected {len(self.bench.x_names)} values, got {list(x)}")
        return x

    def _value(self, number: int, line: Any, name: str) -> float:
        if name in self.dropped:
            return math.nan
        seen: list[Timed] = []
        left_out, listening = instead.set(lambda launch, chip: None), heard.set(seen.append)
        try:
            found = self.fn(**dict(zip(self.bench.x_names, self.at(number))), **{self.bench.line_arg: line}, **self.fixed)
        finally:
            heard.reset(listening)
            instead.reset(left_out)
        without = [one for one in seen if math.isnan(one.milliseconds)]
        if without:
            self.dropped[name] = without[0].unknown or "launches no kernel of mimw"
        self.chips += [one.chip for one in seen if one.chip and one.chip not in self.chips]
        return found[0] if isinstance(found, (list, tuple)) else found

    def timed(self) -> list[int]:
        """The places of the lines that have times."""
        return [place for place, name in enumerate(self.bench.line_names)
                if any(isinstance(row[place], (int, float)) and not math.isnan(row[place]) for row in self.rows.values())]

    def headers(self) -> tuple[str, ...]:
        return (*self.bench.x_names, *(f"{self.bench.line_names[place]} ({self.bench.ylabel})" for place in self.timed()))

    def values(self) -> list[tuple]:
        """The rows as a table has them, in the benchmark's order."""
        return [(*self.at(number), *(self.rows[number][place] for place in self.timed())) for number in sorted(self.rows)]

    def __str__(self) -> str:
        if not self.rows:
            return f"{self.bench.plot_name}: left out, since it has {self.limit:g} s (--bench SECONDS, MIMW_BENCH)"
        if not self.timed():
            return f"{self.bench.plot_name}: left out. {self._left_out()}"
        headers = self.headers()
        rows = [tuple(map(_shown, row)) for row in self.values()]
        return (f"{self.bench.plot_name}: predicted for {', '.join(self.chips)}, not measured\n{table(headers, rows, headers)}\n"
                f"{len(rows)} of {len(self.bench.x_vals)} rows"
                + (f", within {self.limit:g} s (--bench SECONDS)" if len(rows) < len(self.bench.x_vals) else "")
                + f". {self._left_out()}No plot is drawn.")

    def _left_out(self) -> str:
        return "".join(f"Not timed: {name}: {why}. " for name, why in self.dropped.items())

    def save(self, folder: Path) -> None:
        """Write the rows as Triton does, with a heading that says what they are."""
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / f"{self.bench.plot_name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            names = len(self.bench.x_names)
            writer.writerow([*self.headers()[:names], *(f"{header}, predicted" for header in self.headers()[names:])])
            writer.writerows([*row[:names], *(f"{value:.6f}" for value in row[names:])] for row in self.values())

    def frame(self):
        """The rows as Triton returns them, which needs pandas."""
        import pandas
        return pandas.DataFrame(self.values(), columns=list(self.headers()))


def _shown(value: Any) -> Any:
    """A number with three digits, or one behind the point."""
    if not isinstance(value, float):
        return value
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def in_halves(count: int) -> Iterator[int]:
    """Numbers from 0 to `count` - 1, each once: the first, then the middle, then the middles between those."""
    given: set[int] = set()
    parts = 1
    while len(given) < count:
        for part in range(0, parts):
            number = part * count // parts
            if number not in given:
                given.add(number)
                yield number
        parts *= 2
