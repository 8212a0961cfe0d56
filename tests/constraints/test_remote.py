"""Buffers that other CTAs store to lie in plain rows; copies between CTAs keep the layout of both ends equal."""

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import LayoutConflict
from mimw.ir.layouts import Blocked, NvmmaShared, SwizzledShared
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def stores(x_desc, VIEW: tl.constexpr, TMA: tl.constexpr):
    tile = tlx.local_alloc((64, 64), tl.float16, 2)
    bar = tlx.alloc_barriers(1)
    if VIEW == "whole":
        tlx.remote_shmem_store(tile[0], tl.zeros((64, 64), tl.float16), 1)
    elif VIEW == "rows":
        tlx.remote_shmem_store(tlx.local_slice(tile[0], [16, 0], [16, 64]), tl.zeros((16, 64), tl.float16), 1)
    elif VIEW == "columns":
        tlx.remote_shmem_store(tlx.local_slice(tile[0], [0, 16], [64, 16]), tl.zeros((64, 16), tl.float16), 1)
    elif VIEW == "transposed":
        tlx.remote_shmem_store(tlx.local_trans(tile[0]), tl.zeros((64, 64), tl.float16), 1)
    if TMA:
        tlx.barrier_expect_bytes(bar[0], 8192)
        tlx.async_descriptor_load(x_desc, tile[1], [0, 0], bar[0])
        tlx.barrier_wait(bar[0], 0)


@mimw.jit
def copies(x_desc, SAME: tl.constexpr):
    source = tlx.local_alloc((64, 64), tl.float16, 1)
    target = tlx.local_alloc((64, 64) if SAME else (32, 128), tl.float16, 1)
    bar = tlx.alloc_barriers(2)
    tlx.barrier_expect_bytes(bar[0], 8192)
    if SAME:
        tlx.async_descriptor_load(x_desc, source[0], [0, 0], bar[0])
        tlx.barrier_wait(bar[0], 0)
    tlx.barrier_expect_bytes(bar[1], 8192)
    tlx.async_remote_shmem_copy(target[0], source[0], tlx.cluster_cta_rank() ^ 1, bar[1])


def layouts(kernel, **constants):
    signature, options = {"x_desc": "tensordesc<fp16[64,64]>"}, {"ctas_per_cga": (2, 1, 1)}
    solved = compile_kernel(kernel, signature, constants, options=options).layouts
    return solved, {value.name: layout for value, layout in solved.shared.items()}


@pytest.mark.parametrize("view", ["whole", "rows"])
def test_plain_rows(view):
    solved, shared = layouts(stores, VIEW=view, TMA=False)
    assert shared == {"tile": SwizzledShared(1, 1, 1, (1, 0))}
    assert any("plain rows" in reason for reason in solved.reasons.values())
    assert Blocked((8, ), (32, ), (4, ), (0, )) in solved.operands.values()


@pytest.mark.parametrize("view", ["columns", "transposed"])
def test_elements_must_lie_one_after_the_other(view):
    with pytest.raises(triton.CompilationError, match="lie one after the other") as caught:
        layouts(stores, VIEW=view, TMA=False)
    assert isinstance(caught.value.__cause__, LayoutConflict)


def test_tma_and_stores_disagree():
    with pytest.raises(triton.CompilationError, match="remote_store wants") as caught:
        layouts(stores, VIEW="whole", TMA=True)
    assert isinstance(caught.value.__cause__, LayoutConflict) and "tma_load wants" in str(caught.value)


def test_copies():
    _, shared = layouts(copies, SAME=True)
    assert shared["source"] == shared["target"] == NvmmaShared(128, 16, 2)
    _, shared = layouts(copies, SAME=False)
    assert set(shared.values()) == {SwizzledShared(1, 1, 1, (1, 0))}
