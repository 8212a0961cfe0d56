"""Parts of tiles that are copied to a peer as they lie, where the tiles are operands: whole atoms, stripe by stripe."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import LayoutConflict
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly

CLUSTER = {"ctas_per_cga": (2, 1, 1)}


@mimw.jit
def hands_over(a, b, c, K: tl.constexpr, CUT: tl.constexpr):
    """c = a @ b, (128, K) by (K, 64): each CTA loads the rows of the other one, hands them over in parts, multiplies its own."""
    rank = tlx.cluster_cta_rank()
    m, k, n = tl.arange(0, 64), tl.arange(0, K), tl.arange(0, 64)
    mine, theirs = tlx.local_alloc((64, K), tl.float16, 1), tlx.local_alloc((64, K), tl.float16, 1)
    right = tlx.local_alloc((K, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.local_store(mine[0], tl.load(a + ((1 - rank) * 64 + m[:, None]) * K + k[None, :]))
    tlx.local_store(right[0], tl.load(b + k[:, None] * 64 + n[None, :]))
    tlx.barrier_expect_bytes(full[0], 64 * K * 2)
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    if CUT == "rows":
        for part in tl.static_range(2):
            tlx.async_remote_shmem_copy(tlx.local_slice(theirs[0], [part * 32, 0], [32, K]),
                                        tlx.local_slice(mine[0], [part * 32, 0], [32, K]), rank ^ 1, full[0])
    elif CUT == "at run time":
        for part in range(4):
            tlx.async_remote_shmem_copy(tlx.local_slice(theirs[0], [part * 16, 0], [16, K]),
                                        tlx.local_slice(mine[0], [part * 16, 0], [16, K]), rank ^ 1, full[0])
    elif CUT == "columns":
        for part in tl.static_range(K // 64):
            tlx.async_remote_shmem_copy(tlx.local_slice(theirs[0], [0, part * 64], [64, 64]),
                                        tlx.local_slice(mine[0], [0, part * 64], [64, 64]), rank ^ 1, full[0])
    else:
        tlx.async_remote_shmem_copy(theirs[0], mine[0], rank ^ 1, full[0])
    tlx.barrier_wait(full[0], 0)
    acc = tlx.async_dot(theirs[0], right[0], tl.zeros((64, 64), tl.float32))
    tl.store(c + (rank * 64 + m[:, None]) * 64 + n[None, :], tlx.async_dot_wait(0, acc))
    tlx.cluster_barrier()


CASES = [(64, "rows"), (128, "rows"), (32, "rows"), (128, "at run time"), (128, "columns"), (128, "whole")]


@pytest.mark.parametrize("k, cut", CASES, ids=str)
def test_what_comes_over_is_an_operand(machine, k, cut):
    random = np.random.default_rng(k)
    a, b = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((128, k), (k, 64)))
    c = np.zeros((128, 64), np.float32)
    machine.launch(hands_over, (2, ), a, b, c, k, cut, **CLUSTER)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.long(but=["128-rows-*", "32-rows-*", "64-rows-*"], everywhere=True)
@pytest.mark.parametrize("k, cut, sizes", [
    (64, "rows", [(0, 0, 32 * 128)] * 2), (128, "rows", [(0, 0, 32 * 128), (64 * 128, 64 * 128, 32 * 128)] * 2),
    (32, "rows", [(0, 0, 32 * 64)] * 2), (128, "columns", [(0, 0, 64 * 128)] * 2), (128, "whole", [(0, 0, 64 * 256)])], ids=str)
def test_one_copy_a_stripe(k, cut, sizes):
    """Stripes of 64 columns stand 64 rows apart, also those of a part of the rows."""
    ptx = compile_kernel(hands_over, dict(a="*fp16", b="*fp16", c="*fp32"), dict(K=k, CUT=cut), "sm_90a", CLUSTER).ptx
    found = re.findall(r"cp\.async\.bulk\.shared::cluster\.shared::cta\S* \[to\+?(\d*)\], \[from\+?(\d*)\], (\d+)", ptx)
    assert [tuple(int(number or 0) for number in one) for one in found] == sizes and "wgmma" in ptx


@mimw.jit
def in_a_product_of_a_pair(a, b, c, K: tl.constexpr):
    """The columns of B come from the other CTA of the pair, by halves, out of buffers of their own."""
    rank = tlx.cluster_cta_rank()
    m, k, n = tl.arange(0, 128), tl.arange(0, K), tl.arange(0, 32)
    left = tlx.local_alloc((128, K), tl.float16, 1)
    halves, theirs = tlx.local_alloc((32, K), tl.float16, 2), tlx.local_alloc((64, K), tl.float16, 1)
    acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    full, done = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    tlx.local_store(left[0], tl.load(a + (rank * 128 + m[:, None]) * K + k[None, :]))
    for part in tl.static_range(2):
        tlx.local_store(halves[part], tl.load(b + ((1 - rank) * 64 + part * 32 + n[:, None]) * K + k[None, :]))
    tlx.barrier_expect_bytes(full[0], 64 * K * 2)
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    for part in tl.static_range(2):
        tlx.async_remote_shmem_copy(tlx.local_slice(theirs[0], [part * 32, 0], [32, K]), halves[part], rank ^ 1, full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.cluster_barrier()
    tlx.async_dot(left[0], tlx.local_trans(theirs[0]), acc[0], use_acc=False, mBarriers=[done[0]], two_ctas=True)
    tlx.barrier_wait(done[0], 0)
    tl.store(c + (rank * 128 + m[:, None]) * 128 + tl.arange(0, 128)[None, :], tlx.local_load(acc[0]))
    tlx.cluster_barrier()


def test_in_a_product_of_a_pair():
    random = np.random.default_rng(1)
    a, b = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((256, 128), (128, 128)))
    c = np.zeros((256, 128), np.float32)
    mimw.simulate(in_a_product_of_a_pair, (2, ), a, b, c, 128, target="sm_100a", **CLUSTER)
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
    signature = dict(a="*fp16", b="*fp16", c="*fp32")
    ptx = to_assembly(in_a_product_of_a_pair, signature, dict(K=128), "sm_100a", CLUSTER).stage("ptx")
    found = re.findall(r"\[to\+?(\d*)\], \[from\+?(\d*)\], (\d+)", ptx)
    # Stripes are 64 rows apart in the operand, 32 in the halves that they come from.
    assert found == [("", "", "4096"), ("8192", "4096", "4096")] * 2 and "tcgen05.mma.cta_group::2" in ptx


@mimw.jit
def by_four_rows(a, b, c, K: tl.constexpr):
    mine, theirs = tlx.local_alloc((64, K), tl.float16, 1), tlx.local_alloc((64, K), tl.float16, 1)
    right = tlx.local_alloc((K, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.async_remote_shmem_copy(tlx.local_slice(theirs[0], [4, 0], [4, K]), tlx.local_slice(mine[0], [0, 0], [4, K]), 0, full[0])
    acc = tlx.async_dot(theirs[0], right[0], tl.zeros((64, 64), tl.float32))
    tl.store(c + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.async_dot_wait(0, acc))


def test_parts_of_an_atom_are_refused():
    with pytest.raises(Exception) as found:
        compile_kernel(by_four_rows, dict(a="*fp16", b="*fp16", c="*fp32"), dict(K=64), "sm_90a", CLUSTER)
    cause = found.value
    while cause.__cause__ is not None:
        cause = cause.__cause__
    assert isinstance(cause, LayoutConflict) and "copied as they lie" in str(cause)
