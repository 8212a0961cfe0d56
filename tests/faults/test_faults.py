"""The kernel and the judgement of the faults; what goes wrong on real GPUs, `python -m tests.faults` makes there."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the faults are made in processes of torch.distributed")

import mimw  # noqa: E402
from tests.faults import programs  # noqa: E402
from tests.faults.cases import CASES  # noqa: E402


def test_the_steps_add_up():
    """Two launches one after the other: what came in the first, 0 * 2 + rank, and in the second."""
    world = mimw.World(3)
    inbox = world.symmetric(64, "int32", "inbox")
    count, total = (world.each(lambda rank: np.zeros(64, np.int32), name) for name in ("count", "total"))
    args = (programs.step, (2, ), count, inbox, total, world, 32)
    assert mimw.check(*args, seeds=2).ok
    for one in (*count, *total, *inbox):
        one[:] = 0
    for _ in range(2):
        mimw.simulate(*args, races=True)
    assert [set(one) for one in total] == [{2 + 2 * ((rank - 1) % 3)} for rank in range(3)]
    assert all((one == 2).all() for one in count)


def test_every_case_has_a_program():
    assert all(callable(getattr(programs, name)) for name in CASES)


def test_what_is_judged():
    case = CASES["killed"]
    told = ("\nmimw: PeerLost: rank 0 of group '0' does not go on: a launch has not come back for 3 s.\n"
            "rank 1: its process 17 has ended\nprogram 1 of rank 0 reached a world barrier, and rank 1 did not\n")
    assert not case.judge([124, -9], [told, ""])
    assert "rank 1 ended with '0" in case.judge([124, 0], [told, ""])
    assert "rank 0 ended with " in case.judge([124, -9], [told.replace("rank 1: its process 17 has ended", ""), ""])
    assert not CASES["late"].judge(["right", "right"], ["", ""])
    assert CASES["late"].judge(["right", "the sum is 3, not 4"], ["", ""])
