"""Benchmarks of `triton.testing` in which launches are predicted: which rows a report takes, and what it says of the others."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.errors import SimulatorMisuse
from mimw.testing import gpu_available
from mimw.tools.timing import bench, perf_report
from mimw.tools.timing.perf_report import Sweep, in_halves, predicted_report, seconds

pytestmark = pytest.mark.skipif(gpu_available(), reason="there is a GPU, on which launches are not simulated")


@mimw.jit
def plus_one(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


def _bench(sizes, lines=("ours", "theirs")):
    return SimpleNamespace(x_names=["n"], x_vals=sizes, line_arg="line", line_vals=list(lines), line_names=[*map(str.title, lines)],
                           plot_name="adding", args={"block": 256}, ylabel="us")


def _time(n, line, block):
    x = np.zeros(n, np.float32)
    plus_one[(-(-n // block), )](x, n, BLOCK=block)      # not run: a report asks for times only
    ours = (lambda: plus_one[(-(-n // block), )](x, n, BLOCK=block)) if line == "ours" else (lambda: x + 1)
    found = bench.predicted_time(_time, ours)
    assert not x.any()
    return 1000 * found


def test_rows_come_from_the_whole_range():
    assert list(in_halves(9)) == [0, 4, 2, 6, 1, 3, 5, 7, 8] and list(in_halves(1)) == [0] and not list(in_halves(0))


def test_a_report_says_what_it_is(capsys, tmp_path):
    predicted_report(_time, _bench([256, 1024]), print_data=True, save_path=str(tmp_path))
    first, _, _, *rows, last = capsys.readouterr().out.splitlines()
    assert first == "adding: predicted for NVIDIA H200, not measured"
    assert [float(row.split()[1]) for row in rows] == pytest.approx([4.4, 4.4], abs=0.4)
    assert last == "2 of 2 rows. Not timed: Theirs: launches no kernel of mimw. No plot is drawn."
    assert (tmp_path / "adding.csv").read_text().startswith('n,"Ours (us), predicted"\n256,4.')


def test_a_report_ends_in_time(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr(perf_report.time, "monotonic", lambda: float(next(now)))
    sweep = Sweep(_time, _bench([256, 512, 768, 1024], ["ours"]), {})
    sweep.run(2.5)
    assert sorted(sweep.rows) == [0, 2]
    assert str(sweep).endswith("2 of 4 rows, within 2.5 s (--bench SECONDS). No plot is drawn.")


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_seconds_are_a_number(monkeypatch, text):
    monkeypatch.setenv("MIMW_BENCH", text)
    with pytest.raises(SimulatorMisuse, match="MIMW_BENCH is"):
        seconds()


def test_a_chip_without_a_cost_model_gives_no_time(monkeypatch):
    monkeypatch.setenv("MIMW_TARGET", "sm_120a")
    x = np.zeros(256, np.float32)
    found = bench.timed(lambda: plus_one[(1, )](x, 256, BLOCK=256))
    assert math.isnan(found.milliseconds) and "plus_one cannot be predicted: there is no cost model of sm_120a" in str(found)


def test_a_function_with_very_many_launches_gives_no_time(monkeypatch):
    monkeypatch.setattr(bench, "LAUNCHES", 2)
    x = np.zeros(256, np.float32)

    def thrice():
        for _ in range(3):
            plus_one[(1, )](x, 256, BLOCK=256)

    assert "it launches more than 2 times" in str(bench.timed(thrice))
