"""Reductions of floats over a warp: which elements they take together, and the instructions that they are."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.lowering.harness import Case

OPS = {"max": np.fmax, "min": np.fmin, "abs_max": np.fmax, "abs_min": np.fmin}


@mimw.jit
def reduces(x, y, SIZE: tl.constexpr, OP: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(y + at, tlx.warp_redux(tl.load(x + at), OP))


def numbers(size):
    x = np.random.default_rng(5).standard_normal(size).astype(np.float32)
    x[::7], x[3::11] = np.nan, np.inf
    return x


@pytest.mark.long(but=["16-1-abs_max", "256-4-abs_min", "32-1-min", "512-4-min", "64-4-max"], everywhere=True)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("size, warps", [(32, 1), (64, 4), (256, 4), (512, 4), (16, 1)])
def test_each_register_of_a_warp(op, size, warps):
    x, y = numbers(size), np.zeros(size, np.float32)
    mimw.simulate(reduces, (1, ), x, y, size, op, num_warps=warps, target="sm_100a")
    groups = (np.abs(x) if "abs" in op else x).reshape(-1, min(32, size))
    wanted = OPS[op].reduce(groups, axis=1, keepdims=True)
    np.testing.assert_array_equal(y.reshape(groups.shape), np.broadcast_to(wanted, groups.shape))


@pytest.mark.parametrize("values, op, wanted", [([0.0, -0.0], "max", 0.0), ([0.0, -0.0], "min", -0.0), ([-0.0, 0.0], "min", -0.0),
                                                ([np.nan, np.nan], "max", np.nan), ([np.nan, -2.0], "abs_min", 2.0)])
def test_zeros_and_nan(values, op, wanted):
    x, y = np.tile(np.array(values, np.float32), 16), np.zeros(32, np.float32)
    mimw.simulate(reduces, (1, ), x, y, 32, op, num_warps=1, target="sm_100a")
    np.testing.assert_array_equal(y, np.float32(wanted))
    assert (np.signbit(y) == np.signbit(np.float32(wanted))).all()


@mimw.jit
def pinned(x, y, LAYOUT: tl.constexpr):
    at = tl.arange(0, 128)[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(y + at, tlx.warp_redux(tlx.require_layout(tl.load(x + at), LAYOUT), "max"))


@pytest.mark.parametrize("shape, stride, together", [
    (((32, 4), (4, )), ((4, 128), (1, )), (4, 32, 4)),              # a lane a row, as tensor memory lays a tile: rows of one column
    (((4, 8, 4), (4, )), ((1, 4, 32), (128, )), (16, 32, 1)),       # the lanes over 32 elements one after the other
])
def test_the_layout_says_which_elements(shape, stride, together):
    x, y = numbers(512).reshape(128, 4), np.zeros((128, 4), np.float32)
    mimw.simulate(pinned, (1, ), x, y, tlx.layout(shape=shape, stride=stride), num_warps=4, target="sm_100a")
    wanted = np.fmax.reduce(x.reshape(together), axis=1, keepdims=True)
    np.testing.assert_array_equal(y.reshape(-1), np.broadcast_to(wanted, together).reshape(-1))


@mimw.jit
def one_number(x, y, OP: tl.constexpr):
    tl.store(y, tlx.warp_redux(tl.load(x), OP))
    tl.store(y + 1, tlx.warp_redux(tlx.thread_id(0).to(tl.float32), OP))


def test_a_number():
    y = np.zeros(2, np.float32)
    mimw.simulate(one_number, (1, ), np.array([-3], np.float32), y, "abs_max", num_warps=4, target="sm_100a")
    assert y.tolist() == [3, 31]


@pytest.mark.parametrize("op, name", [("max", "max"), ("min", "min"), ("abs_max", "max.abs"), ("abs_min", "min.abs")])
def test_an_instruction_a_register(op, name, sass_has):
    compiled = Case(reduces, {"x": "*fp32", "y": "*fp32"}, {"SIZE": 512, "OP": op}).compiled("sm_100a")
    assert re.findall(r"redux\.sync\.([\w.]+)\.f32", compiled.stage("ptx")) == [name] * 4
    sass_has(compiled, ("REDUX", 4))


@mimw.jit
def reduces_in_a_task(x, y):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1):
            at = tl.arange(0, 32)
            tl.store(y + at, tlx.warp_redux(tl.load(x + at), "abs_max"))


def test_in_a_task(sass_has):
    x, y = numbers(32), np.zeros(32, np.float32)
    mimw.simulate(reduces_in_a_task, (1, ), x, y, target="sm_100a")
    assert (y == np.nanmax(np.abs(x))).all()
    compiled = Case(reduces_in_a_task, {"x": "*fp32", "y": "*fp32"}).compiled("sm_100a")
    assert compiled.stage("ptx").count("redux.sync.max.abs.f32") == 1
    sass_has(compiled, ("REDUX", 1))


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_other_chips(target):
    with pytest.raises(Exception, match="warp_redux is only available on Blackwell chips"):
        mimw.simulate(reduces, (1, ), numbers(32), np.zeros(32, np.float32), 32, "max", target=target)
