"""The time that `mimw.orchestrate` takes without a GPU, kernel by kernel, and where it goes.

    python -m benchmarks.orchestrate_search                                     kernels of tests/orchestrate/cases, small launches
    python -m benchmarks.orchestrate_search --packages /tmp/packages            published ones, too (orchestrate_others.py)
    python -m benchmarks.orchestrate_search gemm_pointers vllm-bmm --packages /tmp/packages

A row has the seconds of each part of the search (`write`: passes, text, recording; `rank`: the plain kernel's prediction and a
short run of each plan; `predict`: the best two; `compile`; `prove`), of the whole, and of CPU time with that of its processes: on
a machine that others use the last one tells more. What was chosen stands beside it, so that two versions can be compared. Each
kernel is compiled anew, with a cache of its own. Goal: a median of 20 s.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import mimw
from mimw.tools.orchestrate import Orchestration

from .driver import command, keep_row, some_of
from .others_launches import KERNELS
from .others_sources import NotFetched, kernel_of
from .progress import each

CASES = sorted(path.stem for path in (Path(__file__).parents[1] / "tests/orchestrate/cases").glob("[a-z]*.py"))
PARTS = ("write", "rank", "predict", "compile", "prove")


def of_case(name: str) -> tuple[Any, Any, tuple, dict[str, Any]]:
    """(kernel, grid, arguments, keywords) of a case."""
    return import_module(f"tests.orchestrate.cases.{name}").case()[:4]


def of_others(name: str, packages: Path) -> tuple[Any, Any, tuple, dict[str, Any]]:
    """The same of a published kernel. NotFetched where its package is not there."""
    kernel = kernel_of(KERNELS[name].source, packages)
    grid, given = KERNELS[name].launch()
    return kernel, grid, (), given


def measure(name: str, launch: Callable[[], tuple]) -> dict[str, Any]:
    """A kernel's row."""
    kernel, grid, args, meta = launch()
    with tempfile.TemporaryDirectory() as cache:
        before, os.environ["TRITON_CACHE_DIR"] = os.environ.get("TRITON_CACHE_DIR"), cache
        try:
            start, cpu = perf_counter(), _cpu()
            found = mimw.orchestrate(kernel, grid, *args, measure=False, **meta)
            seconds, cpu = perf_counter() - start, _cpu() - cpu
        finally:
            os.environ.pop("TRITON_CACHE_DIR")
            if before is not None:
                os.environ["TRITON_CACHE_DIR"] = before
    return {"name": f"search-{name}", "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2),
            "parts": found.search.spent.rounded(), **_chosen(found)}


def _chosen(found: Orchestration) -> dict[str, Any]:
    best = found.chosen
    return {"plans": len(found.search.candidates), "is_used": found.is_used, "because": found.because,
            "plain_us": found.search.plain, "chosen": None if best is None else best.name,
            "predicted_us": None if best is None else best.predicted}


def _cpu() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def line(row: dict[str, Any]) -> str:
    parts = "".join(f"{row['parts'].get(part, 0.0):8.1f}" for part in PARTS)
    chosen = "nothing" if row["chosen"] is None else f"{row['chosen']}, {row['predicted_us'] or 0:.1f} us"
    return f"{row['name'].removeprefix('search-'):30}{row['seconds']:9.1f}{row['cpu_seconds']:8.1f}{parts}   {chosen}"


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "kernels", [*CASES, *KERNELS])
    parser.add_argument("--packages", type=Path, metavar="DIR",
                        help="where packages of others are unpacked; without it, cases alone")
    options = parser.parse_args()
    names = options.kernels or [*CASES, *(KERNELS if options.packages else ())]
    rows = []
    for name in each(names):
        try:
            row = measure(name, (lambda: of_case(name)) if name in CASES else lambda: of_others(name, options.packages))
        except NotFetched as error:
            print(error)
            continue
        rows.append(row)
        keep_row(row, options.results / "orchestrate_search.jsonl")
    print(f"\n{'kernel':30}{'seconds':>9}{'CPU':>8}{''.join(f'{part:>8}' for part in PARTS)}   chosen")
    print("\n".join(map(line, rows)))
    for what, among in (("cases", CASES), ("published kernels", KERNELS)):
        some = [row for row in rows if row["name"].removeprefix("search-") in among]
        if some:
            print(f"median of {len(some)} {what}: {median(row['seconds'] for row in some):.1f} s, "
                  f"{median(row['cpu_seconds'] for row in some):.1f} CPU seconds")


if __name__ == "__main__":
    main()
