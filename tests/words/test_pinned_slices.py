"""Slices at run-time offsets of buffers in every layout that an author may pin, against numpy; and views that there are not."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel

LAYOUTS = {
    "linear": tlx.shared_linear_layout_encoding([[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [1, 0], [2, 0], [4, 0], [8, 0]]),
    "swizzled by hand": tlx.shared_linear_layout_encoding(
        [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [1, 4], [2, 8], [4, 16], [8, 0]]),
    "padded": tlx.padded_shared_layout_encoding.with_identity_for([(32, 4)], [16, 32]),
    "columns": tlx.padded_shared_layout_encoding.with_identity_for([(16, 8)], [16, 32], order=[0, 1]),
    "swizzled": tlx.swizzled_layout(2, 3, 3),
    "default": None,
}
SIGNATURE = {"x": "*fp16", "y": "*fp16", "i": "i32"}


@mimw.jit
def part(x, y, i, LAYOUT: tl.constexpr, AXIS: tl.constexpr, TURNED: tl.constexpr, SLOTS: tl.constexpr):
    """Rows or columns from `i` on, of a buffer or of its transpose."""
    tiles = tlx.local_alloc((16, 32), tl.float16, SLOTS, layout=LAYOUT)
    tlx.local_store(tiles[SLOTS - 1], tl.load(x + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]))
    tile = tlx.local_trans(tiles[SLOTS - 1]) if TURNED else tiles[SLOTS - 1]
    R: tl.constexpr = tile.shape[0] // 2 if AXIS == 0 else tile.shape[0]
    C: tl.constexpr = tile.shape[1] if AXIS == 0 else tile.shape[1] // 2
    if AXIS == 0:
        piece = tlx.local_slice(tile, [i, 0], [R, C])
    else:
        piece = tlx.local_slice(tile, [0, i], [R, C])
    tl.store(y + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], tlx.local_load(piece))


@pytest.mark.long(everywhere=[
    "columns-False-0", "default-False-1", "linear-False-0", "padded-True-1", "swizzled by hand-False-1", "swizzled-False-0"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_time_slice(machine, layout, turned, axis):
    x = np.arange(16 * 32).reshape(16, 32).astype(np.float16)
    whole = x.T if turned else x
    half = whole.shape[axis] // 2
    for at in (0, half):
        y = np.zeros(256, np.float16)
        machine.launch(part, (1, ), x, y, at, LAYOUTS[layout], axis, turned, 1)
        assert (y == np.take(whole, range(at, at + half), axis).reshape(-1)).all()


@pytest.mark.long(but=[f"{name}-{('gfx950', 'sm_90a')[number % 2]}" for number, name in enumerate(LAYOUTS)], everywhere=True)
@pytest.mark.parametrize("target", ["gfx950", "sm_90a"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_compiles(layout, target):
    """Also of one buffer of several. A layout that is no array of rows is cut at one of two places, chosen at run time."""
    constants = dict(LAYOUT=LAYOUTS[layout], AXIS=1, TURNED=False, SLOTS=2)
    compiled = compile_kernel(part, SIGNATURE, constants, target)
    assert compiled.stage("ttgir").count("memdesc_subslice") == 2
    assert len(compiled.stages["cubin" if target == "sm_90a" else "hsaco"])


@mimw.jit
def view(x, y, i, LAYOUT: tl.constexpr, WORD: tl.constexpr):
    tile = tlx.local_alloc((16, 32), tl.float16, 1, layout=LAYOUT)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.local_store(tile[0], tl.load(x + at))
    if WORD == "reinterpret":
        tl.store(y + at, tlx.local_load(tlx.local_reinterpret(tile[0], tl.int16)).to(tl.float16, bitcast=True))
    elif WORD == "row":
        tl.store(y + tl.arange(0, 32), tlx.local_load(tlx.local_view(tile[0], i)))
    elif WORD == "reshape":
        tl.store(y + tl.arange(0, 512), tlx.local_load(tlx.local_reshape(tile[0], [512])))


@pytest.mark.parametrize("layout", ["linear", "swizzled by hand", "padded"])
def test_other_elements_of_as_many_bytes_lie_the_same(machine, layout):
    x, y = np.arange(16 * 32).reshape(16, 32).astype(np.float16), np.zeros((16, 32), np.float16)
    machine.launch(view, (1, ), x, y, 3, LAYOUTS[layout], "reinterpret")
    assert (y == x).all()


@pytest.mark.parametrize("layout", ["linear", "swizzled by hand", "padded"])
def test_elements_in_another_shape_lie_the_same(machine, layout):
    x, y = np.arange(16 * 32).reshape(16, 32).astype(np.float16), np.zeros((16, 32), np.float16)
    machine.launch(view, (1, ), x, y, 3, LAYOUTS[layout], "reshape")
    assert (y == x).all()


@pytest.mark.long(but=["linear-gfx950", "padded-sm_90a"], everywhere=True)
@pytest.mark.parametrize("target", ["gfx950", "sm_90a"])
@pytest.mark.parametrize("layout", ["linear", "padded"])
def test_views_that_a_pinned_layout_has_not_name_the_lines(layout, target):
    with pytest.raises(triton.CompilationError, match="no layout of buffer 'tile' suits"):
        compile_kernel(view, SIGNATURE, dict(LAYOUT=LAYOUTS[layout], WORD="row"), target)
    assert compile_kernel(view, SIGNATURE, dict(LAYOUT=LAYOUTS[layout], WORD="reshape"), target).stage("ttgir")
