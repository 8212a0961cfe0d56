"""How the simulator's cost grows: CPU seconds of launches of doubling size, and the ratio of each to the one of half its size.

    python -m benchmarks.growth [SERIES...] [--label after] [--results DIR]

    row length             1.98     16384  0.012 s     32768  0.023 s     65536 ...

A ratio of 2 is what twice the work must cost. Each figure is the best of three, or of up to 15 where a ratio looks too large,
with the garbage collector off, as its pauses come when they come. Last comes the top-k of 4 x 65536 fp32 numbers (goal: 0.2 s).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
from mimw.kernels import gemm, topk

from .driver import command, keep_row
from .progress import each

MOST = 2.3              # what twice the size may cost, in sizes at which fixed costs are small
_TILE = gemm.Configuration(bm=128, bn=128, stages=2)


@mimw.jit
def one_place(x_ptr, out_ptr, N: tl.constexpr):
    """N numbers are added to one, in the order of the lanes."""
    at = tl.arange(0, N)
    tl.atomic_add(out_ptr + at * 0, tl.load(x_ptr + at))


@mimw.jit
def tickets(x_ptr, n):
    """Every program draws n numbers: each pair of drawings could have come the other way round."""
    for _ in range(n):
        tl.atomic_add(x_ptr, 1)


def topk_of(rows: int, length: int, chosen=None) -> Callable[[], None]:
    x = np.random.default_rng(0).standard_normal((rows, length)).astype(np.float32)
    grid, args, meta = topk.arguments(x, np.zeros((rows, 64), np.float32), np.zeros((rows, 64), np.int32), chosen)
    return lambda: mimw.simulate(topk.kernel, grid, *args, **meta)


def _atomics(lanes: int) -> Callable[[], None]:
    x = np.random.default_rng(0).standard_normal(lanes).astype(np.float32)
    return lambda: mimw.simulate(one_place, 1, x, np.zeros(1, np.float32), lanes)


def _gemm(tiles: int, trips: int, programs: int):
    a, b = (np.ones(shape, ml_dtypes.bfloat16) for shape in ((128 * tiles, 64 * trips), (64 * trips, 128)))
    return gemm.arguments(a, b, np.zeros((128 * tiles, 128), ml_dtypes.bfloat16), programs, _TILE)


def _simulated(tiles: int, trips: int, programs: int) -> Callable[[], None]:
    grid, args, meta = _gemm(tiles, trips, programs)
    return lambda: mimw.simulate(gemm.kernel, grid, *args, **meta)


def _searched(tiles: int, trips: int, programs: int) -> Callable[[], None]:
    grid, args, meta = _gemm(tiles, trips, programs)
    return lambda: mimw.check(gemm.kernel, grid, *args, search="systematic", limit=5, rounds=False, **meta)


def _drawn(n: int) -> Callable[[], None]:
    return lambda: mimw.check(tickets, 3, np.zeros(1, np.int32), n, search="systematic", limit=10, rounds=False)


# Name -> (what to run for a size, the size from which on it is measured).
SERIES: dict[str, tuple[Callable[[int], Callable[[], None]], int]] = {
    "row length": (lambda n: topk_of(1, n, topk.Configuration(warps=32)), 8192),
    "lanes at one place": (_atomics, 8192),
    "trips": (lambda n: _simulated(1, n, 1), 64),
    "tiles": (lambda n: _simulated(n, 2, 1), 16),
    "grid": (lambda n: _simulated(n, 2, n), 16),
    "search: trips": (lambda n: _searched(1, n, 1), 64),
    "search: tiles": (lambda n: _searched(n, 2, 1), 16),
    "search: grid": (lambda n: _searched(n, 2, n), 8),
    "search: atomics": (_drawn, 16),
}
LARGE = {       # too long for a test in which they would be measured again and again
    "search: many CTAs": (lambda n: _searched(n, 2, n), 64),
}


def seconds(*runs: Callable[[], None], rounds: int = 3, enough: Callable[[list[float]], bool] = lambda best: True) -> list[float]:
    """The best CPU time of each, measured in turns; more rounds until they are `enough`, as other work only adds to a time."""
    best = [float("inf")] * len(runs)
    for run in runs:
        run()                       # recorded and prepared
    for done in range(max(15, 5 * rounds)):
        if done >= rounds and enough(best):
            break
        for index, run in enumerate(runs):
            gc.collect()
            gc.disable()
            try:
                start = time.process_time()
                run()
                best[index] = min(best[index], time.process_time() - start)
            finally:
                gc.enable()
    return best


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("series", nargs="*", choices=[[], *SERIES, *LARGE], help="all by default")
    parser.add_argument("--label", default="", help="kept in the rows")
    parser.add_argument("--doublings", type=int, default=2)
    options = parser.parse_args()
    every = SERIES | LARGE
    for name in each(options.series or every):
        make, size = every[name]
        sizes = [size << i for i in range(options.doublings + 1)]
        times = seconds(*map(make, sizes), enough=lambda best: all(b <= MOST * a for a, b in zip(best, best[1:])))
        ratios = [after / before for before, after in zip(times, times[1:])]
        keep_row({"name": "growth", "series": name, "sizes": sizes, "cpu_seconds": [round(one, 4) for one in times],
                  "ratios": [round(one, 2) for one in ratios], "label": options.label}, options.results / "growth.jsonl")
    if not options.series:
        (taken, ) = seconds(topk_of(4, 65536))
        keep_row({"name": "topk", "shape": {"M": 4, "N": 65536, "K": 64}, "cpu_seconds": round(taken, 4), "goal_seconds": 0.2,
                  "label": options.label}, options.results / "growth.jsonl")


if __name__ == "__main__":
    main()
