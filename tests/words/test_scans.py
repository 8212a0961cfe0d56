"""Scans of tiles that lie as other ops left them: what a reduction keeps, and a product's sum."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def after_reduction(x, y, SIZE: tl.constexpr, AXIS: tl.constexpr):
    held = tlx.local_alloc((SIZE, ), tl.int32, 1)
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    sums = tl.sum(tl.load(x + rows * SIZE + columns), AXIS)
    tlx.local_store(held[0], tl.cumsum(sums, 0))
    tl.debug_barrier()
    tl.store(y + tl.arange(0, SIZE), tlx.local_load(held[0]))


@mimw.jit
def after_product(x, y, SIZE: tl.constexpr, AXIS: tl.constexpr):
    held = tlx.local_alloc((SIZE, SIZE), tl.float32, 1)
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    left = tl.load(x + at).to(tl.float16)
    tlx.local_store(held[0], tl.cumsum(tl.dot(left, left), AXIS))
    tl.debug_barrier()
    tl.store(y + at, tlx.local_load(held[0]))


@pytest.mark.parametrize("axis", [0, 1])
def test_scan_of_a_sum(machine, axis):
    x = np.random.default_rng(1).integers(-3, 4, (64, 64)).astype(np.int32)
    y = np.zeros(64, np.int32)
    machine.launch(after_reduction, (1, ), x, y, 64, axis)
    assert (y == x.sum(axis).cumsum()).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_scan_of_a_product(machine, axis):
    x = np.random.default_rng(2).integers(-3, 4, (64, 64)).astype(np.int32)
    y = np.zeros((64, 64), np.float32)
    machine.launch(after_product, (1, ), x, y, 64, axis)
    assert (y == (x @ x).cumsum(axis)).all()


@pytest.mark.long(but=["after_reduction-*", "after_product-?fp32-*-4"], everywhere=True)
@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kernel, y", [(after_reduction, "*i32"), (after_product, "*fp32")])
def test_triton_scans_it(kernel, y, axis, num_warps):
    compiled = compile_kernel(kernel, {"x": "*i32", "y": y}, {"SIZE": 32, "AXIS": axis}, options={"num_warps": num_warps})
    assert len(compiled.stages["cubin"]) > 500
