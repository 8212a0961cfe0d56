"""What benchmarks of kernels on a GPU share: rows with baselines, candidate configurations tried, the last line of a table.

    options = parsed(command(__doc__, tune=True, jobs=True))     an error where there is no GPU
    compiled_before(options.jobs, measure, [("GH3", )])          by `--jobs` processes
    times = alternate({"mimw": run, "cuBLAS": baseline}, 200.0)                   {"mimw": 822.1, "cuBLAS": 851.0}
    row = row_of("gemm-bf16-GH3", shape, configuration, times, error, "standard normal")
    keep(row, options.results / "gemm-bf16.jsonl")
    print(summary([1.035], "cuBLAS"))              geometric mean of 1 ratios to cuBLAS: 1.035, lowest 1.035

Input: times by `mimw.testing.benchmark.alternate`, in microseconds. Output: its `Row`s and lines of text. Without torch a benchmark
can be imported, and says its `--help`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import mimw
from mimw.testing.benchmark import Row, versions

from .driver import append, code
from .progress import each

try:
    import torch
except ImportError:  # as on a machine that only simulates and compiles
    torch = None


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of this command line; ends the process with a message where there is no torch or no CUDA device."""
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        parser.error("needs torch and a CUDA device")
    return options


def multiprocessors() -> int:
    """How many streaming multiprocessors the GPU has: the programs of a persistent kernel."""
    return torch.cuda.get_device_properties(0).multi_processor_count


def row_of(name: str, shape: Mapping[str, int], configuration: Mapping[str, Any], times: Mapping[str, float], error: float,
           inputs: str, ours: str = "mimw") -> Row:
    """The row of the microseconds that `alternate` gave: of those called `ours`, and of the baselines beside it."""
    baselines = {candidate: time for candidate, time in times.items() if candidate != ours}
    facts = torch.cuda.get_device_name(), versions() | {"code": code()}
    return Row(name, shape, configuration, times[ours], baselines, error, inputs, *facts)


def keep(row: Row, file: Path) -> None:
    """Append the row to a file of one JSON object a line."""
    append(asdict(row), file)


def compiled_before(jobs: int, measure: Callable[..., Any], cases: Iterable[tuple]) -> None:
    """Compile by so many processes what `measure(*case)` launches, for all cases; nothing by none of them.

    Launches are left out (`mimw.compile_ahead`), so results stay wrong, and `measure` ends at its check, before anything is timed.
    What else it raises, it raises again when it measures.
    """
    def rehearse() -> None:
        for case in cases:
            with contextlib.suppress(Exception):
                measure(*case)

    if jobs:
        mimw.compile_ahead(rehearse, jobs=jobs)


def tried(name: str, candidates: Iterable, measure: Callable[[Any], Row], go_on: bool) -> Iterator[Row]:
    """The row of each candidate; one that fails is an error or, where the search is to `go_on`, a printed line."""
    candidates = list(candidates)
    for chosen in each(candidates, lambda chosen: f"{name} {chosen}", quiet=len(candidates) == 1):
        try:
            row = measure(chosen)
        except Exception as error:  # one bad candidate must not end the search
            if not go_on:
                raise
            print(f"{name} {chosen}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        yield row


def summary(ratios: list[float], to: str, digits: int = 3) -> str:
    """The last line of a table: the geometric mean of the ratios to a baseline, and the lowest."""
    mean = prod(ratios) ** (1 / len(ratios))
    return f"geometric mean of {len(ratios)} ratios to {to}: {mean:.{digits}f}, lowest {min(ratios):.{digits}f}"


def table(rows: Iterable[Row], file: Path, line: Callable[[Row], str], against: Callable[[Row], str], to: str) -> None:
    """Keep and print each row as it comes, and then the summary of the ratios to `against` of it, which people read as `to`."""
    ratios = []
    for row in rows:
        keep(row, file)
        print(line(row), flush=True)
        ratios.append(row.ratios()[against(row)])
    print(summary(ratios, to))


def write_configurations(file: Path, command: str, rows: list[dict]) -> None:
    """The best configurations that a search found, as a kernel's configs.json has them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"chip": torch.cuda.get_device_name(), "command": command, "rows": rows}, indent=1))
