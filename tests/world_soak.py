"""Long simulated runs of the programs of several GPUs: many seeds, at 3, 5 and 8 ranks, on meshes of rows and columns.

    python -m tests.world_soak --seconds 600 --first 0          what was found; 1 if anything was
    python -m tests.world_soak --only collectives --seconds 60

Input: how long. Output: what was found, and how many runs were made. Each launch is run once and checked behind that, as the second
of two launches on the same words; more seeds are taken in turn until the time is over.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import mimw
import mimw.tle as tle
from tests.kernels import products_of_ranks, resharding, several_gpus, spread_experts

RANKS = 3, 5, 8
SEEDS = 6           # of a turn
ROWS, COLUMNS = (tle.device_mesh({"node": nodes, "device": devices}) for nodes, devices in ((2, 4), (4, 2)))


def cases() -> Iterator[tuple[str, Callable[[], tuple]]]:
    """(name, function that gives a launch)."""
    from tests.fuzz.worlds import world_program
    from tests.kernels import test_collectives as collectives

    for ranks in RANKS:
        yield f"gather, {ranks} ranks", lambda ranks=ranks: several_gpus.gathering(ranks)
        for collective, form in collectives.CASES:
            yield f"collectives: {collective} {form}, {ranks} ranks", lambda ranks=ranks, what=(collective, form): collective_of(
                *what, ranks)
        yield f"dispatch, {ranks} ranks", lambda ranks=ranks: spread_experts.dispatching(ranks, 5, 2, 2, 8, programs=2)[0]
    for ranks in (2, 4):
        yield f"products, scattered, {ranks} ranks", lambda ranks=ranks: products_of_ranks.scattering(ranks, m=128 * ranks)[0]
        yield f"products, gathered, {ranks} ranks", lambda ranks=ranks: products_of_ranks.gathering(ranks, m=128 * ranks)[0]
    for name, mesh in (("rows", ROWS), ("columns", COLUMNS)):
        x, y = mesh.dim_names
        for row, have, want in (("gather", [x, y], None), ("all-gather", [x, y], [x, None]), ("all-to-all", [x, None], [None, x]),
                                ("other order", [[x, y], None], [[y, x], None])):
            specs = tle.sharding(mesh, have), tle.sharding(mesh, want)
            yield f"mesh of {name}: {row}", lambda specs=specs: resharding.changing(*specs)[0]
    for seed in range(1000, 1040):
        if world_program(seed).gpus >= 4:
            yield f"worlds: seed {seed}", lambda seed=seed: random_program(seed)


def collective_of(collective: str, form: str, ranks: int) -> tuple:
    from mimw.kernels.collectives import arguments
    from tests.kernels.test_collectives import FORMS

    world, n = mimw.World(ranks), 130
    scatter, symmetric = collective == "reduce_scatter", form.startswith("direct")

    def array(size: int, name: str):
        return world.symmetric(size, "float32", name) if symmetric else world.each(lambda rank: np.zeros(size, np.float32), name)

    x = array(n * (ranks if scatter else 1), "x")
    return arguments(collective, x, array(n * (ranks if collective == "all_gather" else 1), "out"), world, symmetric, FORMS[form])


def random_program(seed: int) -> tuple:
    from tests.fuzz.world_runs import launch
    from tests.fuzz.worlds import world_program

    return *launch(world_program(seed)), {}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="start no case after so many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    options = parser.parse_args(words)
    began, first, runs, bad, over = time.monotonic(), options.first, {}, set(), False
    chosen = [(name, make) for name, make in cases() if options.only in name]
    while not over:
        for name, make in chosen:
            over = bool(runs) and time.monotonic() - began > options.seconds
            if over:
                break
            report = checked(make, first, again=first == options.first and not name.startswith("worlds"))
            runs[name] = runs.get(name, 0) + report.runs
            if not report.ok:
                bad.add(name)
                print(f"FOUND {name}, seeds from {first}\n{report}\n", flush=True)
        first += SEEDS
    took = time.monotonic() - began
    print(f"{sum(runs.values())} runs of {len(runs)} of {len(chosen)} cases, {len(bad)} with findings, {took:.0f} s")
    return 1 if bad else 0


def checked(make: Callable[[], tuple], first: int, again: bool):
    """The report of a launch under the seeds from `first` on; `again`: of the second launch on the same arrays."""
    kernel, grid, args, meta = make()
    if again and kernel is not several_gpus.gather:     # which counts nothing and sets nothing back
        mimw.simulate(kernel, grid, *args, seed=first, **meta)
    return mimw.check(kernel, grid, *args, seeds=range(first, first + SEEDS), shrink=False, jobs=1, rounds=first == 0, **meta)


if __name__ == "__main__":
    sys.exit(main())
