"""How long `mimw.check` takes: the 128x256x64 GEMM with four stages at M = N = K = 1024, races on, default seeds.

    python -m benchmarks.check_speed [--rounds 3] [--size 1024] [--ctas sample] [--protocol] [--jobs N] [--results DIR]

Reports seconds, CPU seconds (of all processes) and simulated operations a second; a line of JSON a round, for example for
benchmarks/results/check_speed.jsonl. The goal for 1024 is 10 s on two cores.
"""

from __future__ import annotations

import os
import time

import ml_dtypes
import numpy as np

import mimw
from mimw.kernels import gemm
from mimw.tools.findings import Report

from .driver import command, keep_row
from .progress import each

SIZE, GOAL = 1024, 2.5
CONFIGURATION = gemm.Configuration(bm=128, bn=256, stages=4)


def launch(size: int = SIZE):
    """(grid, args, meta) of the GEMM that is checked."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    return gemm.arguments(a, b, np.zeros((size, size), ml_dtypes.bfloat16), 132, CONFIGURATION)


def measure(size: int = SIZE, **options) -> tuple[Report, float, float]:
    """(report, seconds, CPU seconds) of one check, recording the kernel included."""
    grid, args, meta = launch(size)
    gemm.kernel.__dict__.pop("_simulated_programs", None)       # as in a fresh process: recorded anew
    start, busy = time.perf_counter(), cpu_seconds()
    report = mimw.check(gemm.kernel, grid, *args, **options, **meta)
    return report, time.perf_counter() - start, cpu_seconds() - busy


def cpu_seconds() -> float:
    """CPU time of this process and of those that it has started and that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    options = command(__doc__, rounds=3)
    options.add_argument("--size", type=int, default=SIZE)
    options.add_argument("--ctas", choices=("all", "sample"), default="all")
    options.add_argument("--protocol", action="store_true")
    options.add_argument("--jobs", type=int)
    options = options.parse_args()
    for _ in each(range(options.rounds), lambda turn: f"round {turn + 1}"):
        report, seconds, cpu = measure(options.size, ctas=options.ctas, protocol=options.protocol, jobs=options.jobs)
        assert report.ok, report
        row = {"name": "check_speed", "kernel": "gemm 128x256x64, 4 stages", "shape": dict.fromkeys("MNK", options.size),
               "ctas": options.ctas, "protocol": options.protocol, "jobs": options.jobs,
               "runs": report.runs, "operations": report.ops, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2),
               "operations_per_second": round(report.ops / seconds),
               "goal_seconds": GOAL if (options.size, options.ctas) == (SIZE, "all") else None}
        keep_row(row, options.results / "check_speed.jsonl")


if __name__ == "__main__":
    main()
