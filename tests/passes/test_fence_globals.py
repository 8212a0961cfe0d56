"""Fences of device scope are fences between proxies where copies read global memory that the kernel writes."""

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def kernel(x_ptr, x_desc, COPY: tl.constexpr, WRITE: tl.constexpr, SCOPE: tl.constexpr):
    line = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 128)
    if WRITE:
        tl.store(x_ptr + at, at.to(tl.float32))
    tlx.fence(SCOPE)
    if COPY:
        tlx.barrier_expect_bytes(full[0], 512)
        tlx.async_descriptor_load(x_desc, line[0], [0], full[0])
        tlx.barrier_wait(full[0], 0)


@pytest.mark.parametrize("scope", ["gpu", "sys"])
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("write", [False, True])
def test_the_fence_covers_the_asynchronous_proxy_where_copies_read_what_is_written(copy, write, scope):
    signature = {"x_ptr": "*fp32", "x_desc": "tensordesc<fp32[128]>"}
    ptx = compile_kernel(kernel, signature, dict(COPY=copy, WRITE=write, SCOPE=scope)).stages["ptx"]
    lines = [line.strip() for line in ptx.splitlines()]
    fences = [line for line in lines[lines.index(f"fence.acq_rel.{scope};"):] if line.startswith("fence.")]
    assert fences == [f"fence.acq_rel.{scope};", *(["fence.proxy.async.global;"] if copy and write else [])]
