"""A buffer of lower rank than a descriptor's block, which has ones in front: loaded, stored, reduced, sliced, in tasks."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError
from tests.compiling import to_assembly
from tests.lowering.harness import Case


@mimw.jit
def copies(x, y, HEADS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, REDUCE: tl.constexpr):
    tile = tlx.local_alloc((ROWS, COLS), tlx.dtype_of(x), 2)
    full = tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(HEADS):
                slot, phase = i % 2, (i // 2) & 1
                tlx.barrier_wait(full[slot], phase)
                got = tlx.local_load(tile[slot])
                tlx.local_store(tile[slot], got + 1)
                tlx.fence("async_shared")
                tlx.async_descriptor_store(y, tile[slot], [1, HEADS - 1 - i, 0, 0], store_reduce=REDUCE)
                tlx.async_descriptor_store_wait(0)
                if i + 2 < HEADS:
                    tlx.barrier_expect_bytes(full[slot], ROWS * COLS * tlx.size_of(tlx.dtype_of(x)))
                    tlx.async_descriptor_load(x, tile[slot], [0, i + 2, 0, 0], full[slot])
        with tlx.async_task(num_warps=1):
            for i in tl.static_range(2):
                tlx.async_descriptor_prefetch_tensor(x, [0, i, 0, 0])
                tlx.barrier_expect_bytes(full[i], ROWS * COLS * tlx.size_of(tlx.dtype_of(x)))
                tlx.async_descriptor_load(x, tile[i], [0, i, 0, 0], full[i])


DTYPES = {"fp16": np.float16, "fp32": np.float32}


@pytest.mark.parametrize("reduce", ["", "add"])
@pytest.mark.parametrize("name, rows, cols", [("fp16", 64, 64), ("fp32", 16, 128), ("fp16", 32, 16)])
def test_there_and_back(machine, name, rows, cols, reduce):
    x = np.random.default_rng(0).integers(-50, 50, (2, 4, rows, cols)).astype(DTYPES[name])
    y = np.full_like(x, 3)
    block = [1, 1, rows, cols]
    machine.launch(copies, (1, ), mimw.TensorDescriptor.from_tensor(x, block), mimw.TensorDescriptor.from_tensor(y, block),
                   4, rows, cols, reduce)
    assert (y[0] == 3).all() and (y[1] == x[0, ::-1] + 1 + (3 if reduce else 0)).all()


@mimw.jit
def halves(x, y):
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 64 * 64 * 2)
    for half in tl.static_range(2):
        tlx.async_descriptor_load(x, tlx.local_slice(tile[0], [half * 32, 0], [32, 64]), [0, 1, half * 32, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y + at, tlx.local_load(tile[0]))


def test_into_slices(machine):
    x = np.random.default_rng(1).standard_normal((2, 2, 64, 64)).astype(np.float16)
    y = np.zeros((64, 64), np.float16)
    machine.launch(halves, (1, ), mimw.TensorDescriptor.from_tensor(x, [1, 1, 32, 64]), y)
    assert (y == x[0, 1]).all()


@pytest.mark.parametrize("columns", [64, 128])
def test_slices_of_a_wide_tile_keep_its_stripes(columns):
    """Rows of 256 bytes are two boxes; they lie as far apart as the stripes of the whole tile."""
    def places(block):
        case = Case(half_of, {"x": f"tensordesc<fp16[{block}]>"}, {"RANK": block.count(",") + 1, "COLS": columns})
        ptx = case.compiled(by=to_assembly).stage("ptx")
        before, copy, _ = ptx.partition("cp.async.bulk.tensor")
        assert copy
        return re.findall(r"(?:shl\.b32|add\.s32)[^;]*, (\d+);", before)[-8:]

    found = places(f"1,1,32,{columns}")
    assert found == places(f"32,{columns}") and "4096" in found and ("13" in found) == (columns == 128), found


@mimw.jit
def half_of(x, RANK: tl.constexpr, COLS: tl.constexpr):
    tile = tlx.local_alloc((64, COLS), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 32 * COLS * 2)
    tlx.async_descriptor_load(x, tlx.local_slice(tile[0], [32, 0], [32, COLS]), [0] * RANK, full[0])
    tlx.barrier_wait(full[0], 0)


@mimw.jit
def one_row(x, y):
    line = tlx.local_alloc((64, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 256)
    tlx.async_descriptor_load(x, line[0], [3, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_store(y, line[0], [1, 64])
    tlx.async_descriptor_store_wait(0)


def test_a_row_is_a_line(machine):
    x = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    y = np.zeros((2, 128), np.float32)
    machine.launch(one_row, (1, ), mimw.TensorDescriptor.from_tensor(x, [1, 64]), mimw.TensorDescriptor.from_tensor(y, [1, 64]))
    assert (y[1, 64:] == x[3]).all() and not y[0].any() and not y[1, :64].any()


@mimw.jit
def products(a, b, y):
    A, B = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 2 * 64 * 64 * 2)
    tlx.async_descriptor_load(a, A[0], [0, 1, 0, 0], full[0])
    tlx.async_descriptor_load(b, B[0], [1, 0, 0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    acc = tlx.async_dot_wait(0, tlx.async_dot(A[0], tlx.local_trans(B[0])))
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y + at, acc)


def test_operands_of_a_product(machine):
    """The layout of the block is that of the operand: the same swizzle, with more dimensions."""
    a, b = (np.random.default_rng(seed).integers(-3, 3, (2, 2, 64, 64)).astype(np.float16) for seed in range(2))
    y = np.zeros((64, 64), np.float32)
    block = [1, 1, 64, 64]
    machine.launch(products, (1, ), mimw.TensorDescriptor.from_tensor(a, block), mimw.TensorDescriptor.from_tensor(b, block), y)
    assert (y == a[0, 1].astype(np.float32) @ b[1, 0].astype(np.float32).T).all()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_instruction_has_the_rank_of_the_block(target, sass_has):
    block = "tensordesc<fp16[1,1,64,64]>"
    case = Case(copies, {"x": block, "y": block}, {"HEADS": 4, "ROWS": 64, "COLS": 64, "REDUCE": ""})
    compiled = case.compiled(target)
    ptx = compiled.stage("ptx")
    assert "cp.async.bulk.tensor.4d.shared::cluster" in ptx or "cp.async.bulk.tensor.4d.shared::cta" in ptx
    assert "cp.async.bulk.tensor.4d.global.shared::cta" in ptx and "cp.async.bulk.prefetch.tensor.4d" in ptx
    sass_has(compiled, r"UTMALDG\.4D", r"UTMASTG\.4D")


@mimw.jit
def to_both(x, y):
    tile = tlx.local_alloc((32, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 32 * 64 * 2)
    tlx.cluster_barrier()
    if tlx.cluster_cta_rank() == 0:
        tlx.async_descriptor_load(x, tile[0], [1, 0, 0], full[0], multicast_targets=[0, 1])
    tlx.barrier_wait(full[0], 0)
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y + tl.program_id(0) * 2048 + at, tlx.local_load(tile[0]))


def test_into_several_ctas(machine):
    x = np.random.default_rng(2).standard_normal((2, 32, 64)).astype(np.float16)
    y = np.zeros((2, 32, 64), np.float16)
    machine.launch(to_both, (2, ), mimw.TensorDescriptor.from_tensor(x, [1, 32, 64]), y, ctas_per_cga=(2, 1, 1))
    assert (y == x[1]).all()


@pytest.mark.parametrize("block", [[2, 1, 64, 64], [1, 1, 64, 32], [1, 1, 32, 64]])
def test_other_blocks_are_refused(block):
    x = mimw.TensorDescriptor.from_tensor(np.zeros((2, 2, 64, 64), np.float16), block)
    with pytest.raises(Exception, match="the buffer has shape") as caught:
        mimw.simulate(copies, (1, ), x, x, 4, 64, 64, "")
    assert isinstance(caught.value, KernelError)
