"""Tutorial 08 on the simulator, and compiled for sm_100a: rows of any length, empty ones too; "what if" edits."""

import numpy as np
import pytest

import mimw
from mimw.runtime.compile_kernel import compile_kernel

CHIP = dict(target="sm_100a")


@pytest.mark.parametrize("count, longest, STAGES", [(1, 40, 1), (9, 0, 1), (17, 200, 1), (17, 200, 3)])
def test_rows(tutorial, count, longest, STAGES):
    x, starts, sums = tutorial.rows(count, longest)
    grid, args, meta = tutorial.arguments(x, starts, sums, BLOCK=32, STAGES=STAGES)
    for seed in range(6):
        sums[:] = np.nan
        mimw.simulate(tutorial.ragged_sums, grid, *args, seed=seed, races=True, **meta, **CHIP)
        np.testing.assert_allclose(sums, tutorial.expected(x, starts), rtol=1e-5, atol=1e-5)


def checked(tutorial, STAGES=1, seeds=8):
    grid, args, meta = tutorial.arguments(*tutorial.rows(8, 60), BLOCK=32, STAGES=STAGES)
    return mimw.check(tutorial.ragged_sums, grid, *args, seeds=seeds, shrink=False, **meta, **CHIP)


@pytest.mark.parametrize("STAGES", [1, 2])
def test_right_under_every_interleaving(tutorial, STAGES):
    """200 seeds: benchmarks/results/blackwell.jsonl."""
    report = checked(tutorial, STAGES, seeds=8)
    assert report.ok and report.runs == 8, report


WORKER = "two stages.\n                row = tlx.clc_consumer(context, "
LAST = "                row = tlx.clc_consumer(context, turn // STAGES & 1, k=turn % STAGES)\n                turn += 1\n\n\n"
AGAIN = f"{LAST.rstrip()}\n            tlx.clc_producer(context, turn // STAGES & 1 ^ 1, k=turn % STAGES)\n\n\n"


@pytest.mark.parametrize("old, new, stages, kinds", [
    ("clc_create_context(2, STAGES)", "clc_create_context(1, STAGES)", 1, {"SlotReusedEarly", "PhaseMissed"}),
    ("clc_create_context(2, STAGES)", "clc_create_context(3, STAGES)", 1, {"TooFewArrivals"}),
    (f"{WORKER}turn // STAGES & 1", f"{WORKER}0", 1, {"SlotReusedEarly"}),
    (LAST, AGAIN, 2, {"RequestAfterRefusal"}), (LAST, AGAIN, 1, {"WaitCycle"}),
], ids=["one consumer", "three consumers", "one phase", "asks again", "asks again in one stage"])
def test_what_if(edited, old, new, stages, kinds):
    report = checked(edited(old, new), stages)
    assert kinds <= {finding.kind for finding in report.findings}
    if kinds == {"WaitCycle"}:
        assert "a request was refused" in str(report)


def test_it_compiles(tutorial, sass_has):
    done = compile_kernel(tutorial.ragged_sums, {"x_ptr": "*fp32", "starts_ptr": "*i32", "sums_ptr": "*fp32"},
                          {"BLOCK": 256, "STAGES": 2}, "sm_100a")
    sass_has(done, (r"UGETNEXTWORKID\.SELFCAST", 1))


def test_the_program_runs(tutorial, capsys, monkeypatch):
    monkeypatch.syspath_prepend(tutorial.__file__.rpartition("/")[0])
    tutorial.simulate_one()
    assert "ok: nothing found in 12 runs" in capsys.readouterr().out
