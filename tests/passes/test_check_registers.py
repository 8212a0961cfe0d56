"""Register requests are never refused, only remarked on."""

from mimw.passes import check_registers
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
        "kernel.py:10: the register requests are not met, every thread keeps 168: 4 warps x 240 (t0) + 4 warps x 248 (t1) = 1952 "
        "of the 2016 that 12 warps have together (12 x 168), and every other task needs at least 24 per thread.",
    ]


def test_more_than_a_thread_can_have():
    assert remarks((4, 512)) == ["kernel.py:10: task 't0' asks for 512 registers per thread; sm_90a has at most 256."]
    assert remarks((4, 256)) == []
