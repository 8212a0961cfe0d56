"""Hardware barriers in the PTX of warp-specialised kernels: of one task each, and where memory needs them."""

import re

from tests.compiling import to_assembly
from tests.kernels import staging
from tests.kernels.one_word import CASES
from tests.lowering.harness import Case
from tests.lowering.ptx import unsafe

_DESC = "tensordesc<fp16[64,64]>"
_STAGING = Case(staging.through_staging, {"x_desc": _DESC, "y_desc": _DESC, "n": "i32"})


def syncs(ptx: str) -> set[str]:
    return {re.sub(r"\s+", " ", line.strip(" \t;")) for line in re.findall(r"^\s*bar(?:rier)?\.sync[^;]*;", ptx, re.M)}


def test_a_sync_inside_a_task_counts_that_tasks_threads():
    """Barrier 1 starts and ends the region with all warps; tasks have one each, wider tasks first, one warp none."""
    ptx = Case(staging.tasks_of_all_sizes, {"x": "*fp32"}).compiled(by=to_assembly).stage("ptx")
    assert syncs(ptx) == {"barrier.sync 1", "bar.sync 0, 128", "bar.sync 2, 256", "bar.sync 3, 64"}


def test_a_one_warp_task_syncs_its_warp():
    ptx = _STAGING.compiled(by=to_assembly).stage("ptx")
    assert syncs(ptx) == {"barrier.sync 1", "bar.sync 0, 128"}
    assert "bar.warp.sync" in ptx


def stores_too_early(state, line):
    return "sync" in state and re.match(r"(@%\S+ )?(st\.shared|stmatrix)", line)


def waits_for_stores(state, line):
    """One thread's groups: after its wait the others know nothing before they have met it."""
    if line.startswith("cp.async.bulk.wait_group"):
        return frozenset({"sync"})
    return frozenset() if re.match(r"bar(rier)?\.sync", line) else state


def test_staging_is_overwritten_only_after_all_threads_know_of_the_store():
    for case in (_STAGING, CASES["desc_load_store"][0], CASES["make_tensor_descriptor"][0]):
        ptx = case.compiled(by=to_assembly).stage("ptx")
        assert "cp.async.bulk.wait_group" in ptx
        assert unsafe(ptx, waits_for_stores, stores_too_early) == []
    ptx = _STAGING.compiled(by=to_assembly).stage("ptx").replace("bar.sync", "no.sync")
    assert unsafe(ptx, waits_for_stores, stores_too_early)  # the check sees it


def test_barriers_are_ready_before_tasks_and_copies_use_them():
    """Initialised, fenced for the async proxy that will count bytes on them, then all warps meet."""
    ptx = _STAGING.compiled(by=to_assembly).stage("ptx")
    init = ptx.rindex("mbarrier.init")
    fence, meet = ptx.index("fence.proxy.async", init), ptx.index("barrier.sync", init)
    assert init < fence < meet
    for use in ("mbarrier.try_wait", "mbarrier.arrive", "cp.async.bulk.tensor"):
        assert meet < ptx.index(use)
    assert ptx.count("fence.proxy.async", 0, meet) == 1
