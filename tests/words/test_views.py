"""Views of buffers: another shape, another type, one row, a box at run-time offsets; through helpers, ifs, loops and tasks."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError, OutOfBounds
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def grid(ROWS: tl.constexpr, COLS: tl.constexpr):
    return tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]


@mimw.jit
def reshape(x, y, ROWS: tl.constexpr, COLS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    buffer = tlx.local_alloc((ROWS, COLS), tlx.dtype_of(x), 2)
    tlx.local_store(buffer[1], tl.load(x + grid(ROWS, COLS)))
    tl.store(y + grid(M, N), tlx.local_load(tlx.local_reshape(buffer, (M, N))[1]))
    flat = tlx.local_reshape(buffer[1], [ROWS * COLS])
    at = tl.arange(0, ROWS * COLS)
    tl.store(y + ROWS * COLS + at, tlx.local_load(flat))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(32, 128), (128, 32)])
def test_reshape_keeps_elements_in_order(machine, dtype, shape):
    x = np.arange(64 * 64).astype(dtype)
    y = np.zeros((2, 64 * 64), dtype)
    machine.launch(reshape, (1, ), x, y, 64, 64, *shape)
    assert (y == x).all()


PINNED = {"padded": tlx.padded_shared_layout_encoding.with_identity_for([[64, 8]], [64, 64]),
          "swizzled": tlx.swizzled_layout(3, 3, 3)}


@mimw.jit
def reshape_pinned(x, y, LAYOUT: tl.constexpr):
    buffer = tlx.local_alloc((64, 64), tlx.dtype_of(x), 2, layout=LAYOUT)
    tlx.local_store(buffer[1], tl.load(x + grid(64, 64)))
    tl.store(y + grid(32, 128), tlx.local_load(tlx.local_reshape(buffer, (32, 128))[1]))
    tl.store(y + 4096 + tl.arange(0, 4096), tlx.local_load(tlx.local_reshape(buffer[1], [4096])))


@pytest.mark.parametrize("layout", PINNED)
def test_reshape_follows_a_pinned_layout(machine, layout):
    x, y = np.arange(64 * 64).astype(np.float16), np.zeros((2, 64 * 64), np.float16)
    machine.launch(reshape_pinned, (1, ), x, y, PINNED[layout])
    assert (y == x).all()


@pytest.mark.long(everywhere=True, but=[
    "padded-#ttg.padded_shared<?64:+8? {order = ?1, 0?, shape = ?32, 128?}>-gfx1250",
    "swizzled-#ttg.shared_linear<{offset = -gfx942", "swizzled-#ttg.shared_linear<{offset = -gfx950",
    "swizzled-#ttg.shared_linear<{offset = -sm_90a"])
@pytest.mark.parametrize("chip", ["sm_90a", "gfx942", "gfx950", "gfx1250"])
@pytest.mark.parametrize("layout, seen", [("padded", "#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [32, 128]}>"),
                                          ("swizzled", "#ttg.shared_linear<{offset = ")])
def test_the_other_shape_has_its_bytes_there(layout, seen, chip):
    compiled = compile_kernel(reshape_pinned, {"x": "*fp16", "y": "*fp16"}, {"LAYOUT": PINNED[layout]}, chip, {"num_warps": 4})
    text = compiled.stage("ttgir")
    assert "hsaco" in compiled.stages or "cubin" in compiled.stages
    assert seen in text, [line for line in text.splitlines() if line.startswith("#shared")]


@mimw.jit
def reinterpret(x, halves, bytes, words):
    wide = tlx.local_alloc((64, 64), tl.int32, 2)
    narrow = tlx.local_reinterpret(wide, tl.int16, [64, 128])
    whole = tlx.local_reinterpret(wide, tl.int8, [128, 256])
    floats = tlx.local_reinterpret(wide, tl.float32)
    for i in range(2):
        tlx.local_store(wide[i], tl.load(x + i * 4096 + grid(64, 64)))
    for i in range(2):
        tl.store(halves + i * 8192 + grid(64, 128), tlx.local_load(narrow[i]))
    tl.store(bytes + grid(128, 256), tlx.local_load(whole))
    tlx.local_store(floats[0], tl.full((64, 64), 1.0, tl.float32))
    tl.store(words + grid(64, 64), tlx.local_load(wide[0]))


def test_reinterpret_sees_the_same_bytes(machine):
    x = np.arange(2 * 64 * 64, dtype=np.int32) * 77777
    halves, bytes, words = np.zeros(16384, np.int16), np.zeros(32768, np.int8), np.zeros(4096, np.int32)
    machine.launch(reinterpret, (1, ), x, halves, bytes, words)
    assert (halves == x.view(np.int16)).all() and (bytes == x.view(np.int8)).all()
    assert (words.view(np.float32) == 1.0).all()


@mimw.jit
def rows(x, y, z):
    tile = tlx.local_alloc((8, 64), tl.float32, 1)[0]
    line = tlx.local_alloc((32, ), tl.float32, 1)[0]
    at = tl.arange(0, 64)
    for i in range(8):
        tlx.local_store(tile[i], tl.load(x + i * 64 + at))
    whole = tlx.local_load(tile)
    tl.store(y + grid(8, 64), whole + 1)
    tlx.local_store(line, tl.arange(0, 32) * 1.0)
    for i in range(32):
        tl.store(z + i + tl.arange(0, 1), tlx.local_load(line[31 - i]))


def test_one_row_and_one_element(machine):
    x = np.arange(512, dtype=np.float32)
    y, z = np.zeros_like(x), np.zeros(32, np.float32)
    machine.launch(rows, (1, ), x, y, z)
    assert (y == x + 1).all() and (z == np.arange(31, -1, -1)).all()


@mimw.jit
def columns(x, y):
    tile = tlx.local_alloc((16, 64), tl.float32, 1)[0]
    tlx.local_store(tile, tl.load(x + grid(16, 64)))
    turned = tlx.local_trans(tile)
    for i in range(64):
        tl.store(y + i * 16 + tl.arange(0, 16), tlx.local_load(turned[i]))


def test_one_column_is_a_row_of_the_transpose(machine):
    x, y = np.arange(1024, dtype=np.float32).reshape(16, 64), np.zeros((64, 16), np.float32)
    machine.launch(columns, (1, ), x, y)
    assert (y == x.T).all()


@mimw.jit
def cube(x_desc, y):
    """A single buffer of rank 3 whose slices are TMA destinations."""
    tiles = tlx.local_alloc((2, 64, 128), tlx.dtype_of(x_desc), 1)[0]
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 2 * 64 * 128 * 2)
    for i in range(2):
        tlx.async_descriptor_load(x_desc, tiles[i], [i * 64, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    for i in range(2):
        tl.store(y + i * 64 * 128 + grid(64, 128), tlx.local_load(tiles[i]))


def test_slices_of_a_rank_3_buffer_take_tma(machine):
    x = np.arange(128 * 128).astype(np.float16).reshape(128, 128)
    y = np.zeros_like(x)
    machine.launch(cube, (1, ), mimw.TensorDescriptor.from_tensor(x, [64, 128]), y)
    assert (y == x).all()


@mimw.jit
def boxes(x, y, ROWS: tl.constexpr, COLS: tl.constexpr):
    tile = tlx.local_alloc((64, 64), tlx.dtype_of(x), 1)
    tlx.local_store(tile[0], tl.load(x + grid(64, 64)))
    at = tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, COLS)[None, :]
    for i in range(0, 64, ROWS):
        for j in range(0, 64, COLS):
            box = tlx.local_slice(tile[0], [i, j], [ROWS, COLS])
            tl.store(y + i * 64 + j + at, tlx.local_load(box) + 1)
            tlx.local_store(box, tl.full((ROWS, COLS), -1.0, tl.float32).to(tlx.dtype_of(x)))
    tl.store(y + 4096 + grid(64, 64), tlx.local_load(tile[0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("box", [(16, 64), (64, 16), (32, 32), (8, 16)])
def test_boxes_at_run_time_offsets(machine, dtype, box):
    x = np.arange(64 * 64).astype(dtype) % 1000
    y = np.zeros((2, 64 * 64), dtype)
    machine.launch(boxes, (1, ), x, y, *box)
    assert (y[0] == x + 1).all() and (y[1] == -1).all()


@mimw.jit
def box_at(y, at, KNOWN: tl.constexpr):
    """The box that begins at a row of a buffer, which Triton takes at multiples of its extent only."""
    tile = tlx.local_alloc((64, 64), tl.float32, 1)
    tlx.local_store(tile[0], tl.zeros((64, 64), tl.float32))
    tl.store(y + grid(32, 64), tlx.local_load(tlx.local_slice(tile[0], [at if KNOWN is None else KNOWN, 0], [32, 64])))


@pytest.mark.parametrize("known, error", [(None, OutOfBounds), (16, KernelError)])
def test_a_box_begins_at_a_multiple_of_its_extent(known, error):
    y = np.ones((32, 64), np.float32)
    with pytest.raises(error, match="32 elements from 16 .*: a box begins at a multiple of its extent"):
        mimw.simulate(box_at, (1, ), y, 16, known)
    mimw.simulate(box_at, (1, ), y, 32, None if known is None else 32)
    assert not y.any()


@mimw.jit
def halves(x_desc, y, where):
    """Each half of the columns is the destination of its own TMA load, at an offset known at run time."""
    tile = tlx.local_alloc((64, 128), tlx.dtype_of(x_desc), 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 64 * 128 * 2)
    tlx.async_descriptor_load(x_desc, tlx.local_slice(tile[0], [0, where * 64], [64, 64]), [0, 0], full[0])
    tlx.async_descriptor_load(x_desc, tlx.local_slice(tile[0], [0, (1 - where) * 64], [64, 64]), [0, 64], full[0])
    tlx.barrier_wait(full[0], 0)
    tl.store(y + grid(64, 128), tlx.local_load(tile[0]))


@pytest.mark.parametrize("where", [0, 1])
def test_tma_into_halves(machine, where):
    x = np.arange(64 * 128).astype(np.float16).reshape(64, 128)
    y = np.zeros_like(x)
    machine.launch(halves, (1, ), mimw.TensorDescriptor.from_tensor(x, [64, 64]), y, where)
    assert (y == np.roll(x, 64 * where, 1)).all()


@mimw.jit
def pick(tiles, i, flag):
    chosen = tiles[i]
    if flag > 0:
        chosen = tiles[i + 1]
    return chosen


@mimw.jit
def handed_on(x, y, flag, N: tl.constexpr):
    spec = tlx.storage_alias_spec()
    tiles = tlx.local_alloc((32, 32), tl.float32, N, reuse=spec)
    gap = tlx.local_alloc((64, ), tl.float32, N, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(tiles, gap, group_type=tlx.reuse_group_type.distinct))
    for i in range(N):
        tlx.local_store(tiles[i], tl.load(x + i * 1024 + grid(32, 32)))
        tlx.local_store(gap[i], tl.arange(0, 64) * 0.0)
    before = tiles[0]
    for i in range(1, N):
        tl.store(y + i * 1024 + grid(32, 32), tlx.local_load(before))
        before = tiles[i]
    tl.store(y + grid(32, 32), tlx.local_load(pick(tiles, 1, flag)))


@pytest.mark.parametrize("flag", [0, 1])
def test_through_helpers_branches_and_loops(machine, flag):
    x = np.arange(3 * 1024, dtype=np.float32).reshape(3, 1024)
    y = np.zeros_like(x)
    machine.launch(handed_on, (1, ), x, y, flag, 3)
    assert (y == np.stack([x[1 + flag], x[0], x[1]])).all()


KERNELS = {
    "reshape": (reshape, {"x": "*fp16", "y": "*fp16"}, dict(ROWS=64, COLS=64, M=32, N=128)),
    "reinterpret": (reinterpret, {"x": "*i32", "halves": "*i16", "bytes": "*i8", "words": "*i32"}, {}),
    "rows": (rows, {"x": "*fp32", "y": "*fp32", "z": "*fp32"}, {}),
    "columns": (columns, {"x": "*fp32", "y": "*fp32"}, {}),
    "cube": (cube, {"x_desc": "tensordesc<fp16[64,128]>", "y": "*fp16"}, {}),
    "boxes": (boxes, {"x": "*fp16", "y": "*fp16"}, dict(ROWS=8, COLS=16)),
    "halves": (halves, {"x_desc": "tensordesc<fp16[64,64]>", "y": "*fp16", "where": "i32"}, {}),
    "handed_on": (handed_on, {"x": "*fp32", "y": "*fp32", "flag": "i32"}, dict(N=3)),
}


@pytest.mark.long(but=["reinterpret", "handed_on", "cube", "halves", "reshape", "rows", "columns"], everywhere=True)
@pytest.mark.parametrize("kernel, signature, constants", KERNELS.values(), ids=KERNELS)
def test_compiles_for_hopper(kernel, signature, constants):
    assert compile_kernel(kernel, signature, constants, "sm_90a", dict(num_warps=8)).stages["cubin"]
