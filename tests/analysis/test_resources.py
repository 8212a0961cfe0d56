"""What each task has and does."""

from mimw.compiler.analysis import task_resources
from mimw.target import target
from tests.analysis.building import ACC, Kernel, ring_copy

SM90 = target("sm_90a")


def test_a_ring():
    rows = task_resources(ring_copy().program(), SM90)
    assert [(row.name, row.role, row.num_warps, row.buffers, row.waits, row.arrives, row.copies, row.dots) for row in rows] == [
        ("default", "idle", 4, (), (), (), 0, 0),
        ("load", "load", 1, ("tiles", ), ("free", ), ("full", ), 1, 0),
        ("mma", "compute", 4, ("tiles", ), ("full", ), ("free", ), 0, 0),
    ]


def test_a_kernel_without_tasks():
    k = Kernel(8)
    a = k.buffers("a", 0)
    k.op("async_dot", a, k.buffers("", 0, (64, 128)), None, "tf32", 0, type=ACC)
    (row, ) = task_resources(k.program(), SM90)
    assert (row.name, row.role, row.num_warps, row.buffers, row.dots) == ("kernel", "mma", 8, ("a", "buffer1"), 1)
