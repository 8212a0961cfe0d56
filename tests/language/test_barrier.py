"""Barriers and fences: what they record and refuse."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError

from .harness import Kernel


@pytest.fixture
def bar(kernel):
    """One barrier of an array of two."""
    return kernel(kernel(tlx.alloc_barriers, 2).__getitem__, 1)


def after_setup(kernel):
    return [line for line in kernel.text() if "alloc_barriers" not in line and "barrier_index" not in line]


def test_alloc(kernel):
    bars = kernel(tlx.alloc_barriers, 3, 2)
    assert (bars.num, bars.is_warp_barrier, kernel(bars.__getitem__, 0).num) == (3, False, 0)
    assert kernel.text() == ["%0 = alloc_barriers count=3, arrive_count=2 : barrier<x 3>", "%2 = barrier_index %0, %1 : barrier"]


@pytest.mark.parametrize("args", [(0, ), (2, 0), (True, )])
def test_alloc_refusals(kernel, args):
    with pytest.raises(ValueError, match="must be a positive constexpr int"):
        kernel(tlx.alloc_barriers, *args)


def test_a_single_barrier_has_no_elements(kernel, bar):
    with pytest.raises(KernelError, match="a single mbarrier cannot be indexed"):
        kernel(bar.__getitem__, 0)


def test_alloc_warp_barrier(kernel):
    bars = kernel(tlx.alloc_warp_barrier, 2, num_warps=4, num_arrivals=3)
    assert (bars.num, bars.is_warp_barrier, kernel(bars.__getitem__, 0).is_warp_barrier) == (2, True, True)
    kernel(tlx.barrier_arrive, kernel(bars.__getitem__, 1))
    text = kernel.text()
    assert text[0] == "%0 = alloc_barriers count=2, arrive_count=384 per_thread=True : barrier<x 2> per thread"
    assert text[-2:] == ["%4 = barrier_index %0, %3 : barrier per thread", "barrier_arrive %4, count=1"]


@pytest.mark.parametrize("args", [(0, ), (1, 0), (1, 1, 0), (1, 1.5)])
def test_alloc_warp_barrier_refusals(kernel, args):
    with pytest.raises(ValueError, match="alloc_warp_barrier: num_.* must be a positive constexpr int"):
        kernel(tlx.alloc_warp_barrier, *args)


def test_more_arrivals_than_a_phase_counts(kernel, bar):
    most = (1 << 20) - 1
    kernel(tlx.alloc_barriers, 1, most)
    kernel(tlx.barrier_arrive, bar, most)
    for call in ((tlx.alloc_barriers, 1, most + 1), (tlx.barrier_arrive, bar, most + 1), (tlx.alloc_warp_barrier, 1, 8, 4096)):
        with pytest.raises(KernelError, match="1048576 arrivals are more than the 1048575 that a phase can count"):
            kernel(*call)


def test_named_barriers(kernel):
    kernel(tlx.named_barrier_wait, 9, 256)
    kernel(tlx.named_barrier_arrive, bar=tl.constexpr(15), arrive_count=tl.constexpr(64))
    assert kernel.text() == ["named_barrier_wait barrier=9, threads=256", "named_barrier_arrive barrier=15, threads=64"]


@pytest.mark.parametrize("bar, count, text", [
    (16, 32, "from 0 to 15, got 16"), (-1, 32, "from 0 to 15"), (True, 32, "from 0 to 15"), (9, 33, "multiple of 32"),
    (9, 0, "multiple of 32"), (9, 2048, "multiple of 32")])
def test_named_barrier_refusals(kernel, bar, count, text):
    for word in (tlx.named_barrier_wait, tlx.named_barrier_arrive):
        with pytest.raises(ValueError, match=text):
            kernel(word, bar, count)


@pytest.mark.parametrize("chip", ["gfx942", "gfx1250"])
def test_on_amd_a_wave_counts_for_as_many_threads(chip):
    """One source has the same numbers on every chip, whatever the lanes of a wave."""
    kernel = Kernel(chip)
    kernel(tlx.named_barrier_wait, 9, 64)
    kernel(tlx.alloc_warp_barrier, 1, num_warps=4)
    assert kernel.text() == ["named_barrier_wait barrier=9, threads=64",
                             "%0 = alloc_barriers count=1, arrive_count=128 per_thread=True : barrier<x 1> per thread"]


def test_named_barriers_are_for_gpus():
    with pytest.raises(NotImplementedError, match="tlx.named_barrier_wait is not available on ascend_910b"):
        Kernel("ascend_910b")(tlx.named_barrier_wait, 9, 64)


def test_expect_and_arrive(kernel, bar):
    kernel(tlx.barrier_expect_bytes, bar, tl.constexpr(4096), pred=kernel.tensor("p", tl.int1))
    kernel(tlx.barrier_arrive, bar)
    kernel(tlx.barrier_arrive, bar, 2)
    assert after_setup(kernel) == ["barrier_expect %3, bytes=4096, %0", "barrier_arrive %3, count=1", "barrier_arrive %3, count=2"]


def test_an_array_of_one_is_its_barrier(kernel):
    kernel(tlx.barrier_arrive, kernel(tlx.alloc_barriers, 1))
    assert kernel.text()[1:] == ["%2 = barrier_index %0, %1 : barrier", "barrier_arrive %2, count=1"]


def test_an_array_of_two_is_not(kernel):
    with pytest.raises(KernelError, match=r"array of 2\nMend: index it: `bar\[i\]`"):
        kernel(tlx.barrier_arrive, kernel(tlx.alloc_barriers, 2))


@pytest.mark.parametrize("size", [-1, 1.5, None])
def test_expect_wants_bytes(kernel, bar, size):
    with pytest.raises(ValueError, match="size must be a constexpr number of bytes"):
        kernel(tlx.barrier_expect_bytes, bar, size)


def test_expect_more_than_a_phase_counts(kernel, bar):
    kernel(tlx.barrier_expect_bytes, bar, (1 << 20) - 1)
    with pytest.raises(KernelError, match="1048576 bytes are more than the 1048575"):
        kernel(tlx.barrier_expect_bytes, bar, 1 << 20)


@pytest.mark.parametrize("phase", [0, 1, True, tl.constexpr(1)])
def test_wait_for_a_known_phase(kernel, bar, phase):
    kernel(tlx.barrier_wait, bar=bar, phase=phase)
    op = kernel.program().body.ops[-1]
    constant = kernel.program().body.ops[-2]
    assert (op.name, constant.args[0], str(op.args[1].type)) == ("barrier_wait", int(tl.constexpr(phase).value), "i32")


@pytest.mark.parametrize("dtype, casts", [(tl.int32, []), (tl.int1, ["%4 = int_cast %0, i32, signed=False : i32"]),
                                          (tl.int64, ["%4 = int_cast %0, i32, signed=True : i32"])])
def test_wait_for_a_run_time_phase(kernel, bar, dtype, casts):
    kernel(tlx.barrier_wait, bar, kernel.tensor("phase", dtype))
    assert after_setup(kernel) == [*casts, f"barrier_wait %3, {'%4' if casts else '%0'}"]


@pytest.mark.parametrize("phase", [None, "0", 1.0])
def test_wait_wants_an_integer(kernel, bar, phase):
    with pytest.raises(TypeError, match="`phase` must be an int or an integer scalar"):
        kernel(tlx.barrier_wait, bar, phase)


def test_wait_refuses_tiles_floats_and_other_phases(kernel, bar):
    for phase in (kernel.tensor("f", tl.float32), kernel.tensor("v", tl.int32, 16)):
        with pytest.raises(TypeError, match="integer scalar"):
            kernel(tlx.barrier_wait, bar, phase)
    with pytest.raises(KernelError, match="must be 0 or 1, got 2"):
        kernel(tlx.barrier_wait, bar, 2)


def test_predicates(kernel, bar):
    for pred in (None, True, tl.constexpr(True), 1):
        kernel(tlx.barrier_wait, bar, 0, pred)
    assert {len(op.operands) for op in kernel.program().body.ops if op.name == "barrier_wait"} == {2}
    kernel(tlx.barrier_wait, bar, 0, False)
    assert str(kernel.program().body.ops[-1].operands[2].type) == "i1"
    kernel(tlx.barrier_wait, bar, 0, kernel.tensor("n", tl.int32))
    assert "icmpNE" in [op.name for op in kernel.program().body.ops]
    with pytest.raises(KernelError, match="`pred` must be a scalar"):
        kernel(tlx.barrier_wait, bar, 0, kernel.tensor("v", tl.int1, 16))


def test_remote_views_are_refused(kernel):
    remote = tlx.mbarrier(None, 0, storage=tlx.storage_kind.smemCluster)
    with pytest.raises(AssertionError, match="barrier_wait does not support remote_view of mbarrier"):
        kernel(tlx.barrier_wait, remote, 0)
    with pytest.raises(AssertionError, match="pass remote_cta_rank"):
        kernel(tlx.barrier_arrive, remote)


def test_only_barriers(kernel):
    with pytest.raises(KernelError, match="`bar` must be an mbarrier"):
        kernel(tlx.barrier_wait, 3, 0)


def test_fences(kernel):
    for scope in ("async_shared", "gpu", "sys"):
        kernel(tlx.fence, tl.constexpr(scope))
    kernel(tlx.fence_async_shared)
    assert kernel.text() == ["fence scope='async_shared'", "fence scope='gpu'", "fence scope='sys'", "fence scope='async_shared'"]
    with pytest.raises(ValueError, match="scope must be 'gpu', 'sys' or 'async_shared', got 'cta'"):
        kernel(tlx.fence, "cta")
