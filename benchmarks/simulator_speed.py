"""What the simulator costs: seconds, microseconds an operation and peak memory of launches that exist.

    python -m benchmarks.simulator_speed [--cases gemm_1024 ...] [--rounds 3] [--label before] [--results DIR]

Each round of a case is a process of its own; the best round counts: a line of JSON a case. Seconds are CPU seconds of the one run,
without recording the kernel; `peak_mb` is by how much the process grew over what it held before the run, its arrays included.
The goals (one run each): 4096^3 GEMM with races 40 s and 400 MB, attention of 4096 with races 2 s, 5 us an operation (10 with
races) beside the tiles' own arithmetic, at 132 CTAs as at 8: `ring_8` and `ring_132` are a ring of copies with tiles so small
that hardly anything else is left.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np

import mimw
from mimw.kernels import attention, gemm
from mimw.runtime.simulate import prepare
from mimw.simulator import run
from tests.kernels.rings import summed

from .driver import command, keep_row
from .progress import each

CHOSEN = gemm.Configuration(bm=128, bn=256, stages=4)


def of_ring(ctas: int, trips: int):
    source, out = np.ones((1, 16), np.float32), np.zeros((ctas, 16), np.float32)
    return summed, (ctas, ), (mimw.TensorDescriptor.from_tensor(source, [1, 16]), out, trips), {"WIDTH": 16, "STAGES": 4}


def of_gemm(size: int):
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size), np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    return gemm.kernel, *gemm.arguments(a, b, np.zeros((size, size), ml_dtypes.bfloat16), 132, CHOSEN)


def of_attention(size: int):
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 1, size, 128), np.float32).astype(ml_dtypes.bfloat16) for _ in range(3))
    lse, counter = np.zeros((1, 1, size), np.float32), np.zeros(1, np.int32)
    return attention.kernel, *attention.arguments(q, k, v, np.zeros_like(q), lse, counter, 132)


CASES = {      # (what makes the launch, its arguments, with races)
    "ring_8": (of_ring, (8, 400), False), "ring_132": (of_ring, (132, 25), False),
    "ring_8_races": (of_ring, (8, 400), True), "ring_132_races": (of_ring, (132, 25), True),
    "gemm_1024": (of_gemm, (1024, ), False), "gemm_1024_races": (of_gemm, (1024, ), True),
    "attention_4096": (of_attention, (4096, ), False), "attention_4096_races": (of_attention, (4096, ), True),
    "gemm_4096": (of_gemm, (4096, ), False), "gemm_4096_races": (of_gemm, (4096, ), True),
}


def resident(what: str) -> int:
    """Kilobytes of this process by a line of /proc/self/status."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))


def measure(name: str, seed: int) -> dict:
    """One run of a case in this process."""
    make, sizes, races = CASES[name]
    kernel, grid, args, meta = make(*sizes)
    launch = prepare(kernel, grid, args, meta)
    Path("/proc/self/clear_refs").write_text("5")      # Linux: the peak of resident memory starts anew
    before, start = resident("VmRSS"), time.process_time()
    done = run(launch.program, launch.grid, launch.values, seed=seed, races=races)
    seconds, operations = time.process_time() - start, done.counts.total()
    return {"cpu_seconds": round(seconds, 3), "operations": operations, "us_per_operation": round(seconds / operations * 1e6, 2),
            "peak_mb": (resident("VmHWM") - before) // 1024}


def main() -> None:
    options = command(__doc__, rounds=3)
    options.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--label", default="")
    options.add_argument("--here", action="store_true", help="one round of one case, in this process")
    options = options.parse_args()
    if options.here:
        print(json.dumps(measure(options.cases[0], options.seed)))
        return
    for name in each(options.cases):
        alone = [sys.executable, "-m", "benchmarks.simulator_speed", "--here", "--cases", name, "--seed", str(options.seed)]
        rounds = [json.loads(subprocess.run(alone, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
                  for _ in range(options.rounds)]
        best = min(rounds, key=lambda one: one["cpu_seconds"])
        row = {"name": "simulator_speed", "case": name, "label": options.label, "seed": options.seed, "rounds": options.rounds}
        keep_row(row | best, options.results / "simulator_speed.jsonl")


if __name__ == "__main__":
    main()
