"""Tiles from tensor memory through changes of shape: their rows stay the lanes of a warp, and nothing moves."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.simulate import prepare
from mimw.tlx import mxfp8_utils, subtile_ops
from tests.compiling import to_ttgir
from tests.lowering.harness import Case


@mimw.jit
def largest(x, y, N: tl.constexpr, HOW: tl.constexpr):
    """Of each 32 x 32 block, at every row: over the columns in a thread, over the rows by a reduction of the warp."""
    buffer = tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)
    at = tl.arange(0, 128)[:, None] * N + tl.arange(0, N)[None, :]
    tlx.local_store(buffer[0], tl.load(x + at))
    tile = tlx.local_load(buffer[0])
    if HOW == "reshape":
        amax = tl.max(tl.abs(tile.reshape([128, N // 32, 32])), 2)
    else:
        amax = tl.max(tl.abs(tile.reshape([128, N // 32, 32]).permute(0, 2, 1)), 1)
    tl.store(y + tl.arange(0, 128)[:, None] * (N // 32) + tl.arange(0, N // 32)[None, :], tlx.warp_redux(amax, "max"))


@pytest.mark.parametrize("how", ["reshape", "trans"])
def test_rows_of_a_warp(how):
    x, y = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32), np.zeros((128, 2), np.float32)
    mimw.simulate(largest, (1, ), x, y, 64, how, target="sm_100a")
    wanted = np.abs(x).reshape(4, 32, 2, 32).max((1, 3)).repeat(32, axis=0)
    np.testing.assert_array_equal(y, wanted)
    program = prepare(largest, (1, ), (x, y, 64, how), {}, "sm_100a").program
    (redux, ) = (op for op in program.walk() if op.name == "warp_redux")
    assert redux.attrs["lanes"] == (2, 4, 8, 16, 32)


@pytest.mark.parametrize("how", ["reshape", "trans"])
def test_nothing_moves(how, sass_has):
    """One register a block and thread: the reduction takes two instructions, and only loads and stores of global memory convert."""
    compiled = Case(largest, {"x": "*fp32", "y": "*fp32"}, {"N": 64, "HOW": how}).compiled("sm_100a")
    assert compiled.stage("ptx").count("redux.sync.max.f32") == 2
    sass_has(compiled, ("CREDUX.MAX.F32", 2))
    before, _, _ = compiled.stage("ttgir").partition("redux.sync")
    assert "ttg.convert_layout" not in before.partition("ttng.tmem_load")[2]


@mimw.jit
def pieces(desc, N: tl.constexpr, COUNT: tl.constexpr):
    acc = tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)
    out = tlx.local_alloc((128, N // COUNT), tl.float16, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=4):
            parts = subtile_ops._split_n_2D(tlx.local_load(acc[0]), COUNT)
            for i in tl.static_range(COUNT):
                tlx.local_store(out[0], parts[i].to(tl.float16))
                tlx.fence("async_shared")
                tlx.async_descriptor_store(desc, out[0], [0, i * (N // COUNT)])
                tlx.async_descriptor_store_wait(0)


@pytest.mark.long(but=["4"], everywhere=True)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_an_epilogue_takes_no_scratch(count, sass_has):
    """A 128 x 256 accumulator of fp32 would be 128 KB of it."""
    compiled = Case(pieces, {"desc": f"tensordesc<fp16[128,{256 // count}]>"}, {"N": 256, "COUNT": count}).compiled("sm_100a")
    assert "ttg.convert_layout" not in compiled.stage("ttgir")
    sass_has(compiled, "LDTM")
    assert compiled.metadata.shared < 128 * 256 // count * 2 + 1024


@mimw.jit
def quantized(scales, M: tl.constexpr, N: tl.constexpr, COUNT: tl.constexpr):
    """Pieces of a tile as microscaled fp8, one scale for 32 x 32 elements."""
    tile = tlx.local_alloc((M, N), tl.float32, 1, tlx.storage_kind.tmem)
    data = tlx.local_alloc((M, N // COUNT), tl.float8e4nv, COUNT)
    at = tl.arange(0, M)[:, None] * (N // COUNT // 32) + tl.arange(0, N // COUNT // 32)[None, :]
    parts = subtile_ops._split_n_2D(tlx.local_load(tile[0]), COUNT)
    for i in tl.static_range(COUNT):
        found, exponents = mxfp8_utils._to_mxfp8_32x32_block(parts[i], 32, tl.float8e4nv)
        tlx.local_store(data[i], found)
        tl.store(scales + i * M * N // COUNT // 32 + at, exponents)


@pytest.mark.long(but=["128-128-1-8-64", "64-128-2-8-8192", "128-128-2-4-64"], everywhere=True)
@pytest.mark.parametrize("rows, columns, count, warps, most", [
    (128, 128, 1, 4, 64), (128, 128, 1, 8, 64), (128, 128, 2, 4, 64), (64, 128, 2, 4, 64),
    (128, 128, 2, 8, 8192), (128, 256, 2, 8, 8192), (128, 128, 4, 8, 8192), (64, 128, 2, 8, 8192)])
def test_scratch_of_microscaled_pieces(rows, columns, count, warps, most):
    """Bytes besides the fp8 data. Eight warps have the halves of a tile in different warps, so half of the elements change their
    warp, some registers at a time; of a tile of 64 rows and four warps they change their lane. To convert the tile at once would
    take up to 128 KB."""
    case = Case(quantized, {"scales": "*u8"}, {"M": rows, "N": columns, "COUNT": count}, {"num_warps": warps})
    assert case.compiled("sm_100a", to_ttgir).metadata.shared - rows * columns <= most


@mimw.jit
def halved(N: tl.constexpr):
    tile = tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)
    half = tlx.local_alloc((128, N // 2), tl.float32, 2, tlx.storage_kind.tmem)
    left, right = subtile_ops._split_n_2D(tlx.local_load(tile[0]), 2)
    tlx.local_store(half[0], left)
    tlx.local_store(half[1], right)


def test_pieces_of_eight_warps(sass_has):
    """They lie over the threads as tiles of their width do in tensor memory, so that storing one there moves nothing."""
    case = Case(halved, {}, {"N": 128}, {"num_warps": 8})
    compiled = case.compiled("sm_100a")
    assert compiled.stage("ttgir").count("ttg.convert_layout") == 1
    sass_has(compiled, ("STTM", 2))


@mimw.jit
def rounded(r, y, N: tl.constexpr):
    acc = tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)
    at = tl.arange(0, 128)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + at, tlx.stoch_round(tlx.local_load(acc[0]), tl.float8e4nv, tl.load(r + at)))


def test_four_columns_are_in_one_thread():
    """Rounding takes the tile as it comes: 128 x 64 elements of 128 threads, four an instruction."""
    compiled = Case(rounded, {"r": "*i32", "y": "*fp8e4nv"}, {"N": 64}).compiled("sm_100a")
    assert compiled.stage("ptx").count("cvt.rs.satfinite.e4m3x4.f32") == 16
    asm, load = (compiled.stage("ttgir").index(word) for word in ("cvt.rs", "ttng.tmem_load"))
    between = [line for line in compiled.stage("ttgir")[load:asm].splitlines() if "convert_layout" in line]
    assert all("xi32" in line for line in between)


@mimw.jit
def pinned(x, y, LAYOUT: tl.constexpr):
    buffer = tlx.local_alloc((128, 32), tl.float32, 1, tlx.storage_kind.tmem)
    at = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.local_store(buffer[0], tl.load(x + at))
    tl.store(y + at, tlx.warp_redux(tlx.local_load(buffer[0], layout=LAYOUT), "min"))


def test_a_pinned_layout():
    """The lanes over the columns of a row, by the author's wish: the reduction is over the row."""
    layout = tlx.layout(shape=((32, 4), (32, )), stride=((1, 32), (128, )))
    x, y = np.random.default_rng(1).standard_normal((128, 32)).astype(np.float32), np.zeros((128, 32), np.float32)
    mimw.simulate(pinned, (1, ), x, y, layout, target="sm_100a")
    np.testing.assert_array_equal(y, np.broadcast_to(x.min(1, keepdims=True), x.shape))
    compiled = Case(pinned, {"x": "*fp32", "y": "*fp32"}, {"LAYOUT": layout}).compiled("sm_100a")
    assert compiled.stage("ptx").count("redux.sync.min.f32") == 32
