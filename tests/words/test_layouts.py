"""Pinned layouts change no result: shared ones through views, loops and helpers, register ones through arithmetic."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError
from mimw.runtime.compile_kernel import compile_kernel

ROWS, COLS = 32, 64
# Elements of a row in pairs of columns swapped: an order that is no other layout's.
LINEAR = [(0, 2), (0, 1), (0, 4), (0, 8), (0, 16), (0, 32), (1, 0), (2, 0), (4, 0), (8, 0), (16, 0)]
SHARED = {
    "plain": tlx.swizzled_layout.make_default(2),
    "columns": tlx.swizzled_layout(0, 0, 0, [0, 1]),
    "swizzled": tlx.swizzled_layout(3, 3, 3),
    "encoding": tlx.swizzled_shared_layout_encoding(4, 2, 8, [1, 0], [1, 1], [1, 1], [1, 1], [1, 0]),
    "nvmma": tlx.nv_mma_shared_layout_encoding.make_default([ROWS, COLS], tl.float16),
    "padded": tlx.padded_shared_layout_encoding.with_identity_for([(64, 8)], [ROWS, COLS]),
    "linear": tlx.shared_linear_layout_encoding(LINEAR),
}


@mimw.jit
def turn(tile, ROWS: tl.constexpr, COLS: tl.constexpr):
    """A helper gets a buffer of any layout."""
    return tlx.local_load(tlx.local_trans(tile))


@mimw.jit
def through_buffers(source, target, turned, steps, ROWS: tl.constexpr, COLS: tl.constexpr, LAYOUT: tl.constexpr):
    tiles = tlx.local_alloc((ROWS, COLS), tl.float16, 2, layout=LAYOUT)
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    at = rows[:, None] * COLS + cols[None, :]
    at_turned = cols[:, None] * ROWS + rows[None, :]
    for step in range(steps):
        tile = tiles[step % 2]
        tlx.local_store(tile, tl.load(source + step * ROWS * COLS + at))
        tl.store(target + step * ROWS * COLS + at, tlx.local_load(tile) * 2)
        tl.store(turned + step * ROWS * COLS + at_turned, turn(tile, ROWS, COLS))


@mimw.jit
def three_dimensions(source, target, LAYOUT: tl.constexpr):
    """Transposed so that no two dimensions change places: the view's layout is the inverse's."""
    tiles = tlx.local_alloc((4, 8, 16), tl.float16, 1, layout=tlx.layout(LAYOUT))
    i, j, k = tl.arange(0, 4)[:, None, None], tl.arange(0, 8)[None, :, None], tl.arange(0, 16)[None, None, :]
    tlx.local_store(tiles[0], tl.load(source + i * 128 + j * 16 + k))
    turned = tlx.local_load(tlx.local_trans(tiles[0], (1, 2, 0)))
    a, b, c = tl.arange(0, 8)[:, None, None], tl.arange(0, 16)[None, :, None], tl.arange(0, 4)[None, None, :]
    tl.store(target + a * 64 + b * 4 + c, turned)


@pytest.mark.parametrize("layout", [
    tlx.swizzled_layout.make_default(3), tlx.swizzled_layout.make_default(3).make_permute((1, 2, 0)),
    tlx.swizzled_layout(1, 1, 3, [2, 0, 1]),
    tlx.padded_shared_layout_encoding.with_identity_for([(16, 2)], [4, 8, 16], order=[1, 0, 2])], ids=str)
def test_three_dimensions_turned(machine, layout):
    x, y = np.arange(512, dtype=np.float16).reshape(4, 8, 16), np.zeros((8, 16, 4), np.float16)
    machine.launch(three_dimensions, (1, ), x, y, layout)
    assert (y == x.transpose(1, 2, 0)).all()


@pytest.mark.parametrize("layout", SHARED)
def test_pinned_buffers(machine, layout):
    x = np.arange(3 * ROWS * COLS, dtype=np.float16).reshape(3, ROWS, COLS) % 1000
    y, z = np.zeros_like(x), np.zeros((3, COLS, ROWS), np.float16)
    machine.launch(through_buffers, (1, ), x, y, z, 3, ROWS, COLS, SHARED[layout])
    assert (y == 2 * x).all()
    assert (z == x.transpose(0, 2, 1)).all()


# Lanes along a column, values along a row: no default of the compiler.
COLUMNS = tlx.layout(((32, 4), (16, )), ((64, 16), (1, )))


@mimw.jit
def half(tile):
    return tile * 0.5


@mimw.jit
def pinned(source, target, sums, ROWS: tl.constexpr, COLS: tl.constexpr, LAYOUT: tl.constexpr, PIN: tl.constexpr):
    buffer = tlx.local_alloc((ROWS, COLS), tl.float32, 1)
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    at = rows[:, None] * COLS + cols[None, :]
    tile = tlx.require_layout(tl.load(source + at), LAYOUT, pin=PIN)
    tlx.local_store(buffer[0], tile)
    total = tlx.zeros((ROWS, COLS), tl.float32, layout=LAYOUT)
    for _ in range(2):
        total += half(tile) + tlx.local_load(buffer[0], layout=LAYOUT)
    tl.store(sums + rows, tl.sum(total, 1))
    if PIN:
        tlx.assert_same_layout(total, LAYOUT)
        tlx.assert_same_layout(total, tile)
        total = tlx.release_layout(total)
    tl.store(target + at, total)


@pytest.mark.parametrize("pin", [True, False])
def test_pinned_tiles(machine, pin):
    x = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)
    y, sums = np.zeros_like(x), np.zeros(ROWS, np.float32)
    machine.launch(pinned, (1, ), x, y, sums, ROWS, COLS, COLUMNS, pin)
    assert (y == 3 * x).all()
    assert (sums == 3 * x.sum(1)).all()


@mimw.jit
def replicated(source, target, LAYOUT: tl.constexpr):
    at = tl.arange(0, 64)
    tl.store(target + at, tlx.require_layout(tl.load(source + at), LAYOUT) + 1)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float16, np.float32, np.int32, np.int64, np.float64])
def test_replicas_and_element_sizes(machine, dtype):
    """Two of four warps hold the same elements."""
    x, y = np.arange(64, dtype=dtype), np.zeros(64, dtype)
    machine.launch(replicated, (1, ), x, y, tlx.layout(((32, 2, 2), (1, )), ((1, 32, 0), (0, ))))
    assert (y == x + 1).all()


@mimw.jit
def padded_rows(source, target, LAYOUT: tl.constexpr):
    tiles = tlx.local_alloc((64, 16), tl.int8, 2, layout=LAYOUT)
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tlx.local_store(tiles[1], tl.load(source + at))
    tl.debug_barrier()
    tl.store(target + at, tlx.local_load(tiles[1]))


@pytest.mark.parametrize("padding", [16, 32])
def test_padding_that_keeps_accesses_aligned(machine, padding):
    x = np.arange(64 * 16).reshape(64, 16).astype(np.int8)
    y = np.zeros_like(x)
    layout = tlx.padded_shared_layout_encoding.with_identity_for([(16, padding)], [64, 16])
    machine.launch(padded_rows, (1, ), x, y, layout, num_warps=1)
    assert (y == x).all()


def test_padding_that_breaks_the_alignment_of_accesses():
    layout = tlx.padded_shared_layout_encoding.with_identity_for([(16, 8)], [64, 16])
    aligned = {(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", 16]]}
    with pytest.raises(Exception) as caught:
        compile_kernel(padded_rows, {"source": "*i8", "target": "*i8"}, {"LAYOUT": layout}, options={"num_warps": 1}, attrs=aligned)
    assert isinstance(caught.value.__cause__, KernelError)
    assert "8 bytes of padding after each 16, and is read or written 16 bytes at a time" in str(caught.value)
    assert "pad by a multiple of 16 elements (16 bytes)" in str(caught.value)
