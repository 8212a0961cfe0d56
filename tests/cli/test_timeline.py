"""`mimw timeline`: figures, pictures, and what it refuses."""

import json

import pytest

from mimw.cli import main

SCRIPT = """
import mimw, mimw.tlx as tlx, triton.language as tl

@mimw.jit
def copied(source, target, ROWS: tl.constexpr):
    tile = tlx.local_alloc((ROWS, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            tl.store(target + tl.arange(0, ROWS), tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):
            tlx.local_store(tile[0], tl.load(source + tl.arange(0, ROWS)))
            tlx.barrier_arrive(full[0])
"""
ARGUMENTS = ["--args", "fp32[128]", "fp32[128]", "ROWS=128"]


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(SCRIPT)
    return f"{path}:copied"


def test_figures_and_pictures(script, tmp_path, capsys):
    page, trace = tmp_path / "a.html", tmp_path / "a.json"
    assert main(["timeline", script, "-o", str(page), "-o", str(trace), "--grid", "132", *ARGUMENTS]) == 0
    text = capsys.readouterr().out
    assert "copied on grid (132,)" in text and "NVIDIA H200" in text and "bound by" in text and "full" in text
    assert "<svg" in page.read_text() and json.loads(trace.read_text())["otherData"]["unit"] == "us"


def test_json_and_the_clock(script, capsys):
    assert main(["timeline", script, "--json", "--mhz", "1000", *ARGUMENTS]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["megahertz"] == 1000 and found["microseconds"] == pytest.approx(4 + found["cycles"] / 1000)


@pytest.mark.parametrize("more, message", [(["-o", "a.png"], "should end in .html, .svg or .json"),
                                           (["--target", "sm_120a"], "there is no cost model of sm_120a"),
                                           (["--measure"], "--measure needs a GPU")])
def test_refusals(script, capsys, more, message):
    assert main(["timeline", script, *more, *ARGUMENTS]) == 1
    assert message in capsys.readouterr().err
