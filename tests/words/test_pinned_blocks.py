"""A pinned layout decides how TMA copies: descriptors of packed fp4, padded, and of the scales of a block-scaled product."""

import dataclasses

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.lowering.harness import Case


@mimw.jit
def scales(desc, out, y, RK: tl.constexpr):
    """Five dimensions, as block-scaled products want their scales: (1, rows / 128, columns / 4, 2, 256)."""
    tile = tlx.local_alloc((1, 1, RK, 2, 256), tl.uint8, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], RK * 512)
    tlx.async_descriptor_load(desc, tile[0], [0, 1, 0, 0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_store(out, tile[0], [0, 0, RK, 0, 0])
    tlx.async_descriptor_store_wait(0)
    tl.store(y + tl.arange(0, RK * 512), tlx.local_load(tile[0]).reshape([RK * 512]))


@pytest.mark.parametrize("columns", [1, 4])
def test_scales_of_five_dimensions(machine, columns):
    x = np.random.default_rng(0).integers(0, 255, (1, 2, 8, 2, 256)).astype(np.uint8)
    out, y = np.zeros_like(x), np.zeros(columns * 512, np.uint8)
    block = [1, 1, columns, 2, 256]
    machine.launch(scales, (1, ), mimw.TensorDescriptor.from_tensor(x, block), mimw.TensorDescriptor.from_tensor(out, block), y,
                   columns)
    assert (y == x[0, 1, :columns].ravel()).all()
    assert (out[0, 0, columns:2 * columns] == x[0, 1, :columns]).all() and out.any((3, 4)).sum() == columns


@mimw.jit
def pinned(desc, y, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    tile = tlx.local_alloc((ROWS, COLS), tl.uint8, 2, layout=LAYOUT)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], ROWS * COLS)
    tlx.async_descriptor_load(desc, tile[1], [ROWS, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(y + at, tlx.local_load(tile[1]))


def layout(swizzled=True, padded=False, shape=(64, 64)):
    default = tlx.nv_mma_shared_layout_encoding.make_default(shape, tl.uint8, padded)
    return default if swizzled else dataclasses.replace(default, swizzled=False)


def test_without_a_swizzle(machine):
    x = np.random.default_rng(1).integers(0, 255, (128, 64)).astype(np.uint8)
    y = np.zeros((64, 64), np.uint8)
    machine.launch(pinned, (1, ), mimw.TensorDescriptor.from_tensor(x, [64, 64]), y, layout(swizzled=False), 64, 64)
    assert (y == x[64:]).all()


def test_padded_fp4_on_the_simulator():
    """Where its bytes lie nobody sees there; how many there are the sum of shared memory says."""
    x = np.random.default_rng(2).integers(0, 255, (256, 64)).astype(np.uint8)
    y = np.zeros((128, 64), np.uint8)
    padded = layout(padded=True, shape=(128, 64))
    mimw.simulate(pinned, (1, ), mimw.TensorDescriptor.from_tensor(x, [128, 64]), y, padded, 128, 64, target="sm_100a")
    assert (y == x[128:]).all()


SIGNATURE = {"desc": "tensordesc<u8[128,64]>", "y": "*u8"}


@mimw.jit
def filled_only(desc, y, LAYOUT: tl.constexpr):
    """No thread reads what is padded: the tensor core does."""
    tile = tlx.local_alloc((128, 64), tl.uint8, 2, layout=LAYOUT)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 128 * 64)
    tlx.async_descriptor_load(desc, tile[1], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)


def test_the_descriptor_has_the_buffers_layout(sass_has):
    """The tensor map is told of the padding, and the buffer takes twice its bytes: 2 x 128 rows of 128 bytes."""
    found = compile_kernel(filled_only, SIGNATURE, {"LAYOUT": layout(padded=True, shape=(128, 64))}, "sm_100a")
    ttgir = found.stage("ttgir")
    assert "fp4Padded = true" in ttgir and "swizzlingByteWidth = 128" in ttgir
    sass_has(found, r"UTMALDG\.2D")
    assert 2 * 128 * 128 <= found.metadata.shared < 2 * 128 * 128 + 512
    plain = Case(pinned, {"desc": "tensordesc<u8[64,64]>", "y": "*u8"}, {"LAYOUT": layout(False), "ROWS": 64, "COLS": 64})
    assert "swizzlingByteWidth = 0" in plain.compiled("sm_90a").stage("ttgir")


@mimw.jit
def two_ways(desc, LAYOUT: tl.constexpr):
    full = tlx.alloc_barriers(1)
    one = tlx.local_alloc((64, 64), tl.uint8, 1, layout=LAYOUT)
    other = tlx.local_alloc((64, 64), tl.uint8, 1)
    tlx.barrier_expect_bytes(full[0], 2 * 64 * 64)
    tlx.async_descriptor_load(desc, one[0], [0, 0], full[0])
    tlx.async_descriptor_load(desc, other[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)


def test_one_descriptor_has_one_layout():
    with pytest.raises(Exception, match="one descriptor copies into .* and into .*; it has one layout"):
        compile_kernel(two_ways, {"desc": "tensordesc<u8[64,64]>"}, {"LAYOUT": layout(False)})
