"""`mimw timeline`: figures, pictures, and what it refuses."""

import json

import pytest

from mimw.cli import main
from tests.kernels import two_tasks

KERNEL = f"{two_tasks.__file__}:copy"
ARGUMENTS = ["--args", "fp32[128]", "fp32[128]", "SIZE=128"]


def test_figures_and_pictures(tmp_path, capsys):
    page, trace = tmp_path / "a.html", tmp_path / "a.json"
    assert main(["timeline", KERNEL, "-o", str(page), "-o", str(trace), "--grid", "132", *ARGUMENTS]) == 0
    text = capsys.readouterr().out
    assert "copy on grid (132,)" in text and "NVIDIA H200" in text and "bound by" in text and "full" in text
    assert "<svg" in page.read_text() and json.loads(trace.read_text())["otherData"]["unit"] == "us"


def test_json_and_the_clock(capsys):
    assert main(["timeline", KERNEL, "--json", "--mhz", "1000", *ARGUMENTS]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["megahertz"] == 1000 and found["microseconds"] == pytest.approx(4 + found["cycles"] / 1000)


@pytest.mark.parametrize("more, message", [(["-o", "a.png"], "should end in .html, .svg or .json"),
                                           (["--target", "sm_120a"], "there is no cost model of sm_120a"),
                                           (["--measure"], "--measure needs a GPU")])
def test_refusals(capsys, more, message):
    assert main(["timeline", KERNEL, *more, *ARGUMENTS]) == 1
    assert message in capsys.readouterr().err
