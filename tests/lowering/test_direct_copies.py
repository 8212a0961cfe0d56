"""Copies past the registers into LDS: `async_load` and `buffer_load_to_local` as the instructions of each AMD chip."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly
from tests.kernels.direct_copies import ANY_DIRECT, ROWS_REORDERED, copied, padded

ONES, DIVISIBLE = [1, 1], [["tt.divisibility", 16]]
DIRECT = {("gfx942", True): r"buffer_load_dword .* lds$", ("gfx942", False): r"global_load_lds_dword ",
          ("gfx950", True): r"buffer_load_dwordx4 .* lds$", ("gfx950", False): r"global_load_lds_dwordx4 ",
          ("gfx1250", True): r"global_load_async_to_lds_b128 ", ("gfx1250", False): r"global_load_async_to_lds_b128 "}


def swizzled(vector, phases):
    return tlx.swizzled_shared_layout_encoding(vector, 1, phases, [1, 0], ONES, ONES, ONES, [1, 0])


def code(target, base=True, layout=None, mask=None, other=None, element="fp16", known=4) -> str:
    """The assembly; the first so many of pointers, stride and n are multiples of 16 as far as the compiler knows."""
    return to_assembly(copied, {"x": f"*{element}", "y": f"*{element}", "stride": "i32", "n": "i32"},
                       {"BASE": base, "LAYOUT": layout, "MASK": mask, "OTHER": other}, target, {"num_warps": 4},
                       attrs={(at, ): DIVISIBLE for at in range(known)}).stage("amdgcn")


def count(pattern: str, text: str) -> int:
    return len(re.findall(rf"^\s+{pattern}", text, re.MULTILINE))


@pytest.mark.long(everywhere=True, but=[
    "padded-True-gfx1250-4", "padded-True-gfx942-8", "plain-False-gfx950-2", "swizzled-False-gfx950-2"])
@pytest.mark.parametrize("target, pieces", [("gfx942", 8), ("gfx950", 2), ("gfx1250", 4)])
@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("layout", [None, swizzled(8, 8), padded(512), padded(512, ROWS_REORDERED)],
                         ids=["plain", "swizzled", "padded", "reordered"])
def test_the_tile_follows_its_buffer(target, pieces, base, layout):
    """4 bytes a lane on gfx942, 16 on the others, of 8 KB by 256 or 128 lanes, and nothing through registers."""
    text = code(target, base, layout)
    assert count(DIRECT[target, base], text) == pieces
    assert not count("ds_(write|store)", text)


@pytest.mark.long(but=["False-gfx950", "True-gfx942"], everywhere=True)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("base", [True, False])
def test_gaps_within_the_range_of_a_wave(target, base):
    """A lane cannot leave room behind its piece: the copy goes through registers, in wide pieces."""
    text = code(target, base, padded(64))
    assert not count(ANY_DIRECT, text)
    assert count(r"(buffer|global)_load_dwordx4 ", text) == count("ds_write_b128", text) == 2


@pytest.mark.long(but=["None-2-True-gfx950", "cols-3-False-gfx1250", "cols-3-True-gfx942"], everywhere=True)
@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1250"])
@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("mask, known", [("cols", 3), (None, 2)])
def test_masks_that_cut_pieces_and_rows_that_lie_odd(target, base, mask, known):
    """Nobody knows whether n, or the stride, is a multiple of a piece: the whole copy goes through registers."""
    text = code(target, base, mask=mask, known=known)
    assert not count(ANY_DIRECT, text) and count("ds_(write|store)", text)


@pytest.mark.long(but=["False-cols-gfx942", "False-cols-gfx950", "True-rows-gfx1250"], everywhere=True)
@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1250"])
@pytest.mark.parametrize("mask", ["rows", "cols"])
@pytest.mark.parametrize("base", [True, False])
def test_what_masked_elements_become(target, mask, base):
    """Out of range, a lane of the form with a base brings zeros by itself; all else is stored besides."""
    text = code(target, base, mask=mask)
    assert count(DIRECT[target, base], text)
    assert bool(count("ds_(write|store)", text)) == (not base or target == "gfx1250")
    filled = code(target, base, mask=mask, other=3.0)
    assert count(DIRECT[target, base], filled) and count("ds_(write|store)", filled)


def test_elements_of_eight_bytes_under_a_mask():
    """gfx950 copies 4, 12 or 16 bytes: two such elements, if they are masked alike."""
    assert count("buffer_load_dwordx4 .* lds$", code("gfx950", element="i64", mask="cols"))
    assert not count(ANY_DIRECT, code("gfx950", element="i64", mask="cols", known=3))
    assert not count(ANY_DIRECT, code("gfx942", element="i64"))


@mimw.jit
def few(x, SIZE: tl.constexpr, BASE: tl.constexpr):
    tile, at = tlx.local_alloc((SIZE, ), tl.float32, 1), tl.arange(0, SIZE)
    if BASE:
        tlx.buffer_load_to_local(tile[0], x, at)
    else:
        tlx.async_load(x + at, tile[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(x + at, tlx.local_load(tile[0]) + 1)


@pytest.mark.long(but=["False-gfx950-64-True", "True-gfx1250-16-True", "True-gfx942-32-False"], everywhere=True)
@pytest.mark.parametrize("target, size, direct", [("gfx942", 64, True), ("gfx942", 32, False), ("gfx950", 64, True),
                                                  ("gfx950", 32, False), ("gfx1250", 16, True)])
@pytest.mark.parametrize("base", [True, False])
def test_tiles_of_less_than_a_wave(target, size, direct, base):
    text = to_assembly(few, {"x": "*fp32"}, {"SIZE": size, "BASE": base}, target, {"num_warps": 4}).stage("amdgcn")
    assert bool(count(ANY_DIRECT, text)) == direct


@mimw.jit
def half(x, y, AXIS: tl.constexpr, BASE: tl.constexpr):
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    ROWS: tl.constexpr = 32 if AXIS == 0 else 64
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, 2048 // ROWS)[None, :]
    part = tlx.local_slice(tile[0], [ROWS % 64, 32 if AXIS == 1 else 0], [ROWS, 2048 // ROWS])
    if BASE:
        tlx.buffer_load_to_local(part, x, rows * 64 + cols)
    else:
        tlx.async_load(x + rows * 64 + cols, part)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(y + rows * 64 + cols, tlx.local_load(part))


@pytest.mark.long(but=["False-gfx1250-1-True", "False-gfx942-0-True", "True-gfx950-1-False"], everywhere=True)
@pytest.mark.parametrize("target, axis, direct", [("gfx942", 0, True), ("gfx942", 1, False), ("gfx950", 0, True),
                                                  ("gfx950", 1, False), ("gfx1250", 1, True)])
@pytest.mark.parametrize("base", [True, False])
def test_parts_of_a_buffer(target, axis, direct, base):
    """A wave of gfx9 cannot leave room between rows for other columns."""
    text = to_assembly(half, {"x": "*fp16", "y": "*fp16"}, {"AXIS": axis, "BASE": base}, target, {"num_warps": 4},
                       attrs={(at, ): DIVISIBLE for at in range(2)}).stage("amdgcn")
    assert bool(count(ANY_DIRECT, text)) == direct


@mimw.jit
def copies(left, right, a, b, from_a, from_b, step, STAGES: tl.constexpr, BASE: tl.constexpr):
    if BASE:
        tlx.buffer_load_to_local(left[step % STAGES], a, from_a + step * 64)
        tlx.buffer_load_to_local(right[step % STAGES], b, from_b + step * 64 * 128)
    else:
        tlx.async_load(a + from_a + step * 64, left[step % STAGES])
        tlx.async_load(b + from_b + step * 64 * 128, right[step % STAGES])
    tlx.async_load_commit_group()


@mimw.jit
def pipelined(a, b, c, K, STAGES: tl.constexpr, BASE: tl.constexpr):
    """A product of 128 x 128 whose operands come STAGES - 1 steps of 64 ahead."""
    left, right = tlx.local_alloc((128, 64), tl.float16, STAGES), tlx.local_alloc((64, 128), tl.float16, STAGES)
    rows, cols, k = tl.arange(0, 128), tl.arange(0, 128), tl.arange(0, 64)
    from_a, from_b = rows[:, None] * K + k[None, :], k[:, None] * 128 + cols[None, :]
    acc = tl.zeros((128, 128), tl.float32)
    for first in tl.static_range(STAGES - 1):
        copies(left, right, a, b, from_a, from_b, first, STAGES, BASE)
    for step in range(K // 64 - (STAGES - 1)):
        tlx.async_load_wait_group(STAGES - 2)
        copies(left, right, a, b, from_a, from_b, step + STAGES - 1, STAGES, BASE)
        acc = tl.dot(tlx.local_load(left[step % STAGES]), tlx.local_load(right[step % STAGES]), acc)
    tlx.async_load_wait_group(0)
    for last in tl.static_range(STAGES - 1):
        slot = (K // 64 - (STAGES - 1) + last) % STAGES
        acc = tl.dot(tlx.local_load(left[slot]), tlx.local_load(right[slot]), acc)
    tlx.buffer_store(acc.to(tl.float16), c, rows[:, None] * 128 + cols[None, :])


@pytest.mark.long(but=["True"], everywhere=True)
@pytest.mark.parametrize("base", [True, False])
def test_a_wait_leaves_the_copies_of_later_groups_alone(base):
    """A group is 8 instructions of a lane: 32 KB by 256 lanes of 16 bytes. One barrier a step, behind the wait, is for both sides:
    what the waves have copied is read behind it, and the slot that was read before it is filled again. LLVM waits for no more."""
    text = to_assembly(pipelined, {"a": "*fp16", "b": "*fp16", "c": "*fp16", "K": "i32"}, {"STAGES": 3, "BASE": base}, "gfx950",
                       {"num_warps": 4}, attrs={(at, ): DIVISIBLE for at in range(4)}).stage("amdgcn")
    waits = list(re.finditer(r"^\s+s_waitcnt vmcnt\((\d+)\)", text, re.MULTILINE))
    assert [wait[1] for wait in waits] == ["8", "0"]
    loop = text[waits[0].end():text.index("s_cbranch", waits[0].end())]
    assert count(DIRECT["gfx950", base], loop) == 8 and count(r"v_mfma_f32_32x32x16_f16", loop) == 16
    assert count("s_barrier", loop) == 1 and loop.index("s_barrier") < re.search("ds_read|buffer_load|global_load", loop).start()


@pytest.mark.long(but=["False-gfx1250", "True-gfx950"], everywhere=True)
@pytest.mark.parametrize("target", ["gfx950", "gfx1250"])
@pytest.mark.parametrize("base", [True, False])
def test_the_pipelined_product(target, base):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 256), (256, 128)))
    c = np.zeros((128, 128), np.float16)
    assert mimw.check(pipelined, (1, ), a, b, c, 256, 3, base, target=target).ok
    mimw.simulate(pipelined, (1, ), a, b, c, 256, 3, base, target=target)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-1)
