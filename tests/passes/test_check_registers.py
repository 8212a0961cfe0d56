"""Register requests are never refused, only remarked on."""

import pytest

from mimw.compiler.passes import check_registers
from mimw.target import target
from tests.analysis.building import Kernel

SM90 = target("sm_90a")


def remarks(*tasks, default=4):
    k = Kernel(warps=default)
    for number, (warps, registers) in enumerate(tasks):
        with k.at(10 + number).task(f"t{number}", warps, registers):
            pass
    return [str(remark) for remark in check_registers(k.program(), SM90)]


def test_no_requests():
    assert remarks((4, None), (1, None)) == []


def test_a_plan_that_works():
    assert remarks((4, 232), (4, 232)) == []


def test_requests_that_leave_the_default_task_nothing():
    assert remarks((4, 240), (4, 240)) == []  # leaves 24, the least that a thread can have
    assert remarks((4, 240), (4, 248)) == [
        "kernel.py:10: the register requests of 'kernel' are not met on sm_90a, no registers are moved and every thread has an "
        "equal share, 168 at most: 4 warps x 240 (t0) + 4 warps x 248 (t1) = 1952 of the 2016 that 12 warps have together "
        "(12 x 168), and 'default' needs 24 at least.\nMend: ask for at most 240, or leave num_regs out.",
    ]


def test_narrow_tasks_share_a_group_of_four_warps():
    """The sum is of what the hardware would have to give: four warps at the largest request among them."""
    assert remarks((8, 208), (1, 48), (1, 24)) == []
    said, = remarks((8, 232), (1, 80), (1, 24))
    assert "8 warps x 232 (t0) + 4 warps x 80 (t1, t2) = 2176 of the 2048 that 16 warps have together (16 x 128)" in said


@pytest.mark.parametrize("tasks, default, most", [
    (((8, 240), (8, 240)), 4, 112), (((4, 240), (4, 240), (4, 240)), 4, 160), (((16, 120), ), 16, 104), (((4, 264), ), 4, 256)])
def test_the_mend_is_the_largest_request_that_fits(tasks, default, most):
    """Asking for that much is met, asking for 8 more is not."""
    assert f"Mend: ask for at most {most}, " in remarks(*tasks, default=default)[0]
    assert remarks(*((warps, most) for warps, _ in tasks), default=default) == []
    assert remarks(*((warps, most + 8) for warps, _ in tasks), default=default)


def test_more_than_a_thread_can_have():
    remark, = remarks((4, 512))
    assert "task 't0' asks for 512 registers per thread, and a thread can have 256 at most" in remark
    assert remarks((4, 256)) == []
