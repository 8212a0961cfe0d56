"""`mimw.Case` under the commands: its results are compared, and each other way to give them is refused with the right one."""

import copy

import pytest

import mimw
from mimw.cli import main

FILE = """\
import numpy as np, triton.language as tl, mimw

@mimw.jit
def double(x, y, N: tl.constexpr):
    tl.store(y + tl.arange(0, N), 2 * tl.load(x + tl.arange(0, N)))

ARGS = double, (1, ), (np.ones(64, np.float32), np.zeros(64, np.float32)), {"N": 64}

def right():
    return mimw.Case(*ARGS, expected=lambda x: 2 * x)

def wrong():
    return mimw.Case(*ARGS, expected={"y": np.full(64, 3)})

def near():
    return mimw.Case(*ARGS, expected={"y": np.full(64, 3)}, tolerance=0.5)

def by_a_launch():
    def double_of(x):
        y = np.zeros_like(x)
        double[1, ](x, y, N=64)
        return y
    return mimw.Case(*ARGS, expected=double_of)

def plain():
    return ARGS

def five():
    return *ARGS, {"y": 1}

def among():
    return *ARGS[:3], {**ARGS[3], "expected": 1}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    import sys
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    (tmp_path / "doubled.py").write_text(FILE)
    return f"{tmp_path}/doubled.py"


@pytest.mark.parametrize("command, ends", [("check", "results compared: 'y' as expected in 8 runs\n"),
                                           ("simulate", "; results as expected\n"), ("run", "; results as expected\n")])
def test_commands_compare_the_results_of_a_case(command, ends, file, capsys):
    assert main([command, f"{file}:right"]) == 0 and ends in capsys.readouterr().out
    assert main([command, f"{file}:near"]) == 0 and ends in capsys.readouterr().out
    assert main([command, f"{file}:by_a_launch"]) == 0 and ends in capsys.readouterr().out
    assert main([command, f"{file}:plain"]) == 0 and "results not compared" in capsys.readouterr().out
    assert main([command, f"{file}:wrong"]) == 1
    told = "".join(capsys.readouterr())
    assert "WrongResult: 'y'[0] is 2, expected 3; 64 of 64" in told and "doubled.py:5 wrote it" in told
    assert main([command, f"{file}:five"]) != 0 and "mimw.Case(kernel, grid, args, meta, expected=...)" in capsys.readouterr().err
    assert main([command, f"{file}:among"]) != 0 and "'expected' among its compile-time values" in capsys.readouterr().err


def test_a_case_is_a_launch_of_four_for_every_other_tool(file, capsys):
    for command in ("explain", "predict", "compile"):
        assert main([command, f"{file}:right"]) == 0
    kernel, grid, args, meta = case = mimw.Case(main, (1, ), [], {"N": 64}, expected=1, tolerance=2)
    assert meta == {"N": 64} and (case.expected, case.tolerance) == (1, 2) and repr(case) == "Case(main, (1,), ..., expected=...)"
    again = copy.deepcopy(case)
    assert again == case and (again.expected, again.tolerance) == (1, 2)


@pytest.mark.parametrize("name, status, told", [
    ("right", 0, "launched; results as expected\n"), ("plain", 0, "; results not compared\n"),
    ("wrong", 1, "`mimw check`, or `mimw simulate`, names the program that writes it")])
def test_results_of_a_gpu_are_compared_there(name, status, told, file, capsys, monkeypatch):
    """The arrays that the launch has filled, here simulated copies, and not those of the case."""
    import mimw.cli.on_gpu
    monkeypatch.setattr("mimw.runtime.simulating.simulating", lambda: False)
    monkeypatch.setattr(mimw.cli.on_gpu, "on_gpu", copy.deepcopy)
    assert main(["run", f"{file}:{name}"]) == status
    assert told in "".join(capsys.readouterr())


@pytest.mark.gpu
def test_on_a_gpu(file, capsys, monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "0")
    assert main(["run", f"{file}:right"]) == 0 and "launched; results as expected\n" in capsys.readouterr().out
    assert main(["run", f"{file}:wrong"]) == 1 and "'y'[0] is 2, expected 3; 64 of 64" in capsys.readouterr().err
