"""Which plans are timed, and how often, with a timer that is fake; what a GPU says is in test_auto_on_the_gpu.py."""

from types import SimpleNamespace

import pytest
import triton.testing

from mimw.tools.orchestrate import measure
from mimw.tools.orchestrate.choose import Candidate, Search


@pytest.fixture
def timed(monkeypatch):
    """`timed(plain, *plans)` gives the search, and the rounds of each: a plan is its microseconds, or an error."""
    monkeypatch.setattr(measure, "compile_ahead", lambda function: None)

    def search(plain, *plans, **how):
        rounds = []

        def launched(at, time):
            def run():
                rounds.append(at)
                if isinstance(time, Exception):
                    raise time
                return time
            return run

        def bench(run, **_):
            return 1e-3 * run()

        monkeypatch.setattr(triton.testing, "do_bench", bench)
        chip = SimpleNamespace(has=lambda feature: False)
        found = [Candidate(SimpleNamespace(plain=SimpleNamespace(chip=chip), runs=lambda *_, at=at, time=time: launched(at, time)))
                 for at, time in enumerate(plans, 1)]
        kernel = {(1, ): launched(0, plain)}
        plain_kernel = type("Plain", (), {"arg_names": (), "__getitem__": lambda self, grid: kernel[grid]})()
        return measure.measured(Search(candidates=found), plain_kernel, (1, ), (), {}, **how), rounds

    return search


def test_the_last_of_many_plans_may_be_the_quickest(timed):
    """All have a round, and those within NEAR of the quickest all rounds; slower ones have none of these."""
    found, rounds = timed(100.0, *[120.0] * 20, 80.0, 90.0)
    assert found.plain_measured == 100.0 and [one.measured for one in found.candidates[:3]] == [80.0, 90.0, 120.0]
    assert [rounds.count(at) for at in (0, 1, 20, 21, 22)] == [5, 1, 1, 5, 5] and len(found.candidates) == 22


def test_what_does_not_run_is_out(timed):
    found, rounds = timed(100.0, RuntimeError("out of shared memory\nmore"), 95.0)
    assert [(one.measured, one.out) for one in found.candidates] == [(95.0, ""), (None, "RuntimeError: out of shared memory")]
    assert [rounds.count(at) for at in range(3)] == [5, 1, 5]
    found, _ = timed(ValueError("no binary"), 95.0)
    assert found.plain_measured is None and found.candidates[0].measured == 95.0


def test_all_rounds_of_all_where_each_is_a_row(timed):
    _, rounds = timed(100.0, 50.0, 500.0, near=float("inf"))
    assert [rounds.count(at) for at in range(3)] == [5, 5, 5]
