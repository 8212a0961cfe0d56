"""Drawn programs at other sizes, and what their benchmark says of them; here with predictions in place of times."""

import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="arrays of launches are tensors")

import mimw  # noqa: E402
from benchmarks import orchestrate_drawn  # noqa: E402
from benchmarks.drawn_launches import launch_of, scaled  # noqa: E402
from benchmarks.orchestrate_drawn import _apart as far  # noqa: E402
from benchmarks.orchestrate_drawn import difference, line, summary  # noqa: E402
from mimw.tools.orchestrate import Plan  # noqa: E402
from tests.fuzz.ordinary.draw import drawn  # noqa: E402

SEED = 4        # a grid of tiles, ragged rows and columns, something to hand over


def of(style):
    """The first program of a kind."""
    return next(program for seed in range(60) if style(program := drawn(seed, None, True)[0]))


@pytest.mark.parametrize("style, grid", [
    (lambda program: len(program.grid) == 2, 2), (lambda program: "tiles" in program.sizes, 1),
    (lambda program: "heads" in program.sizes, 1)], ids=["grid", "tiles in turn", "heads"])
def test_the_same_kernel_over_more_tiles(style, grid):
    small = of(style)
    large = scaled(small, 12, 5, 7)
    assert large.source == small.source and len(large.grid) == grid and large.alias is None
    tiles = large.extents["T"] // large.constants["R"]
    assert 9 <= tiles <= 15 and large.extents["K"] == 5 * large.constants["C"]
    assert large.grid == (min(7, tiles), ) if "tiles" in large.sizes else large.grid[0] * (*large.grid, 1)[1] == tiles
    for axis in "MN":       # as much is cut off as was
        assert large.extents[axis] - large.sizes[axis] == small.extents[axis] - small.sizes[axis]
    launch = launch_of(large)
    assert sum(isinstance(one, torch.Tensor) for one in launch.args) + sum(hasattr(one, "block_shape") for one in launch.args) \
        == len(launch.tensors) == len(large.arrays) + len(large.vectors)
    with pytest.raises(ValueError, match="a table has 64 entries"):
        scaled(small, 12, 65, 7)


@pytest.fixture
def one_plan(monkeypatch):
    """One plan in place of a search."""
    real = mimw.orchestrate
    monkeypatch.setattr(orchestrate_drawn.mimw, "orchestrate", lambda *args, **meta: real(
        *args, plan=Plan(consumers=1, stages=2), seeds=1, limit=5, **meta))


def test_a_run_without_a_gpu(monkeypatch, tmp_path, capsys, one_plan):
    words = "orchestrate_drawn", "1", "--first", str(SEED), "--tiles", "1", "--trips", "8", "--results", str(tmp_path)
    monkeypatch.setattr(sys, "argv", list(words))
    orchestrate_drawn.main()
    row, = map(json.loads, (tmp_path / "orchestrate_drawn.jsonl").read_text().splitlines())
    assert row["name"] == f"drawn-{SEED}" and row["chip"] == "predicted" and row["plain_us"] >= row["ours_us"] > 0
    assert row["plan"]["consumers"] == 1 and "1 programs, " in capsys.readouterr().out


def test_results_are_compared(monkeypatch, one_plan):
    """On the simulator: the launch that is given, and one that has stored something else."""
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    launch = launch_of(scaled(drawn(SEED, None, True)[0], 1, 8, 1))
    found = mimw.orchestrate(launch.kernel, launch.grid, *launch.args, **launch.meta)

    def of(run):
        """What `difference` takes: something that is launched over a grid."""
        return type("Launched", (), {"__getitem__": lambda self, grid: lambda *args, **meta: run(grid, args, meta)})()

    def wrong(grid, args, meta):
        launch.kernel[grid](*args, **meta)
        launch.tensors[-2].view(torch.uint8)[:64] = 60

    assert difference(launch, of(lambda grid, args, meta: found.chosen.written.runs(grid, args, meta)())) == ""
    assert difference(launch, of(wrong)).startswith(f"tensor {len(launch.tensors) - 2}: ")
    assert difference(launch, of(lambda *launched: None)).startswith("tensor ")


def test_rounding_is_no_difference():
    want = torch.randn(64, 64)
    want[0, :3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    assert far(want.clone(), want) == far(want * (1 + 1e-3), want) == ""
    for at, value in (((0, 0), 1.0), ((0, 1), -float("inf")), ((5, 5), float("nan")), ((5, 5), 100.0)):
        got = want.clone()
        got[at] = value
        assert far(got, want)
    assert far(torch.tensor([1, 2]), torch.tensor([1, 3])) == "1 of 2 integers differ"


def test_what_is_slower_is_named(capsys):
    row = {"name": "drawn-1", "plain_us": 97.0, "ours_us": 100.0, "is_used": True, "because": "measured", "differs": ""}
    rows = [row, {**row, "name": "drawn-2", "plain_us": 110.0}, {**row, "name": "drawn-3", "plain_us": 99.0, "differs": "tensor 0"}]
    assert summary(rows) == [f"slower than 0.98 of plain: {line(rows[0])}", f"differs: {line(rows[2])}"]
    assert "3 programs, 3 orchestrated: 1.018 of plain, 0.970 to 1.100" in capsys.readouterr().out
    assert summary([]) == []
