"""wgmma reads shared memory through the async proxy: between a thread's write and the read stand a fence and a sync."""

import re

import pytest

from tests.compiling import to_assembly
from tests.kernels import fenced_dots as dots
from tests.lowering.harness import Case
from tests.lowering.ptx import unsafe

_ALIGNED = {(0, ): [["tt.divisibility", 16]]}


def case(kernel) -> Case:
    return Case(kernel, {"x": "*fp16", "y": "*fp32", "n": "i32"}, attrs=_ALIGNED)


def after(state, line):
    """What a write still lacks: the fence (of the writer, or of the reader after the sync) and the sync.

    A cp.async counts as a write when it has been waited for.
    """
    if re.match(r"(@%\S+ )?(st\.shared|stmatrix|cp\.async\.wait)", line):
        return frozenset({"fence", "sync"})
    if line.startswith("fence.proxy.async"):
        return state - {"fence"}
    if line.startswith(("bar.sync", "barrier.sync")):
        return state - {"sync"}
    return state


def reads_too_early(state, line):
    return bool(state) and "wgmma.mma_async" in line


@pytest.mark.long(everywhere=True, but=[
    "stored", "stored_ahead", "in_worker", "copied_in_worker", "chosen", "ring", "in_branch", "sliced", "transposed",
    "after_loop", "written_by_other_loop"])
@pytest.mark.parametrize("kernel", dots.KERNELS, ids=lambda kernel: kernel.__name__)
def test_a_fence_and_a_sync_stand_between_write_and_dot(kernel):
    ptx = case(kernel).compiled(by=to_assembly).stage("ptx")
    assert "wgmma.mma_async" in ptx and re.search(r"st\.shared|stmatrix|cp\.async\.c", ptx)
    assert unsafe(ptx, after, reads_too_early) == []


def test_the_check_sees_a_missing_fence():
    ptx = case(dots.ring).compiled(by=to_assembly).stage("ptx")
    assert unsafe(ptx.replace("fence.proxy.async", "nop.fence"), after, reads_too_early)


def test_what_was_written_before_the_region_is_fenced_inside():
    ptx = case(dots.written_outside).compiled(by=to_assembly).stage("ptx")
    task = ptx[:ptx.index("wgmma.mma_async")]
    assert task.rindex("fence.proxy.async") > task.rindex("barrier.sync")
