"""Bytes in tensor memory that a product takes as operand A: int8, the bytes of fp8, pairs of fp4; on the simulator and as PTX.

Such bytes lie as a tile, four in a column, and not as the table of scales that other arrays of bytes are.
"""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly

from .test_tensor_memory_scaled import MX4, MX8, NV4, elements, packed, packed_shape, reference, scales

TARGET, K = "sm_100a", 128
describe = mimw.TensorDescriptor.from_tensor


@mimw.jit
def scaled(x, w_desc, sx_desc, sw_desc, c, COLUMNS: tl.constexpr, FX: tl.constexpr, FW: tl.constexpr, SHAPE: tl.constexpr,
           CONTROL: tl.constexpr):
    """c = x @ w.T; operand A in the second buffer of an array, or by a loop over its buffers."""
    a = tlx.local_alloc((128, COLUMNS), tl.uint8, 2, tlx.storage_kind.tmem)
    w = tlx.local_alloc((128, w_desc.block_shape[1]), tlx.dtype_of(w_desc), 1)
    sx, sw = tlx.local_alloc(SHAPE, tl.uint8, 1), tlx.local_alloc(SHAPE, tl.uint8, 1)
    acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 128 * w_desc.block_shape[1] + 2 * SHAPE[1] * 512)
    tlx.async_descriptor_load(w_desc, w[0], [0, 0], full[0])
    tlx.async_descriptor_load(sx_desc, sx[0], [0, 0, 0, 0], full[0])
    tlx.async_descriptor_load(sw_desc, sw[0], [0, 0, 0, 0], full[0])
    one = a[1]
    if CONTROL:
        for i in range(2):
            one = a[i]
    tlx.local_store(one, tl.load(x + tl.arange(0, 128)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]))
    tlx.barrier_wait(full[0], 0)
    tlx.async_dot_scaled(one, tlx.local_trans(w[0]), acc[0], sx[0], FX, sw[0], FW, use_acc=False)
    tl.store(c + tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :], tlx.local_load(acc[0]))


CASES = [("e2m1", "e2m1", 32, MX4), ("e2m1", "e2m1", 16, NV4), ("e4m3", "e4m3", 32, MX8), ("e5m2", "e2m1", 32, MX8)]


def launch_of(fx, fw, block):
    (x, x_wide), (w, w_wide) = elements((128, K), fx, 1), elements((128, K), fw, 2)
    (sx, sx_wide), (sw, sw_wide) = scales(128, K // block, block, 3), scales(128, K // block, block, 4)
    shape, c = packed_shape(128, K // block, 4), np.zeros((128, 128), np.float32)
    tables = (describe(packed(one, 4).reshape(shape), list(shape)) for one in (sx, sw))
    meta = dict(COLUMNS=x.shape[1], FX=fx, FW=fw, SHAPE=tuple(shape), CONTROL=False)
    return (x.view(np.uint8), describe(w.view(np.uint8), list(w.shape)), *tables, c), meta, reference(
        x_wide, sx_wide, w_wide, sw_wide, block)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scaled_products(case):
    args, meta, wanted = launch_of(*case[:3])
    mimw.simulate(scaled, (1, ), *args, target=TARGET, races=True, **meta)
    np.testing.assert_array_equal(args[-1], wanted)


def test_scaled_products_in_ptx():
    """32 bytes of K an instruction, which are 8 columns of operand A; a buffer of the array has a column for 4 bytes."""
    case = CASES[0]
    _, meta, _ = launch_of(*case[:3])
    table = f"tensordesc<u8{list(meta['SHAPE'])}>".replace(" ", "")
    signature = {"x": "*u8", "w_desc": f"tensordesc<u8[128,{K // (1 + (case[1] == 'e2m1'))}]>", "sx_desc": table, "sw_desc": table,
                 "c": "*fp32"}
    ptx = to_assembly(scaled, signature, meta, TARGET).stage("ptx")
    steps = re.findall(rf"tcgen05\.mma\.cta_group::1\.{case[3]} \[ %r\d+ \+ 0 \], \[ %r\d+ \+ (\d+) \]", ptx)
    assert steps == [str(8 * step) for step in range(meta["COLUMNS"] // 32)]
    assert f"tcgen05.st.sync.aligned.32x32b.x{meta['COLUMNS'] // 4}.b32" in ptx


def test_fp4_beside_fp8_is_refused():
    args, meta, _ = launch_of("e2m1", "e4m3", 32)
    with pytest.raises(mimw.errors.KernelError, match="fp4 in tensor memory is multiplied by fp4 only"):
        mimw.simulate(scaled, (1, ), *args, target=TARGET, **meta)


def test_a_loop_that_hands_them_on_is_refused():
    args, meta, _ = launch_of("e2m1", "e2m1", 32)
    with pytest.raises(mimw.errors.KernelError, match="a loop passes on a tile of bytes"):
        mimw.simulate(scaled, (1, ), *args, target=TARGET, **meta | {"CONTROL": True})


@mimw.jit
def integers(a, b_desc, c, ROWS: tl.constexpr):
    """c = a @ b in int8, a in tensor memory; a comes back."""
    x = tlx.local_alloc((ROWS, 64), tl.int8, 1, tlx.storage_kind.tmem)
    b, acc = tlx.local_alloc((64, 32), tl.int8, 1), tlx.local_alloc((ROWS, 32), tl.int32, 1, tlx.storage_kind.tmem)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 64 * 32)
    tlx.async_descriptor_load(b_desc, b[0], [0, 0], full[0])
    at = tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(x[0], tl.load(a + at))
    tlx.barrier_wait(full[0], 0)
    tlx.async_dot(x[0], b[0], acc[0], use_acc=False)
    tl.store(a + at, tlx.local_load(x[0]))
    tl.store(c + tl.arange(0, ROWS)[:, None] * 32 + tl.arange(0, 32)[None, :], tlx.local_load(acc[0]))


@pytest.mark.parametrize("rows", [64, 128])
def test_integers(rows):
    rng = np.random.default_rng(5)
    a, b = rng.integers(-128, 128, (rows, 64)).astype(np.int8), rng.integers(-128, 128, (64, 32)).astype(np.int8)
    c, kept = np.zeros((rows, 32), np.int32), a.copy()
    mimw.simulate(integers, (1, ), a, describe(b, [64, 32]), c, rows, target=TARGET, races=True)
    assert (c == kept.astype(np.int32) @ b.astype(np.int32)).all() and (a == kept).all()


def test_integers_in_ptx():
    """As in the product of fp4; and half the rows of each warp are written at once (16x32bx2)."""
    ptx = to_assembly(integers, {"a": "*i8", "b_desc": "tensordesc<i8[64,32]>", "c": "*i32"}, {"ROWS": 64}, TARGET).stage("ptx")
    assert "tcgen05.st.sync.aligned.16x32bx2" in ptx
    assert re.findall(r"kind::i8 \[ %r\d+ \+ 0 \], \[ %r\d+ \+ (\d+) \]", ptx) == ["0", "8"]
