"""`tlx.dot_scaled`: products in microscaling formats, on the simulator exactly, and the instructions that they become."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly
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


def compiled(target, fa, fb, shape=(64, 64, 64)):
    m, n, k = shape
    types = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "bf16": "*bf16", "fp16": "*fp16"}
    signature = {"a": types[fa], "sa": "*u8", "b": types[fb], "sb": "*u8", "y": "*fp32"}
    constants = dict(M=m, N=n, K=k, FA=fa, FB=fb, KA=True, KB=True, ACC=False, TILES=[1, 1])
    attrs = {(place, ): [["tt.divisibility", 16]] for place in range(5)}
    return Case(scaled, signature, constants, attrs=attrs).compiled(target, by=to_assembly)


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
