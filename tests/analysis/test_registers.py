"""The register plan: what setmaxnreg will do with the requests."""

import pytest

from mimw.compiler.analysis import register_plan, register_remarks, registers_stay, total_warps
from mimw.compiler.analysis.registers import requests
from mimw.report.resources import resource_table
from mimw.target import target
from tests.analysis.building import Kernel

SM90 = target("sm_90a")


def granted(*tasks, default=None, warps=4):
    """{task: (requested, granted)} for (warps, registers) of each task beside the default one."""
    k = Kernel(warps)
    with k.task("default", warps, default, default=True):
        pass
    for number, (count, registers) in enumerate(tasks):
        with k.task(f"t{number}", count, registers):
            pass
    return [row.granted for row in register_plan(k.program(), SM90)]


def test_without_requests_every_thread_keeps_its_share():
    assert granted((4, None), (1, None)) == [168, 168, 168]


def test_the_default_task_gets_the_rest():
    # 12 warps start with 168: 2016 in all; two groups of four take 232: 160 are left for four warps.
    assert granted((4, 232), (4, 232)) == [40, 232, 232]


def test_a_group_gets_its_largest_request():
    # The one-warp tasks share a group of four.
    assert granted((8, 208), (1, 24), (1, 40)) == [(128 * 16 - 8 * 208 - 4 * 40) // 4, 208, 40, 40]


def test_nobody_gets_more_than_256():
    assert granted((4, 24), (1, 24)) == [256, 24, 24]


def test_requests_are_rounded_up_and_never_below_24():
    assert granted((4, 8), (4, 100)) == [256, 24, 104]


def test_the_default_task_may_ask():
    assert granted((4, None), default=40) == [40, 256]
    assert granted((4, None), (4, None), default=24) == [24, 240, 240]
    assert granted((4, 160), default=200) == [200, 160]


@pytest.mark.parametrize("tasks", [[(4, 248), (4, 248)], [(4, 512)]])
def test_what_cannot_be_moves_nothing(tasks):
    launch = 65536 // (4 * (1 + len(tasks)) * 32) // 8 * 8
    assert granted(*tasks) == [launch] * (1 + len(tasks))


def test_nothing_moves_beside_half_a_warp_group():
    assert granted((4, 24), warps=2) == [256, 256]


def test_a_kernel_without_tasks():
    assert [(row.name, row.granted, row.moved) for row in register_plan(Kernel(8).program(), SM90)] == [("kernel", 256, False)]


def test_wide_tasks_come_first_and_regions_take_turns():
    k = Kernel()
    with k.task("small", 1):
        pass
    with k.task("wide", 8):
        pass
    k.start_tasks()
    with k.task("later", 4):
        pass
    k.start_tasks()
    program = k.program()
    assert total_warps(program) == 16
    assert [(row.name, row.region, row.first_warp) for row in register_plan(program, SM90)] == [
        ("default", 0, 0), ("small", 0, 12), ("wide", 0, 4), ("default", 1, 0), ("later", 1, 4)]


@pytest.mark.parametrize("chip, extra, launch", [("gfx942", 4, 256), ("gfx942", 8, 168), ("gfx950", 12, 128), ("gfx1250", 4, 512)])
def test_on_amd_no_registers_move(chip, extra, launch):
    """All waves have as many; requests do nothing and nobody is warned of them, `explain` says it in a line."""
    k = Kernel(4)
    with k.task("default", 4, None, default=True):
        pass
    with k.task("worker", extra, 40):
        pass
    program, chip = k.program(), target(chip)
    assert [(row.requested, row.granted, row.moved) for row in register_plan(program, chip)] == [
        (None, launch, False), (40, launch, False)]
    assert set(requests(program, chip).values()) == {(None, None)} and register_remarks(program, chip) == ()
    assert registers_stay(program, chip) == (
        f"register requests have no effect on {chip}. Every thread has as many as the largest task needs, {launch} at most with "
        f"{4 + extra} warps.")
    assert registers_stay(program, chip) in resource_table(program, chip) and registers_stay(program, SM90) == ""
