"""What the cluster words record and refuse."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, TargetError

from .harness import Kernel


@pytest.fixture
def buffer(kernel):
    return kernel(tlx.local_view, kernel(tlx.local_alloc, (8, 8), tl.float32, 2), 1)


@pytest.fixture
def bar(kernel):
    return kernel(tlx.alloc_barriers, 1)


def test_ranks_and_barriers(kernel):
    for word in (tlx.cluster_cta_rank, tlx.cluster_size_1d, tlx.cluster_barrier, tlx.fence_mbarrier_init_cluster):
        kernel(word)
    assert kernel.text() == ["%0 = cluster_cta_rank : i32", "%1 = cluster_size_1d : i32", "cluster_barrier",
                             "fence_mbarrier_init"]
    assert kernel(tlx.cluster_cta_rank).dtype == tl.int32


def test_remote_arrive(kernel, bar):
    rank = kernel.tensor("rank", tl.int32)
    kernel(tlx.barrier_arrive, bar, 2, remote_cta_rank=rank, pred=kernel.tensor("when", tl.int1))
    assert kernel.text()[-1] == "remote_arrive %4, count=2, %0, %1"
    kernel(tlx.barrier_arrive, bar, 1, 0)
    assert kernel.text()[-1].startswith("remote_arrive")
    with pytest.raises(KernelError, match="`remote_cta_rank` must be an int or an integer scalar"):
        kernel(tlx.barrier_arrive, bar, 1, remote_cta_rank=1.5)


def test_remote_views(kernel, bar, buffer):
    view = kernel(tlx.remote_view, bar, 1)
    assert view.type.storage is tlx.storage_kind.smemCluster and view.num == 0
    with pytest.raises(AssertionError, match="barrier_wait does not support remote_view of mbarrier"):
        kernel(tlx.barrier_wait, view, 0)
    with pytest.raises(AssertionError, match="pass remote_cta_rank"):
        kernel(tlx.barrier_arrive, view)
    with pytest.raises(AssertionError, match="not a remote_view"):
        kernel(tlx.remote_view, view, 0)
    with pytest.raises(AssertionError, match="takes an mbarrier only"):
        kernel(tlx.remote_view, buffer, 0)


@pytest.mark.parametrize("word, extra", [(tlx.remote_shmem_store, 0), (tlx.async_remote_shmem_store, 1)])
def test_remote_stores(kernel, bar, buffer, word, extra):
    tile = kernel.tensor("x", tl.float32, 8, 8)
    kernel(word, buffer, tile, 1, *[bar] * extra)
    assert kernel.text()[-1].startswith("async_remote_store" if extra else "remote_store")
    assert any("reshape" in line and line.endswith("fp32[64]") for line in kernel.text()), "the store takes a flat tile"
    for wrong in (kernel.tensor("half", tl.float16, 8, 8), kernel.tensor("flat", tl.float32, 64),
                  kernel.tensor("one", tl.float32)):
        with pytest.raises(KernelError, match="must be a block tensor of the shape and dtype"):
            kernel(word, buffer, wrong, 1, *[bar] * extra)


def test_async_store_sizes_and_barriers(kernel, bar, buffer):
    tiny = kernel(tlx.local_view, kernel(tlx.local_alloc, (1, 1), tl.float16, 2), 0)
    with pytest.raises(KernelError, match="has 2 bytes, and the hardware stores 4, 8 or 16"):
        kernel(tlx.async_remote_shmem_store, tiny, kernel.tensor("x", tl.float16, 1, 1), 0, bar)
    view = kernel(tlx.remote_view, bar, 0)
    with pytest.raises(AssertionError, match="takes the local mbarrier"):
        kernel(tlx.async_remote_shmem_store, buffer, kernel.tensor("y", tl.float32, 8, 8), 0, view)


def test_copies(kernel, bar, buffer):
    kernel(tlx.async_remote_shmem_copy, buffer, buffer, 1, bar)
    assert kernel.text()[-1].startswith("async_remote_copy")
    small = kernel(tlx.local_view, kernel(tlx.local_alloc, (4, 8), tl.float32, 1), 0)
    with pytest.raises(KernelError, match="dst has 128 bytes and src 256"):
        kernel(tlx.async_remote_shmem_copy, small, buffer, 1, bar)
    odd = kernel(tlx.local_view, kernel(tlx.local_alloc, (2, ), tl.float32, 1), 0)
    with pytest.raises(KernelError, match="multiple of 16"):
        kernel(tlx.async_remote_shmem_copy, odd, odd, 1, bar)


def test_targets():
    kernel = Kernel("sm80")
    with pytest.raises(TargetError, match="needs sm_90"):
        kernel(tlx.fence_mbarrier_init_cluster)
