"""Asynchronous dots and the warps of their task."""

import pytest

from mimw.compiler.passes import check_warpgroups
from mimw.errors import TaskError
from mimw.target import target
from tests.analysis.building import ACC, Kernel

SM90 = target("sm_90a")


def dot_in_a_task(warps: int) -> Kernel:
    k = Kernel()
    a, b = k.buffers("a", 0), k.buffers("b", 0, (64, 128))
    with k.at(10).task("mma", warps=warps):
        k.at(12).op("async_dot_wait", 0, k.op("async_dot", a, b, None, "tf32", 0, type=ACC))
    return k


def dot_without_tasks(warps: int) -> Kernel:
    k = Kernel(warps)
    k.at(3).op("async_dot", k.buffers("a", 0), k.buffers("b", 0, (64, 128)), None, "tf32", 0, type=ACC)
    return k


@pytest.mark.parametrize("make", [dot_in_a_task, dot_without_tasks])
@pytest.mark.parametrize("warps", [4, 8, 16])
def test_whole_warpgroups(make, warps):
    assert check_warpgroups(make(warps).program(), SM90) is None


def test_a_task_of_two_warps():
    with pytest.raises(TaskError) as caught:
        check_warpgroups(dot_in_a_task(2).program(), SM90)
    assert str(caught.value).splitlines() == [
        "TaskError at kernel.py:12: async_dot is issued by whole warpgroups of 4 warps; task 'mma' has 2 = 0 * 4 + 2.",
        "Mend: use async_task(num_warps=4).", "kernel.py:12", "kernel.py:10"]


def test_a_kernel_of_one_warp():
    with pytest.raises(TaskError, match="this kernel has 1 = 0 \\* 4 \\+ 1.\nMend: use a launch with num_warps=4"):
        check_warpgroups(dot_without_tasks(1).program(), SM90)


def test_other_tasks_may_have_any_number():
    k = dot_in_a_task(4)
    with k.task("load", warps=1):
        k.number(1)
    assert check_warpgroups(k.program(), SM90) is None
