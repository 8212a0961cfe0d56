"""What `pytest --mimw-check` does with each launch, in this process."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.triton_port.codegen import OutOfResources
from mimw.errors import OutOfSharedMemory, SimulatorMisuse
from mimw.runtime.before_launch import checking, looking
from mimw.tools import every_launch
from mimw.tools.every_launch import FEW, EveryLaunch
from tests.kernels.counted import counted
from tests.kernels.handed_over import handed_over


@pytest.fixture
def every(monkeypatch):
    """Launches inside the test are simulated and checked, under one interleaving."""
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    found = []
    checks = EveryLaunch(1, found.append)
    checks.seen = found
    with looking(checks.look):
        yield checks


def arrays(ctas=2):
    return np.arange(32 * ctas, dtype=np.float32), np.full(32 * ctas, -1, np.float32)


def test_it_lasts_as_long_as_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setenv("MIMW_CHECK", "0")
    seen = []
    with looking(lambda *launch: seen.append(launch[0].__name__)):
        assert checking()
        handed_over[(2, )](*arrays(), True, 32)
    assert not checking()
    handed_over[(2, )](*arrays(), True, 32)
    assert seen == ["handed_over"]


def test_each_launch_is_one_and_equal_ones_are_checked_once(every):
    for launch in range(2):
        x, y = arrays()
        handed_over[(2, )](x + launch, y, True, 32)
        assert (y == x + launch).all()
    handed_over[(1, )](*arrays(), True, 32)                     # another grid,
    handed_over[lambda meta: (2, )](*arrays(), True, 32)        # the first one,
    handed_over[(2, )](*arrays(), True, 32, num_warps=8)        # another specialisation,
    handed_over[(2, )](*arrays(4), True, 32)                    # and other shapes
    assert every.tally.launches == 6 and len(every.tally.reports) == 4 and not every.seen


def test_a_finding_is_reported_of_each_launch(every, monkeypatch):
    monkeypatch.setattr(type(handed_over), "simulated", lambda *_: "launched")
    for _ in range(2):
        handed_over[(2, )](*arrays(), False, 32)
    assert [report is every.tally.found[0] for report in every.seen] == [True, True] and not every.seen[0].ok


def test_a_check_leaves_the_arrays_as_they_are(every, monkeypatch):
    monkeypatch.setattr(type(handed_over), "simulated", lambda *_: "launched")
    x, y = arrays()
    assert handed_over[(2, )](x, y, True, 32) == "launched"
    assert (y == -1).all() and every.tally.reports[0].runs == 1


@mimw.jit
def through_a_table(table, n):
    for i in range(n):
        row = tl.load(table + i).to(tl.pointer_type(tl.float32))
        tl.store(row, tl.load(row) + 1)


def test_memory_that_only_addresses_lead_to_is_given_to_the_check(every):
    rows = [np.zeros(4, np.float32) for _ in range(2)]
    table = np.array([row.__array_interface__["data"][0] for row in rows], np.int64)
    through_a_table[(1, )](table, 2, memory=rows)
    assert [row[0] for row in rows] == [1, 1] and every.tally.reports[0].ok and not every.tally.unchecked


def test_of_a_large_grid_a_sample_runs_if_one_can(every):
    handed_over[(FEW + 1, )](*arrays(FEW + 1), True, 32)
    assert every.tally.reports[0].unseen and "a sample ran" in str(every.tally)
    tiles = np.zeros(1, np.int32)
    counted[(FEW + 1, )](np.zeros(32, np.float32), tiles, 32)       # which CTA takes which tile no sample shows
    assert not every.tally.reports[1].unseen and tiles == 32 + FEW + 1


def test_a_launch_whose_check_fails_runs_and_is_named(every, monkeypatch):
    def failing(*_):
        raise SimulatorMisuse("of this kernel\nnothing is known")

    monkeypatch.setattr(every_launch, "check_this", failing)
    x, y = arrays()
    for _ in range(2):
        handed_over[(2, )](x, y, True, 32)
    assert (y == x).all() and not every.tally.reports
    assert str(every.tally).splitlines()[1] == (
        "handed_over was launched unchecked: SimulatorMisuse: of this kernel nothing is known")


def test_what_is_wrong_with_its_arguments_the_launch_says(every):
    with pytest.raises(TypeError, match="missing a required argument"):
        handed_over[(2, )](arrays()[0], RIGHT=True, N=32)
    assert not every.tally.reports and not every.tally.unchecked


@mimw.jit
def held(x, N: tl.constexpr):
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x + tl.arange(0, N)))
    tl.store(x + tl.arange(0, N), tlx.local_load(tile[0]) + 1)


@pytest.mark.parametrize("known_by", ["the recorder", "the layouts"])
def test_a_configuration_that_does_not_fit_is_passed_over_and_a_launch_of_it_refused(every, monkeypatch, known_by):
    """As on a GPU. What only the layouts tell a simulated launch by itself does not ask."""
    large = 131072 if known_by == "the recorder" else 64

    def check_fits(launch, program):
        if launch.constants[(1, )] == 64:
            raise OutOfSharedMemory("64 are too many")

    if known_by == "the layouts":
        monkeypatch.setattr(every_launch, "check_fits", check_fits)
    x = np.zeros(large, np.float32)
    mimw.autotune([mimw.Config({"N": large}), mimw.Config({"N": 32})], [])(held)[(1, )](x)
    assert x.sum() == 32 and len(every.tally.reports) == 1 and every.tally.launches == 2
    with pytest.raises(OutOfResources):
        held[(1, )](x, large)
