"""Masked stores into buffers in pieces, and single elements of them: simulated, searched for races, compiled, and on a GPU."""


import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.compiler.pipeline import stages
from mimw.ir.byte_maps import byte_offset
from mimw.testing.machines import Gpu
from tests.compiling import stopping
from tests.kernels import odd_elements
from tests.lowering.test_masked_store import written

TILES = {"odd rows": (176, 64), "odd columns": (64, 176), "both": (40, 96), "bytes": (104, 32, np.int8),
         "wide elements": (72, 48, np.float32)}
CASES = {
    **{f"tail, {name}": ("tail", tile, {}) for name, tile in TILES.items()},
    **{f"spots, {name}": ("spots", tile, {}) for name, tile in TILES.items()},
    "picked in rows": ("picked", (24, 64), dict(AXIS=1, TURNED=False)),
    "picked in columns": ("picked", (40, 96), dict(AXIS=0, TURNED=False)),
    "picked of a transposed tile": ("picked", (24, 96), dict(AXIS=1, TURNED=True)),
    "picked of bytes": ("picked", (104, 32, np.int8), dict(AXIS=1, TURNED=False)),
    "pointers": ("pointers", (176, 64), {}),
    "pointers, both": ("pointers", (56, 96, np.float32), {}),
    "counted": ("counted", (56, 48, np.int32), {}),
}


def launched(name):
    case, tile, meta = CASES[name]
    return odd_elements.launch(case, *tile, **meta)


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_gives_numpys_numbers_and_finds_no_race(name):
    kernel, args, meta, y, want = launched(name)
    assert mimw.check(kernel, (1, ), *args, seeds=1, target="sm_90a", **meta).ok
    mimw.simulate(kernel, (1, ), *args, target="sm_90a", **meta)
    np.testing.assert_array_equal(y, want)


@pytest.mark.long(but=["tail, odd columns", "spots, bytes", "picked in rows", "pointers, both", "counted"], everywhere=True)
@pytest.mark.parametrize("name", CASES)
def test_there_is_a_binary(name):
    kernel, args, meta, *_ = launched(name)
    with stopping():
        compiled = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    assert "cp.async.bulk.tensor" in compiled.ptx


@pytest.mark.long(but=["tail*"], everywhere=True)
@pytest.mark.parametrize("name, stores", [("tail, odd rows", ["v4.b32"] * 11), ("spots, odd rows", ["b16"] * 88)])
def test_stores_are_as_wide_as_the_mask_allows(name, stores):
    """176 x 64 elements of 128 threads: 88 of each, 8 in a store where a row is masked alike."""
    kernel, args, meta, *_ = launched(name)
    compiled = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    assert re.findall(r"@on st\.shared\.(\S+)", compiled.ptx) == stores and not compiled.stack_bytes


@pytest.mark.long(but=["tail, odd columns", "spots, bytes"], everywhere=True)
@pytest.mark.parametrize("name", ["spots, odd rows", "tail, odd columns", "spots, bytes"])
def test_every_element_of_a_piece_is_stored_in_its_place(name):
    """One assembly a piece, run thread by thread: rows of the swizzle, wherever the piece begins."""
    kernel, args, meta, *_ = launched(name)
    with stopping(("ttgir", )):
        compiled = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    (alloc, ) = (op for op in compiled.program.named("local_alloc") if op.result.type.element.name in ("fp16", "i8"))
    (height, width), (layout, *_) = alloc.result.type.shape, compiled.layouts.shared.values()
    stores = re.findall(r'ttg\.inline_asm "([^"]*@on st\.shared[^"]*)"', compiled.ttgir)
    assert len(stores) == meta["R"] * meta["C"] // (height * width) and len(set(stores)) == 1
    on = np.ones((height, width), np.int8 if "bytes" in name else np.float16)
    memory, _ = written(compiled, on, 4)
    assert memory == {byte_offset(layout, on.shape, on.itemsize, element * on.itemsize) + byte: (element, byte)
                      for element in range(on.size) for byte in range(on.itemsize)}


@mimw.jit
def in_boxes(x, y, R: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
    """Boxes are written whole, and elements picked: by numbers in the array, and along both axes of a tile."""
    tiles = tlx.local_alloc((R, C), tl.float32, 2)
    for row in range(0, R, H):
        for column in range(0, C, W):
            at = (row + tl.arange(0, H)[:, None]) * C + column + tl.arange(0, W)[None, :]
            tlx.local_store(tlx.local_slice(tiles[0], [row, column], [H, W]), tl.load(x + at))
            tlx.local_store(tlx.local_slice(tiles[1], [row, column], [H, W]), tl.load(x + at) + 1000)
    rows, columns = tl.arange(0, R)[:, None] + tl.zeros((R, C), tl.int32), tl.arange(0, C)[None, :] + tl.zeros((R, C), tl.int32)
    at, slot = rows * C + columns, (rows + columns) % 2
    tl.store(y + at, tlx.local_gather(tiles[1], (columns + rows) % C, 1))
    tl.store(y + R * C + at, tlx.local_gather(tiles[0], (columns + rows) % R, 0))
    tl.store(y + 2 * R * C + at, tl.load(tle.gpu.local_ptr(tiles, (slot, rows, columns))))


def test_numbers_in_the_array_of_pieces(monkeypatch):
    """On the simulator: the program that is lowered, with its pieces."""
    rows, columns = np.indices((56, 96))
    x, y = np.arange(56 * 96, dtype=np.float32).reshape(56, 96), np.zeros((3, 56, 96), np.float32)
    want = [x[rows, (rows + columns) % 96] + 1000, x[(rows + columns) % 56, columns], x + (rows + columns) % 2 * 1000]
    monkeypatch.setattr(stages, "FRONT", (*stages.FRONT, stages.pad))
    mimw.simulate(in_boxes, (1, ), x, y, target="sm_90a", R=56, C=96, H=8, W=32)
    np.testing.assert_array_equal(y, np.stack(want))


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_the_gpu_agrees(name):
    kernel, args, meta, y, want = launched(name)
    Gpu().launch(kernel, (1, ), *args, **meta)
    np.testing.assert_array_equal(y, want)
