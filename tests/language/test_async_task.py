"""Task regions and tasks on the host, and the replica index."""

from types import SimpleNamespace

import pytest
import triton.language as tl

import mimw.tlx as tlx


def test_default_task():
    task = tlx.async_task("default", num_regs=240)
    assert (task.is_default, task.num_warps, task.num_regs, task.replicate, task.warp_group_start_id) == (True, None, 240, 1, None)


def test_other_task_in_a_kernel():
    task = tlx.async_task(num_warps=tl.constexpr(4), registers=tl.constexpr(232), replicate=tl.constexpr(2),
                          warp_group_start_id=tl.constexpr(4), _semantic=object())
    assert (task.is_default, task.num_warps, task.num_regs, task.replicate, task.warp_group_start_id) == (False, 4, 232, 2, 4)


def test_the_default_name_may_be_a_constexpr():
    assert tlx.async_task(tl.constexpr("default")).is_default


def test_num_regs_wins_over_registers():
    assert tlx.async_task(num_warps=4, num_regs=64, registers=128).num_regs == 64


@pytest.mark.parametrize("given", [dict(num_warps=4), {}])
def test_registers_must_be_divisible_by_8(given):
    args = () if given else ("default", )
    with pytest.raises(ValueError, match="num_regs must be divisible by 8"):
        tlx.async_task(*args, num_regs=100, **given)


def test_legacy_task_ids_are_kept_for_the_region_to_refuse():
    task = tlx.async_task([0, 1])
    assert (task.task_ids, task.is_default) == ((0, 1), False)
    assert tlx.async_task("default").task_ids is None


@pytest.mark.parametrize("args, kwargs, text", [
    ((), {}, "needs num_warps"),
    (("producer", ), {}, 'takes "default" or num_warps'),
    (("default", ), dict(num_warps=4), "leave num_warps out"),
    ((), dict(num_warps=3), "power of two"),
    ((), dict(num_warps=0), "power of two"),
    ((), dict(num_warps=4, replicate=0), "replicate must be at least 1"),
    ((), dict(num_warps=4, warp_group_start_id=-1), "warp_group_start_id must be non-negative"),
    ((), dict(num_warps=4.0), "num_warps must be an int"),
])
def test_task_refusals(args, kwargs, text):
    with pytest.raises(ValueError, match=text):
        tlx.async_task(*args, **kwargs)


def test_a_run_time_number_of_warps(kernel):
    with pytest.raises(ValueError, match="`num_warps` must be a constexpr"):
        tlx.async_task(num_warps=kernel.tensor("n", tl.int32))


def test_region_options():
    region = tlx.async_tasks(exclusive=tl.constexpr(True), mbarrier_try_wait_suspend_ns=tl.constexpr(100), warp_specialize=True)
    assert (region.exclusive, region.no_ending_cluster_sync, region.mbarrier_try_wait_suspend_ns) == (True, False, 100)
    assert tlx.async_tasks().mbarrier_try_wait_suspend_ns is None


@pytest.mark.parametrize("value", [-1, 1.5, True, "soon"])
def test_suspend_time_must_be_a_non_negative_integer(value):
    with pytest.raises(ValueError, match="mbarrier_try_wait_suspend_ns must be a non-negative integer"):
        tlx.async_tasks(mbarrier_try_wait_suspend_ns=value)


@pytest.mark.parametrize("region", [tlx.async_tasks(), tlx.async_task("default")])
def test_only_the_frontend_opens_a_region(region):
    with pytest.raises(RuntimeError, match="@mimw.jit"):
        region.__enter__()


def test_replica_id_inside_a_task(kernel):
    generator = SimpleNamespace(task=SimpleNamespace(replica=1))
    replica = kernel(tlx.async_task_replica_id, _generator=generator)
    assert isinstance(replica, tl.constexpr) and replica.value == 1


@pytest.mark.parametrize("generator", [SimpleNamespace(task=None), None])
def test_replica_id_outside_a_task(kernel, generator):
    with pytest.raises(AssertionError, match="async_task_replica_id must be called inside an async region"):
        kernel(tlx.async_task_replica_id, _generator=generator)


def test_pipeline_stage():
    stage = tlx.warp_pipeline_stage("load", priority=3)
    assert (stage.label, stage.priority) == ("load", 3)
    with pytest.raises(ValueError, match="label"):
        tlx.warp_pipeline_stage(3)
    for priority in (-1, 4, 1.0):
        with pytest.raises(ValueError, match="priority"):
            tlx.warp_pipeline_stage(priority=priority)
