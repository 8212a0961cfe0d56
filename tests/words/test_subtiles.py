"""Tiles cut into tiles side by side, and packed arithmetic on pairs."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.testing.machines import Gpu
from mimw.tlx import inline_ptx_lib, subtile_ops
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
