"""Remote arrivals release at cluster scope only in kernels that write what other CTAs could read."""

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel

WORD = "mbarrier.arrive.release.{}.shared::cluster.b64"


@mimw.jit
def relay(x_desc, y_desc, y_ptr, STORE: tl.constexpr):
    """A tile goes to the other CTA by multicast, and back to global memory; `STORE` says by which words."""
    tile = tlx.local_alloc((16, 64), tl.float16, 1)
    other = tlx.local_alloc((16, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    empty = tlx.alloc_barriers(1)
    rank = tlx.cluster_cta_rank()
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_expect_bytes(full[0], 16 * 64 * 2)
            tlx.async_descriptor_load(x_desc, tile[0], [0, 0], full[0], multicast_targets=[rank ^ 1])
            tlx.barrier_wait(empty[0], 0)
        with tlx.async_task(num_warps=4):
            tlx.barrier_wait(full[0], 0)
            value = tlx.local_load(tile[0])
            if STORE == "store":
                at = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]
                tl.store(y_ptr + at, value)
            elif STORE == "atomic":
                tl.atomic_add(y_ptr, 1.0)
            elif STORE == "remote":
                tlx.remote_shmem_store(other[0], value, rank ^ 1)
            elif STORE == "descriptor":
                y_desc.store([0, 0], value + 1)
            else:
                tlx.local_store(tile[0], value + 1)
                tlx.fence("async_shared")
                tlx.async_descriptor_store(y_desc, tile[0], [0, 0])
                tlx.async_descriptor_store_wait(0)
            tlx.barrier_arrive(empty[0], remote_cta_rank=rank ^ 1)


@pytest.mark.parametrize("store, scope", [("store", "cluster"), ("atomic", "cluster"), ("remote", "cluster"),
                                          ("descriptor", "cta"), ("tma", "cta")])
def test_what_is_written_decides_the_scope(store, scope):
    signature = {"x_desc": "tensordesc<fp16[16,64]>", "y_desc": "tensordesc<fp16[16,64]>", "y_ptr": "*fp16"}
    compiled = compile_kernel(relay, signature, dict(STORE=store), options={"ctas_per_cga": (2, 1, 1)})
    (arrival, ) = [op for op in compiled.program.walk() if op.name == "remote_arrive"]
    assert arrival.attrs.get("scope", "cluster") == scope
    ptx = compiled.stages["ptx"]
    assert [ptx.count(WORD.format(each)) for each in ("cta", "cluster")] == ([1, 0] if scope == "cta" else [0, 1])
