"""What benchmarks share: their options, candidates measured in turn, and the rows that are kept.

    options = command(__doc__, rounds=15, out=RESULTS / "compile_time.jsonl").parse_args()
    times = in_turn({"mimw": compile_mimw, "gluon": compile_gluon}, options.rounds)         what each gave, round by round
    keep_row({"name": "compile_time", "ratio": 1.14}, options.out)                          printed, and a line of the file

Input: a benchmark's docstring, its candidates, its figures. Output: a parser of its command line; numbers; a line of JSON with
the machine, the versions and the date. Kernels on a GPU are measured by `mimw.testing.benchmark`, whose rows have baselines.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import triton

RESULTS = Path(__file__).parent / "results"


def command(doc: str, rounds: int | None = None, out: Path | None = None) -> argparse.ArgumentParser:
    """A parser with the docstring for its help, `--out` and, where there are rounds, `--rounds`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--out", type=Path, default=out, help="file for the rows, one JSON object a line")
    return parser


def in_turn(candidates: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each candidate gives, `rounds` times; every round asks all of them and begins with another one."""
    names, found = list(candidates), {name: [] for name in candidates}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(candidates[name]())
    return found


def keep_row(row: dict, out: Path | None) -> None:
    """Print `row` as a line of JSON, and append it to `out` if that is given."""
    machine = {"cores": os.cpu_count(), "date": datetime.date.today().isoformat(), "python": platform.python_version(),
               "numpy": np.__version__, "triton": triton.__version__}
    line = json.dumps(row | machine, sort_keys=True)
    print(line, flush=True)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a") as file:
            file.write(line + "\n")
