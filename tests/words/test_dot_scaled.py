"""`tlx.dot_scaled`: products in microscaling formats, on the simulator exactly, and the instructions that they become."""

import re

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly, to_ttgir
from tests.lowering.harness import Case

FP4 = ml_dtypes.float4_e2m1fn
STORED = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16, "fp16": np.float16}


@mimw.jit
def scaled(a, sa, b, sb, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FA: tl.constexpr, FB: tl.constexpr,
           KA: tl.constexpr, KB: tl.constexpr, ACC: tl.constexpr, TILES: tl.constexpr):
    ROWS_A: tl.constexpr = M if KA or FA != "e2m1" else M // 2
    COLS_A: tl.constexpr = K // 2 if KA and FA == "e2m1" else K
    ROWS_B: tl.constexpr = K // 2 if KB and FB == "e2m1" else K
    COLS_B: tl.constexpr = N if KB or FB != "e2m1" else N // 2
    x = tl.load(a + tl.arange(0, ROWS_A)[:, None] * COLS_A + tl.arange(0, COLS_A)[None, :])
    w = tl.load(b + tl.arange(0, ROWS_B)[:, None] * COLS_B + tl.arange(0, COLS_B)[None, :])
    groups = tl.arange(0, K // 32)[None, :]
    if sa is None:
        scale_a = None
    else:
        scale_a = tl.load(sa + tl.arange(0, M)[:, None] * (K // 32) + groups)
    if sb is None:
        scale_b = None
    else:
        scale_b = tl.load(sb + tl.arange(0, N)[:, None] * (K // 32) + groups)
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    if ACC:
        acc = tl.load(y + at)
        acc = tlx.dot_scaled(x, scale_a, FA, w, scale_b, FB, acc, lhs_k_pack=KA, rhs_k_pack=KB, tiles_per_warp=TILES)
    else:
        acc = tlx.dot_scaled(x, scale_a, FA, w, scale_b, FB, lhs_k_pack=KA, rhs_k_pack=KB, tiles_per_warp=TILES)
    tl.store(y + at, acc)


def operand(random, format_, shape, axis):
    """(what the kernel is given, its numbers); pairs of fp4 in a byte, the first in the low bits, along `axis`."""
    values = random.integers(-6, 7, shape).astype(np.float32) / 2
    if format_ != "e2m1":
        return values.astype(STORED[format_]), values
    codes = np.moveaxis(values.astype(FP4).view(np.uint8), axis, -1)
    pairs = codes.reshape(*codes.shape[:-1], -1, 2)
    packed = np.moveaxis(pairs[..., 0] & 15 | pairs[..., 1] << 4, -1, axis)
    return np.ascontiguousarray(packed), values.astype(FP4).astype(np.float32)


def operands_of(fa, fb, scales="ab", ka=True, kb=True, shape=(64, 32, 64), seed=0):
    m, n, k = shape
    random = np.random.default_rng(seed)
    (a, wide_a), (b, wide_b) = operand(random, fa, (m, k), 1 if ka else 0), operand(random, fb, (k, n), 0 if kb else 1)
    sa, sb = (random.integers(124, 131, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    if "a" in scales:
        wide_a = wide_a * np.repeat(np.exp2(sa.astype(np.float32) - 127), 32, axis=1)
    if "b" in scales:
        wide_b = wide_b * np.repeat(np.exp2(sb.astype(np.float32) - 127), 32, axis=1).T
    return a, sa if "a" in scales else None, b, sb if "b" in scales else None, wide_a @ wide_b


FORMATS = ("e2m1", "e4m3", "e5m2", "bf16", "fp16")


@pytest.mark.parametrize("fb", FORMATS)
@pytest.mark.parametrize("fa", FORMATS)
def test_formats(machine, fa, fb):
    """Small whole numbers and scales near 1: every sum is exact."""
    scales = "".join(side for side, format_ in (("a", fa), ("b", fb)) if format_ not in ("bf16", "fp16")) or "ab"
    a, sa, b, sb, wanted = operands_of(fa, fb, scales)
    y = np.zeros(wanted.shape, np.float32)
    machine.launch(scaled, (1, ), a, sa, b, sb, y, 64, 32, 64, fa, fb, True, True, False, None)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("scales", ["a", "b", "ab"])
@pytest.mark.parametrize("ka, kb", [(False, True), (True, False), (False, False)])
def test_packed_along_the_other_dimension(ka, kb, scales):
    a, sa, b, sb, wanted = operands_of("e2m1", "e2m1", scales, ka, kb)
    y = np.ones(wanted.shape, np.float32)
    mimw.simulate(scaled, (1, ), a, sa, b, sb, y, 64, 32, 64, "e2m1", "e2m1", ka, kb, True, [1, 2])
    np.testing.assert_array_equal(y, wanted + 1)


def compiled(target, fa, fb, shape=(64, 64, 64), tiles=(1, 1), by=to_assembly, scales=(True, True)):
    m, n, k = shape
    types = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "bf16": "*bf16", "fp16": "*fp16"}
    signature = {"a": types[fa], "sa": "*u8", "b": types[fb], "sb": "*u8", "y": "*fp32"}
    constants = dict(M=m, N=n, K=k, FA=fa, FB=fb, KA=True, KB=True, ACC=False, TILES=list(tiles))
    for name, given in zip(("sa", "sb"), scales, strict=True):
        if not given:
            del signature[name]
            constants[name] = None
    attrs = {(place, ): [["tt.divisibility", 16]] for place in range(5)}
    return Case(scaled, signature, constants, attrs=attrs).compiled(target, by=by)


@pytest.mark.long(but=["e2m1-e4m3", "e4m3-e5m2"], everywhere=True)
@pytest.mark.parametrize("fa, fb", [("e4m3", "e5m2"), ("e2m1", "e2m1"), ("e2m1", "e4m3")])
def test_compiled_for_hopper(fa, fb):
    """The operands as bf16, a product of the warp group or of warps."""
    ptx = compiled("sm_90a", fa, fb).stage("ptx")
    assert "wgmma.mma_async" in ptx or "mma.sync.aligned" in ptx


@pytest.mark.parametrize("fa, fb, kind", [("e4m3", "e5m2", "mxf8f6f4"), ("e2m1", "e2m1", "mxf4")])
def test_compiled_for_blackwell(fa, fb, kind):
    assert f"kind::{kind}" in compiled("sm_100a", fa, fb, (128, 64, 128)).stage("ptx")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_compiled_for_amd(target):
    assembly = compiled(target, "e4m3", "e5m2", (64, 64, 128)).stage("amdgcn")
    assert ("v_mfma_scale" in assembly) == (target == "gfx950") and "v_mfma" in assembly


@pytest.mark.parametrize("fa, fb, shape, tiles, instruction, count", [
    ("e4m3", "e5m2", (128, 128, 128), (2, 2), "32x32x64", 8), ("e2m1", "e2m1", (64, 64, 128), (2, 2), "16x16x128", 4),
    ("e2m1", "e4m3", (64, 128, 256), (1, 4), "16x16x128", 16), ("e4m3", "e4m3", (32, 64, 128), (1, 4), "16x16x128", 4)])
def test_tiles_of_a_warp(fa, fb, shape, tiles, instruction, count):
    """So many instructions of a warp lie side by side, and no warp multiplies what another does where there is enough for all."""
    kernel = compiled("gfx950", fa, fb, shape, tiles)
    shape, side_by_side = instruction.replace("x", ", "), f"{tiles[0]}, {tiles[1]}"
    layout = rf"instrShape = \[{shape}\], isTransposed = true, tilesPerWarp = \[{side_by_side}\]"
    assert re.search(layout, kernel.stages["ttgir"])
    assert len(re.findall(rf"^\tv_mfma_scale_f32_{instruction}_f8f6f4", kernel.stage("amdgcn"), re.MULTILINE)) == count


@pytest.mark.parametrize("scales", [(True, False), (False, True), (False, False)])
def test_tiles_of_a_warp_without_scales(scales):
    assert "tilesPerWarp = [2, 2]" in compiled("gfx950", "e4m3", "e4m3", (64, 64, 128), (2, 2), to_ttgir, scales).stages["ttgir"]


@pytest.mark.parametrize("target, fa, shape, tiles", [
    ("gfx942", "e4m3", (128, 128, 128), (2, 2)), ("gfx950", "bf16", (128, 128, 128), (2, 2)),
    ("gfx950", "e4m3", (16, 64, 128), (2, 2)), ("gfx950", "e4m3", (128, 128, 128), (3, 1)),
    ("gfx950", "e4m3", (64, 64, 64), (4, 4))])
def test_a_schedule_that_cannot_be_followed_is_a_hint(target, fa, shape, tiles):
    assert "tilesPerWarp" not in compiled(target, fa, "e4m3", shape, tiles, to_ttgir).stages["ttgir"]


def test_a_binary_of_tiles():
    kernel = compiled("gfx950", "e2m1", "e4m3", (64, 64, 128), (2, 2), compile_kernel)
    assert kernel.stage("hsaco")[:4] == b"\x7fELF"


@mimw.jit
def in_a_layout(a, sa, b, sb, y, LAYOUT: tl.constexpr, K: tl.constexpr):
    rows, depth, blocks = tl.arange(0, 64), tl.arange(0, K), tl.arange(0, K // 32)
    tiles = tlx.local_alloc((64, K), tlx.dtype_of(a), 1)
    tlx.local_store(tiles[0], tl.load(a + rows[:, None] * K + depth[None, :]))
    x = tlx.local_load(tiles[0], layout=tlx.dot_operand_layout(0, LAYOUT, 16))
    w = tl.load(b + depth[:, None] + K * rows[None, :])
    at = rows[:, None] * (K // 32) + blocks[None, :]
    acc = tlx.dot_scaled(x, tl.load(sa + at), "e4m3", w, tl.load(sb + at), "e4m3", tlx.zeros((64, 64), tl.float32, layout=LAYOUT))
    tl.store(y + rows[:, None] * 64 + rows[None, :], acc)


def pinned(instruction, by, target="gfx950"):
    layout = tlx.amd_mfma_layout(4 if target == "gfx950" else 3, instruction, True, [2, 2])
    types = {"a": "*fp8e4nv", "sa": "*u8", "b": "*fp8e4nv", "sb": "*u8", "y": "*fp32"}
    return by(in_a_layout, types, {"LAYOUT": layout, "K": 128}, target, {"num_warps": 4},
              attrs={(place, ): [["tt.divisibility", 16]] for place in range(5)})


@pytest.mark.parametrize("instruction", [[16, 16, 128], [32, 32, 64]])
def test_in_a_layout_of_the_author(instruction):
    text = pinned(instruction, to_assembly).stage("amdgcn")
    assert re.search(rf"v_mfma_scale_f32_{'x'.join(map(str, instruction))}_f8f6f4", text) and "ds_read_b128" in text


@mimw.jit
def without_scales(a, sa, b, y, LAYOUT: tl.constexpr, ONE: tl.constexpr):
    rows, depth = tl.arange(0, 64), tl.arange(0, 128)
    x = tl.load(a + rows[:, None] * 128 + depth[None, :])
    w = tl.load(b + depth[:, None] + 128 * rows[None, :])
    scales = tl.load(sa + rows[:, None] * 4 + tl.arange(0, 4)[None, :]) if ONE else None
    acc = tl.dot_scaled(x, scales, "e4m3", w, None, "e5m2", tlx.zeros((64, 64), tl.float32, layout=LAYOUT))
    tl.store(y + rows[:, None] * 64 + rows[None, :], acc)


def unscaled(by, instruction, one=False):
    types = {"a": "*fp8e4nv", "sa": "*u8", "b": "*fp8e5", "y": "*fp32"}
    layout = tlx.amd_mfma_layout(4, instruction, True, [2, 2])
    return by(without_scales, types, {"LAYOUT": layout, "ONE": one}, "gfx950", {"num_warps": 4})


@pytest.mark.parametrize("instruction", [[16, 16, 128], [32, 32, 64]])
def test_in_a_layout_of_the_author_without_scales(instruction):
    """The instruction that takes none, at the rate of fp8 on gfx950."""
    text = unscaled(to_assembly, instruction).stage("amdgcn")
    assert re.search(rf"v_mfma_f32_{'x'.join(map(str, instruction))}_f8f6f4", text) and "v_mfma_scale" not in text


def test_in_a_layout_of_the_author_with_one_scale():
    with pytest.raises(Exception, match="give both scales .127 is 1. or none"):
        unscaled(to_ttgir, [16, 16, 128], True)


@pytest.mark.parametrize("instruction, target", [([16, 16, 32], "gfx950"), ([16, 16, 128], "gfx942")])
def test_a_layout_of_no_scaled_instruction(instruction, target):
    with pytest.raises(Exception, match="no matrix core instruction multiplies these blocks with scales"):
        pinned(instruction, to_ttgir, target)


def test_an_unknown_format():
    a, sa, b, sb, wanted = operands_of("e4m3", "e4m3")
    with pytest.raises(Exception, match="e3m2"):
        mimw.simulate(scaled, (1, ), a, sa, b, sb, wanted, 64, 32, 64, "e3m2", "e4m3", True, True, False, None)


@mimw.jit
def in_task(a, sa, b, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=4):
            x = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
            w = tl.load(b + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])
            s = tl.load(sa + tl.arange(0, M)[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :])
            acc = tlx.dot_scaled(x, s, "e4m3", w, None, "e5m2")
            tl.store(y + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)


@pytest.mark.parametrize("target, instruction", [("sm_90a", "wgmma.mma_async"), ("sm_100a", "tcgen05.mma")])
def test_in_a_task(target, instruction):
    case = Case(in_task, {"a": "*fp8e4nv", "sa": "*u8", "b": "*fp8e5", "y": "*fp32"}, {"M": 128, "N": 64, "K": 64})
    assert instruction in case.compiled(target).stage("ptx")
    a, sa, b, _, wanted = operands_of("e4m3", "e5m2", "a", shape=(128, 64, 64))
    y = np.zeros((128, 64), np.float32)
    mimw.simulate(in_task, (1, ), a, sa, b, y, 128, 64, 64, target=target)
    np.testing.assert_array_equal(y, wanted)
