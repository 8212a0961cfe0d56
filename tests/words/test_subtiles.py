"""Tiles cut into tiles side by side, and packed arithmetic on pairs."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.testing.machines import Gpu
from mimw.tlx import inline_ptx_lib, subtile_ops
from tests.compiling import to_assembly
from tests.lowering.harness import Case


@mimw.jit
def cut(x, y, z, N: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tile = tl.load(x + at)
    pieces = subtile_ops._split_n_2D(tile, N)
    narrow = tl.arange(0, 16)[:, None] * (COLS // N) + tl.arange(0, COLS // N)[None, :]
    for i in tl.static_range(N):
        tl.store(y + i * 16 * (COLS // N) + narrow, pieces[i] + i)
    tl.store(z + at, subtile_ops._join_n_2D(pieces))


@pytest.mark.parametrize("pieces", [1, 2, 4, 8])
def test_side_by_side(machine, pieces):
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    y, z = np.zeros((pieces, 16, 64 // pieces), np.float32), np.zeros_like(x)
    machine.launch(cut, (1, ), x, y, z, pieces, 64)
    wanted = np.stack(np.split(x, pieces, axis=1)) + np.arange(pieces, dtype=np.float32)[:, None, None]
    assert (y == wanted).all() and (z == x).all()


def test_not_a_power_of_two():
    x = np.zeros((16, 64), np.float32)
    with pytest.raises(Exception, match="SPLIT_FACTOR must be a power of two"):
        mimw.simulate(cut, (1, ), x, x.copy(), x.copy(), 3, 64)


@mimw.jit
def pairs(a, b, c, y):
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    x, row = tl.load(a + at), tl.load(b + tl.arange(0, 32))[:, None]
    product = inline_ptx_lib._mul_f32x2(x, row)
    tl.store(y + at, product)
    tl.store(y + 2048 + at, inline_ptx_lib._add_f32x2(product, tl.load(c + at)))
    tl.store(y + 4096 + at, inline_ptx_lib._sub_f32x2(row, x))
    tl.store(y + 6144 + at, inline_ptx_lib._fma_f32x2(x, row, 0.5))


def numbers():
    random = np.random.default_rng(4)
    return (random.standard_normal(shape).astype(np.float32) for shape in ((32, 64), (32, 1), (32, 64)))


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_pairs_are_arithmetic(target):
    a, b, c = numbers()
    y = np.zeros((4, 32, 64), np.float32)
    mimw.simulate(pairs, (1, ), a, b, c, y, target=target)
    np.testing.assert_array_equal(y[:3], [a * b, a * b + c, b - a])
    np.testing.assert_allclose(y[3], a * b + np.float32(0.5), rtol=1e-6, atol=1e-7)


@pytest.mark.gpu
def test_pairs_on_the_gpu():
    a, b, c = numbers()
    y = np.zeros((4, 32, 64), np.float32)
    Gpu().launch(pairs, (1, ), a, b, c, y)
    np.testing.assert_array_equal(y[[0, 2]], [a * b, b - a])
    np.testing.assert_allclose(y[[1, 3]], [a * b + c, a * b + np.float32(0.5)], rtol=1e-6, atol=1e-7)


def test_one_instruction_for_two(sass_has):
    case = Case(pairs, {name: "*fp32" for name in "abcy"})
    compiled = case.compiled("sm_100a")
    found = re.findall(r"(\w+)\.rn\.f32x2", compiled.stage("ptx"))
    assert {name: found.count(name) for name in set(found)} == dict.fromkeys(("mul", "add", "sub", "fma"), 2048 // 128 // 2)
    sass_has(compiled, "FMUL2", "FFMA2")
    assert "f32x2" not in case.compiled("sm_90a").stage("ptx")


@mimw.jit
def of_halves(x):
    tl.store(x, inline_ptx_lib._mul_f32x2(tl.load(x), 2.0))


def test_pairs_are_of_fp32():
    with pytest.raises(Exception, match="_mul_f32x2 takes fp32"):
        mimw.simulate(of_halves, (1, ), np.zeros(1, np.float16))


@mimw.jit
def two_sums(x, y, z, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    tile = tl.load(x + rows[:, None] * COLS + tl.arange(0, COLS)[None, :])
    sums, squares = tl.reduce((tile, tile * tile), 1, inline_ptx_lib._reduce_fadd2)
    tl.store(y + rows, sums)
    tl.store(z + rows, squares)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_sums_of_two_tiles(target):
    x = np.arange(16 * 32, dtype=np.float32).reshape(16, 32) % 7
    y, z = np.zeros(16, np.float32), np.zeros(16, np.float32)
    mimw.simulate(two_sums, (1, ), x, y, z, 16, 32, target=target)
    assert (y == x.sum(1)).all() and (z == (x * x).sum(1)).all()


@pytest.mark.gpu
def test_sums_of_two_tiles_on_the_gpu():
    x = np.arange(16 * 32, dtype=np.float32).reshape(16, 32) % 7
    y, z = np.zeros(16, np.float32), np.zeros(16, np.float32)
    Gpu().launch(two_sums, (1, ), x, y, z, 16, 32)
    assert (y == x.sum(1)).all() and (z == (x * x).sum(1)).all()


@mimw.jit
def hyperbolic(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, inline_ptx_lib.tanh_approx_fp32(tl.load(x + at)))
    tl.store(y + N, inline_ptx_lib.tanh_approx_fp32(tl.load(x)))


def test_tanh(machine):
    x, y = np.linspace(-8, 8, 128, dtype=np.float32), np.zeros(129, np.float32)
    machine.launch(hyperbolic, (1, ), x, y, 128)
    np.testing.assert_allclose(y, np.tanh(np.append(x, x[0])), rtol=2.0**-10.9)


def test_one_instruction_for_two_sums_and_for_tanh():
    case = Case(two_sums, {name: "*fp32" for name in "xyz"}, {"ROWS": 16, "COLS": 32})
    assert "add.rn.f32x2" in case.compiled("sm_100a", by=to_assembly).stage("ptx")
    assert "f32x2" not in case.compiled("sm_90a", by=to_assembly).stage("ptx")
    case = Case(hyperbolic, {"x": "*fp32", "y": "*fp32"}, {"N": 128})
    assert case.compiled("sm_100a", by=to_assembly).stage("ptx").count("tanh.approx.f32") == 2


@mimw.jit
def halves(x, y):
    tl.store(y, inline_ptx_lib.tanh_approx_fp32(tl.load(x)))


def test_tanh_is_of_fp32_and_of_nvidia():
    with pytest.raises(Exception, match="tanh_approx_fp32 takes fp32"):
        mimw.simulate(halves, (1, ), np.zeros(1, np.float16), np.zeros(1, np.float16))
    with pytest.raises(Exception, match="an instruction of NVIDIA's chips"):
        mimw.simulate(halves, (1, ), np.zeros(1, np.float32), np.zeros(1, np.float32), target="gfx950")


@mimw.jit
def _added(a, b):
    return tl.inline_asm_elementwise("add.f32 $0, $1, $2;", "=r,r,r", [a, b], tl.float32, True, 1)


@mimw.jit
def summed_by_assembly(x, y, N: tl.constexpr):
    tl.store(y, tl.reduce(tl.load(x + tl.arange(0, N)), 0, _added))


def test_assembly_in_a_reduction(machine):
    x, y = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    machine.launch(summed_by_assembly, (1, ), x, y, 64)
    assert y[0] == 64 * 63 / 2
