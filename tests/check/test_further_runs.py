"""Runs after the first leave tile data out where a full run could find no more: each ends as the full run by the same seed, and
the reports are those of full runs."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tools.search.search as search
from benchmarks.mutation_kernels import CASES
from mimw.errors import MimwError
from mimw.kernels import gemm
from mimw.runtime.simulate import prepare
from mimw.tools.search import Search
from mimw.tools.search.protocol import TileData
from mimw.tools.search.results import Seen

from .mutated import with_mutants

ALWAYS, NEVER, SEEDS, MUTANTS = -1.0, float("inf"), 2, 1


class Runs:
    """How runs ended, by program, grid, numbers, seed and clusters: those with all data and those without tile data."""

    def __init__(self):
        self.full, self.quick = {}, {}

    def told_alike(self) -> int:
        """How many were made both ways, each of which ended with the same error, message and lines."""
        both = self.quick.keys() & self.full.keys()
        for key in both:
            (_, quick), (_, full) = self.quick[key], self.full[key]
            assert self._told(quick) == self._told(full)
        return len(both)

    def _told(self, ended):
        error = ended if isinstance(ended, MimwError) else ended[0]
        return error and (type(error), error.message, error.sites)


@pytest.fixture
def full_runs_once(monkeypatch) -> Runs:
    """A run with all data is the same by the same seed, so both reports on a launch take it from here: the first seed's, those that
    make a finding again, and those that shrink it."""
    runs, of_launch, whole, smaller = Runs(), {}, Search._run, search.trials

    def run(self, seed, launch=None, clusters=(), protocol=False):
        if not isinstance(seed, (int, tuple)):
            return whole(self, seed, launch, clusters, protocol)
        one, ran = launch or self.launch, runs.quick if protocol else runs.full
        numbers = tuple(value for value in one.values.values() if isinstance(value, (int, float)))
        key = id(one.program), one.grid, numbers, seed, clusters
        if protocol or key not in ran:
            try:
                ran[key] = one, whole(self, seed, launch, clusters, protocol)
            except MimwError as misuse:
                ran[key] = one, misuse
        if isinstance(ran[key][1], MimwError):
            raise ran[key][1]
        return ran[key][1]

    def trials(launch):
        """The same programs for both reports."""
        return of_launch.setdefault(id(launch), (launch, smaller(launch)))[1]

    monkeypatch.setattr(Search, "_run", run)
    monkeypatch.setattr(search, "trials", trials)
    return runs


def searching(launch, quick: float, monkeypatch, jobs: int = 1) -> Search:
    monkeypatch.setattr(search, "QUICK", quick)
    return Search(launch, jobs=jobs)


def report(launch, quick: float, monkeypatch, jobs: int = 1, shrink: bool = True):
    return searching(launch, quick, monkeypatch, jobs).all(SEEDS, "random", 200, shrink, True)


@pytest.fixture
def left_out(monkeypatch):
    """The hooks of the runs that left tile data out."""
    found, run = [], search.run

    def noting(*args, hooks, **keywords):
        if hooks.skipped is not None:
            found.append(hooks)
        return run(*args, hooks=hooks, **keywords)

    monkeypatch.setattr(search, "run", noting)
    return found


# Of kernels in several forms the dearer ones; another form of each always runs.
LONG = {"Norm backward, ring", "Norm, ring", "Decoding, few rows", "Decoding, warps apart", "Decoding, caches of e4m3",
        "Decoding, many rows", "Attention, packed sequences, backward", "Attention, packed sequences, backward, one order",
        "Attention, backward, one order", "2-simplicial attention, backward", "GEMM, promoted sums, two at a time",
        "Top-k selector, cluster", "Product of experts, scales of blocks, few rows", "Block-scaled product, tall",
        "MLA decoding, packed cache", "Lightning indexer, pages", "Lightning indexer, bf16", "Product of experts, rows picked",
        "Cross entropy, ring", "Attention, packed sequences", "Attention, backward", "Linear attention, gates by key",
        "Linear attention, gradients by roles", "Linear attention, Blackwell", "Attention, packed sequences, backward, wide",
        "Sparse MLA, pipe", "Product in microscaling formats, interleave", "Product of experts, scales of blocks",
        "Product of experts, rows by number", "Top-k, cluster", "GEMM, residual", "GEMM, ping-pong", "GEMM, one consumer",
        "GEMM, promoted sums, halves", "Tutorial 20", "Tutorial 10", "GEMM on matrix cores, interleaved",
        "Gather, GEMM, scatter, Blackwell", "Block-scaled product", "MoE align, many tiles", "Tutorial 03", "Tutorial 04",
        "Tutorial 05", "Tutorial 06", "Tutorial 09", "Tutorial 12", "Tutorial 18", "Tutorial 19", "Tutorial 21",
        "Product of experts, few rows", "MoE align, pull", "Grouped product, ping-pong", "Linear attention, gradients"}


@pytest.mark.long(but=[case.name for case in CASES if case.name not in LONG], everywhere=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_right_program_and_its_mutants_are_told_as_by_full_runs(case, monkeypatch, left_out, full_runs_once):
    """Findings, operations, the smaller launches, all of the report; and each run without tile data. Findings are compared as they
    are found: shrinking them makes full runs only, from the same finding the same ones, and took a third of the time."""
    kernel, grid, args, meta = case.make()
    launch = prepare(kernel, grid, args, dict(meta), case.target)
    for program in with_mutants(launch, case.name + "further", MUTANTS):
        one = replace(launch, program=program)
        sought = searching(one, ALWAYS, monkeypatch)
        quick = sought.all(SEEDS, "random", 200, False, True)
        assert not sought._tile_data(one).loses_nothing or left_out     # what the search has asked already
        count = len(left_out)
        assert report(one, NEVER, monkeypatch, shrink=False) == quick and len(left_out) == count
        assert full_runs_once.told_alike() or not left_out


def test_the_first_run_has_all_data_and_the_others_of_a_gemm_have_not(monkeypatch, left_out):
    a, b = (np.ones((256, 128), ml_dtypes.bfloat16) for _ in range(2))
    grid, args, meta = gemm.arguments(a, b.reshape(128, 256), np.zeros((256, 256), ml_dtypes.bfloat16), 132,
                                      gemm.Configuration(bm=128, bn=128, stages=2))
    launch = prepare(gemm.kernel, grid, args, dict(meta))
    found = report(launch, ALWAYS, monkeypatch)
    assert found.ok and len(left_out) == SEEDS - 1 + len(found.tried)
    assert report(launch, ALWAYS, monkeypatch, jobs=2) == found


@mimw.jit
def tile_of(x_ptr, n, HOW: tl.constexpr):
    at = tl.program_id(0) * 16 + tl.arange(0, 16)
    x = tl.load(x_ptr + at) + 1.0
    if HOW == "assertion":
        tl.device_assert(x > 0.0, "tiles")
    elif HOW == "number":
        tl.device_assert(n > 0, "numbers")
    elif HOW == "print":
        tl.device_print("x", x)
    elif HOW == "division":
        x += (at // (x.to(tl.int32) + 1)).to(tl.float32)
    elif HOW == "gather":
        x = tl.gather(x, x.to(tl.int32) * 0, 0)
    elif HOW == "sum":
        x += tl.sum(x, 0)
    tl.store(x_ptr + at, x)


@pytest.mark.parametrize("how, nothing", [("plain", True), ("number", True), ("sum", True), ("assertion", False), ("print", False),
                                          ("division", False), ("gather", False)])
def test_what_only_the_data_show_keeps_them(how, nothing):
    """Assertions, prints, integer divisions and indices of `tl.gather`, if they are about tiles that are left out."""
    launch = prepare(tile_of, (1, ), (np.zeros(16, np.float32), 1), dict(HOW=how))
    assert TileData(launch).loses_nothing is nothing


def test_a_region_that_is_left_out_counts_as_if_it_had_run():
    """A reduction of 16 numbers is four runs of its region, each time."""
    launch = prepare(tile_of, (3, ), (np.zeros(48, np.float32), 1), dict(HOW="sum"))
    full, quick = Search(launch)._run(1), Search(launch, protocol=True)._run(1)
    assert TileData(launch).is_left_out(next(op for op in launch.program.walk() if op.name == "reduce"))
    assert full == quick and quick[0] is None


def test_what_goes_wrong_without_data_is_made_again_with_them(monkeypatch):
    """Were an op left out that decides something, the report would be that of full runs all the same."""
    launch = prepare(tile_of, (1, ), (np.zeros(16, np.float32), 1), dict(HOW="plain"))
    whole = Search._run

    def run(self, seed, launch=None, clusters=(), protocol=False):
        return (MimwError("only without data"), 0, Seen()) if protocol else whole(self, seed, launch, clusters)

    monkeypatch.setattr(Search, "_run", run)
    assert report(launch, ALWAYS, monkeypatch).ok
