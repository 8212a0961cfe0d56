"""Register requests that cannot be met: a remark of `check`, of the command and of a simulated launch, and never a finding."""

import json
import linecache
import warnings

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.cli import main
from mimw.errors import RemarkWarning


@mimw.jit
def tasks(x_ptr, REGISTERS: tl.constexpr, WARPS: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x_ptr, 1.0)
        with tlx.async_task(num_warps=WARPS, num_regs=REGISTERS, replicate=2):     # greedy
            tl.store(x_ptr + 1 + tlx.async_task_replica_id(), 2.0)


SUM = "8 warps x 240 (greedy[0]) + 8 warps x 240 (greedy[1]) = 3840 of the 1920 that 20 warps have together (20 x 96)"


def case():
    return tasks, (1, ), (np.zeros(3, np.float32), ), dict(REGISTERS=240, WARPS=8)


def test_check_is_ok_and_says_it():
    kernel, grid, args, meta = case()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = mimw.check(kernel, grid, *args, seeds=1, **meta)
    assert report.ok and len(report.remarks) == 1
    text = str(report)
    assert SUM in text and "Mend: ask for at most 112, or leave num_regs out." in text and "ok: nothing found in 1 run" in text
    assert text.startswith("Remark: ") and "# greedy" in text
    assert report.as_json()["ok"] and report.as_json()["remarks"][0]["line"] == report.remarks[0].site.line


@pytest.mark.parametrize("meta", [dict(REGISTERS=112, WARPS=8), dict(REGISTERS=240, WARPS=4)])
def test_requests_that_are_met_leave_no_remark(meta):
    report = mimw.check(tasks, (1, ), np.zeros(3, np.float32), seeds=1, **meta)
    assert report.ok and report.remarks == () and "Remark" not in str(report)


def test_more_than_a_thread_can_have():
    report = mimw.check(tasks, (1, ), np.zeros(3, np.float32), seeds=1, REGISTERS=304, WARPS=4)
    assert report.ok and "asks for 304 registers per thread, and a thread can have 256 at most" in str(report.remarks[0])


def test_a_simulated_launch_warns_at_the_kernels_line():
    @mimw.jit
    def fresh(x_ptr):
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tl.store(x_ptr, 1.0)
            with tlx.async_task(num_warps=8, num_regs=240, replicate=2):     # greedy
                tl.store(x_ptr + 1 + tlx.async_task_replica_id(), 2.0)

    out = np.zeros(3, np.float32)
    with pytest.warns(RemarkWarning) as caught:
        mimw.simulate(fresh, (1, ), out)
    assert SUM in str(caught[0].message) and "Mend: ask for at most 112" in str(caught[0].message)
    assert caught[0].filename == __file__ and linecache.getline(__file__, caught[0].lineno).rstrip().endswith("# greedy")
    assert out.tolist() == [1, 2, 2]


def test_the_command(capsys):
    assert main(["check", f"{__file__}:case", "--seeds", "1"]) == 0
    out = capsys.readouterr().out
    assert SUM in out and "ok: nothing found in 1 run" in out
    assert main(["check", f"{__file__}:case", "--seeds", "1", "--json"]) == 0
    assert SUM in json.loads(capsys.readouterr().out)["remarks"][0]["message"]


@pytest.mark.filterwarnings("ignore::mimw.errors.RemarkWarning")
def test_explain(capsys):
    main(["explain", f"{__file__}:tasks", "--signature", "*fp32", "--constexpr", "REGISTERS=240", "--constexpr", "WARPS=8"])
    assert SUM in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::mimw.errors.RemarkWarning")
@pytest.mark.parametrize("registers, warps", [(240, 8), (304, 4), (112, 8)])
def test_it_runs_whether_or_not_it_is_met(machine, registers, warps):
    """A `setmaxnreg` for registers that nobody gives back would wait for ever."""
    out = np.zeros(3, np.float32)
    machine.launch(tasks, (1, ), out, REGISTERS=registers, WARPS=warps)
    assert out.tolist() == [1, 2, 2]
