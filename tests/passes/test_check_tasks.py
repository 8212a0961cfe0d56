"""Captures and warps of tasks."""

import pytest

from mimw.compiler.passes import check_tasks
from mimw.errors import TaskError, TooManyWarps
from mimw.target import target
from tests.analysis.building import ACC, F32, Kernel, Pointer, Tensor

SM90 = target("sm_90a")


def capturing(type_=ACC, default=False):
    k = Kernel()
    tile = k.at(3).tile(type_, named="tile")
    with k.at(5).task("epilogue", default=default):
        with k.loop(4):
            k.at(7).op("fadd", tile, tile)
    if default:
        with k.task("other"):
            pass
    return k.program()


def test_a_task_may_not_use_a_block_tensor_of_the_kernel():
    with pytest.raises(TaskError) as caught:
        check_tasks(capturing(), SM90)
    assert str(caught.value).splitlines()[:2] == [
        "TaskError at kernel.py:7: WarpSpecializeOp should not capture RankedTensorType: task 'epilogue' uses 'tile', a block "
        "tensor fp32[128, 128] that is made outside of it at kernel.py:3. A block tensor lies in the registers of the warps that "
        "made it.",
        "Mend: move the tensor computation into the task (scalars, pointers, descriptors, buffers and barriers may be captured), "
        "or hand the tensor over through shared memory.",
    ]
    assert [site.line for site in caught.value.sites] == [7, 3]


def test_nor_a_tensor_of_pointers():
    k = Kernel()
    pointers = k.op("splat", Tensor(Pointer(F32), (64, )), k.param("x", Pointer(F32)), named="pointers")
    with k.task("load"):
        k.op("load", pointers, None, False)
    with pytest.raises(TaskError, match="should not capture RankedTensorType"):
        check_tasks(k.program(), SM90)


def test_the_default_task_may():
    assert check_tasks(capturing(default=True), SM90) is None


def test_scalars_pointers_and_own_tensors_are_free():
    k = Kernel()
    x, n = k.param("x", Pointer(F32)), k.param("n")
    with k.task("compute"):
        with k.loop(n, [k.tile()]) as (_, (acc, )):
            k.carry(k.op("fadd", acc, k.tile()))
        k.op("fneg", k.results[0])
        k.op("load", x, None, False)
    assert check_tasks(k.program(), SM90) is None


def crowded(*warps):
    k = Kernel(warps=4)
    for number, count in enumerate(warps):
        with k.at(10 + number).task(f"t{number}", warps=count):
            pass
    return k.at(20).program()


def test_too_many_warps():
    with pytest.raises(TooManyWarps) as caught:
        check_tasks(crowded(16, 12, 1), SM90)
    assert str(caught.value).splitlines()[:2] == [
        "TooManyWarps at kernel.py:20: the tasks need 4 (default) + 16 (t0) + 12 (t1) + 1 (t2) = 33 warps, 36 in groups of 4; "
        "a CTA on sm_90a has at most 32 (1024 threads of 32 a warp).",
        "Mend: take 4 warps away: fewer replicas, or fewer warps a task.",
    ]


def test_just_enough_warps():
    assert check_tasks(crowded(16, 12), SM90) is None


def test_a_kernel_without_tasks_can_have_too_many_too():
    with pytest.raises(TooManyWarps, match=r"need 64 \(default\) = 64 warps; a CTA on sm_90a has at most 32"):
        check_tasks(Kernel(warps=64).program(), SM90)
