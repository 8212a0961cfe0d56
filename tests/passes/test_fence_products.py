"""Which products in assembly are fenced behind writes of their own task."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def copied(x, y, out, N: tl.constexpr, FIRST: tl.constexpr):
    """A is copied by pointers, B stored. With FIRST the author's fence comes before the copy has been waited for."""
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, N), tl.float16, 1)
    met = tlx.alloc_barriers(1)
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, N)[None, :]
    tlx.local_store(b[0], tl.load(y + rows * N + columns))
    copy = tlx.async_load(x + rows * 64 + tl.arange(0, 64)[None, :], a[0])
    tlx.async_load_commit_group([copy])
    if not FIRST:
        tlx.async_load_wait_group(0)
    tlx.fence("async_shared")
    tlx.barrier_arrive(met[0])
    if FIRST:
        tlx.async_load_wait_group(0)
    tl.store(out + rows * N + columns, tlx.async_dot_wait(0, tlx.async_dot(a[0], b[0])))


@pytest.mark.parametrize("first, fences", [(False, 1), (True, 2)])
def test_a_fence_before_a_copy_is_done_does_not_do(first, fences):
    random = np.random.default_rng(1)
    x, y = random.integers(-3, 4, (64, 64)).astype(np.float16), random.integers(-3, 4, (64, 80)).astype(np.float16)
    out = np.zeros((64, 80), np.float32)
    mimw.simulate(copied, (1, ), x, y, out, target="sm_90a", N=80, FIRST=first)
    np.testing.assert_array_equal(out, x.astype(np.float32) @ y.astype(np.float32))
    ptx = mimw.compile(copied, (1, ), x, y, out, target="sm_90a", N=80, FIRST=first).ptx
    steps = re.findall(r"cp\.async\.wait_group|fence\.proxy\.async|bar\.sync|wgmma\.mma_async", ptx)
    behind = steps[steps.index("cp.async.wait_group"):steps.index("wgmma.mma_async")]
    assert steps.count("fence.proxy.async") == fences, steps
    assert "bar.sync" in behind[behind.index("fence.proxy.async"):], steps
