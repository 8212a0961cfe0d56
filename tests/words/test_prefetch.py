"""Cache hints and eviction policies, in every combination that there is: none changes a result."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def hinted(x_desc, y_desc, x_ptr, row, LOAD: tl.constexpr, STORE: tl.constexpr, REDUCE: tl.constexpr):
    tile = tlx.local_alloc(x_desc.block_shape, tlx.dtype_of(x_desc), 1)
    full = tlx.alloc_barriers(1)
    tlx.prefetch(x_desc, tensormap=True)
    tlx.prefetch(x_ptr)
    tlx.prefetch(x_ptr + tl.arange(0, 128), "L1", mask=tl.arange(0, 128) < row)
    tlx.async_descriptor_prefetch_tensor(x_desc, [row, 0], eviction_policy=LOAD)
    tlx.async_descriptor_prefetch_tensor(x_desc, [row, 0], pred=row > 100)
    tlx.barrier_expect_bytes(full[0], 16 * 128 * tlx.size_of(tlx.dtype_of(x_desc)))
    tlx.async_descriptor_load(x_desc, tile[0], [row, 0], full[0], cache_modifier=".cg", eviction_policy=LOAD)
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_store(y_desc, tile[0], [row, 0], eviction_policy=STORE, store_reduce=REDUCE)
    tlx.async_descriptor_store_wait(0)


def run(machine, dtype, load="", store="", reduce=""):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(1, 100, (32, 128)).astype(dtype) for _ in range(2))
    before = y.copy()
    descriptors = [mimw.TensorDescriptor.from_tensor(array, [16, 128]) for array in (x, y)]
    machine.launch(hinted, (1, ), *descriptors, x, 16, load, store, reduce)
    assert (y[:16] == before[:16]).all()
    return x[16:], before[16:], y[16:]


@pytest.mark.parametrize("policy", ["", "evict_first", "evict_last"])
def test_policies(machine, policy):
    x, _, y = run(machine, np.float32, load=policy, store=policy)
    assert (x == y).all()


REDUCTIONS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
              "xor": np.bitwise_xor}


@pytest.mark.parametrize("policy", ["", "evict_last"])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions_of_integers(machine, kind, policy):
    x, before, y = run(machine, np.int32, store=policy, reduce=kind)
    assert (y == REDUCTIONS[kind](before, x)).all()


@pytest.mark.parametrize("kind, dtype", [("add", np.float32), ("add", np.float16), ("max", np.float16), ("min", np.float16)])
def test_reductions_of_floats(machine, kind, dtype):
    x, before, y = run(machine, dtype, store="evict_first", reduce=kind)
    assert (y == REDUCTIONS[kind](before, x)).all()
