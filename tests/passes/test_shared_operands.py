"""Plain dots whose operands the tensor core reads from shared memory: a fence stands before, where another task wrote them."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.simulate import prepare


@mimw.jit
def handed_over(a, b, c, BY_TMA: tl.constexpr, OTHER_TASK: tl.constexpr, b_desc):
    """c = a @ b; b passes through a buffer, which this task, or another one, fills by a store or by TMA."""
    tile = tlx.local_alloc((64, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if not OTHER_TASK:
                tlx.local_store(tile[0], tl.load(b + tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]))
                tlx.barrier_arrive(full[0])
            lhs = tl.load(a + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :])
            tlx.barrier_wait(full[0], 0)
            rhs = tlx.local_load(tile[0])
            tl.store(c + tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :], tl.dot(lhs, rhs))
        with tlx.async_task(num_warps=4):
            if OTHER_TASK:
                if BY_TMA:
                    tlx.barrier_expect_bytes(full[0], 4096)
                    tlx.async_descriptor_load(b_desc, tile[0], [0, 0], full[0])
                else:
                    tlx.local_store(tile[0], tl.load(b + tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]))
                    tlx.barrier_arrive(full[0])


def arguments():
    random = np.random.default_rng(0)
    a, b = random.integers(-4, 5, (64, 64)).astype(np.float16), random.integers(-4, 5, (64, 32)).astype(np.float16)
    return a, b, np.zeros((64, 32), np.float32)


@pytest.mark.parametrize("by_tma, other_task, fences", [(False, True, 1), (True, True, 0), (False, False, 0)])
def test_what_another_task_stored_is_fenced(by_tma, other_task, fences):
    a, b, c = arguments()
    given = (a, b, c, by_tma, other_task, mimw.TensorDescriptor.from_tensor(b, [64, 32]))
    ops = [op.name for op in prepare(handed_over, (1, ), given, {}).program.walk()]
    assert "async_dot" in ops and ops[ops.index("warp_specialize"):].count("fence") == fences
    assert mimw.check(handed_over, (1, ), *given).ok
    mimw.simulate(handed_over, (1, ), *given)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
