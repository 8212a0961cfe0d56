"""Dots: precision, asynchronous groups, and what may be done with their results."""

import ml_dtypes
import numpy as np
import pytest

from mimw.errors import AsyncDotReadEarly, UnwrittenRead
from mimw.ir import Scalar, Tensor

from .programs import BF16, FP32, I8, I32, Sketch, line_of

bf16 = ml_dtypes.bfloat16


def dot(a, b, element, precision, out=FP32):
    k = Sketch()
    x, y, z = k.pointer(element, "x"), k.pointer(element, "y"), k.pointer(out, "z")
    zero = k.op("constant", 0, Tensor(out, (a.shape[0], b.shape[1])))
    k.store(z, k.op("dot", k.load(x, a.shape), k.load(y, b.shape), zero, precision, 0))
    result = np.zeros((a.shape[0], b.shape[1]), {FP32: np.float32, I32: np.int32}[out])
    k.run(a, b, result)
    return result


@pytest.mark.parametrize("precision, first", [("tf32", 1.0), ("ieee", 1 + 2**-12), ("tf32x3", 1 + 2**-12)])
def test_only_tf32_drops_bits_of_fp32(precision, first):
    a, b = np.full((16, 16), 1 + 2**-12, np.float32), np.eye(16, dtype=np.float32)
    assert dot(a, b, FP32, precision)[0, 0] == np.float32(first)


def test_bf16_accumulates_in_fp32():
    a, b = np.full((16, 512), 1.0, bf16), np.full((512, 16), 1 + 2**-7, bf16)
    assert dot(a, b, BF16, None)[3, 5] == 512 * (1 + 2**-7)


def test_int8_accumulates_in_int32():
    a, b = np.full((16, 1024), -128, np.int8), np.full((1024, 16), -128, np.int8)
    assert dot(a, b, I8, None, I32)[0, 0] == 1024 * 128 * 128


def test_fp8():
    fp8 = ml_dtypes.float8_e4m3fn
    a, b = np.full((16, 32), 1.125, fp8), np.full((32, 16), 0.5, fp8)
    assert dot(a, b, Scalar("fp8e4nv"), None)[0, 0] == 32 * 1.125 * 0.5


class Gemm:
    """c = a @ b by two asynchronous dots over halves of K; the test says what happens in between."""

    def __init__(self):
        k = self.k = Sketch()
        a, b, self.c = k.pointer(BF16, "a"), k.pointer(BF16, "b"), k.pointer(FP32, "c")
        self.type = Tensor(FP32, (64, 16))
        self.a_tiles, self.b_tiles = k.buffers(BF16, (64, 16), 2, "a_tiles"), k.buffers(BF16, (16, 16), 2, "b_tiles")
        for half in (0, 1):
            for tiles, pointer, rows in ((self.a_tiles, a, 64), (self.b_tiles, b, 16)):
                rows_of = k.op("addptr", pointer, k.const(rows * 16 * half))
                k.op("local_store", self.tile(tiles, half), k.load(rows_of, (rows, 16)))

    def tile(self, tiles, index):
        return self.k.op("buffer_index", tiles, index)

    def dot(self, half, acc=None, **attrs):
        a, b = self.tile(self.a_tiles, half), self.tile(self.b_tiles, half)
        return self.k.op("async_dot", a, b, acc, None, 0, type=self.type, **attrs)

    def wait(self, pending, value):
        return self.k.op("async_dot_wait", pending, value)

    def run(self, seed=0):
        rng = np.random.default_rng(0)
        a, b = rng.integers(-4, 4, (2, 64, 16)).astype(bf16), rng.integers(-4, 4, (2, 16, 16)).astype(bf16)
        out = np.zeros((64, 16), np.float32)
        self.k.run(a, b, out, seed=seed)
        halves = [a[i].astype(np.float32) @ b[i].astype(np.float32) for i in (0, 1)]
        return out, halves


@pytest.mark.parametrize("seed", range(4))
def test_chained_dots_need_one_wait(seed):
    g = Gemm()
    g.k.store(g.c, g.wait(0, g.dot(1, g.dot(0))))
    out, halves = g.run(seed)
    assert out.tolist() == (halves[0] + halves[1]).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_the_older_of_two_may_be_read_while_the_newer_runs(seed):
    g = Gemm()
    first = g.dot(0)
    second = g.dot(1)
    first = g.wait(1, first)
    g.k.store(g.c, first)
    g.wait(0, second)
    out, halves = g.run(seed)
    assert out.tolist() == halves[0].tolist()


def test_a_tile_that_lends_its_registers_is_not_added():
    g = Gemm()
    first = g.wait(0, g.dot(0))
    g.k.store(g.c, g.wait(0, g.dot(1, first, fresh=True)))
    out, halves = g.run()
    assert out.tolist() == halves[1].tolist()


def test_a_wait_that_leaves_the_group_running_gives_nothing_to_read():
    """On seed 0 the dot runs until its wait; other seeds may let it end before."""
    g = Gemm()
    g.k.store(g.c, g.wait(1, g.dot(0)))
    with pytest.raises(AsyncDotReadEarly):
        g.run(seed=0)


@pytest.mark.parametrize("seed", range(4))
def test_reading_without_a_wait_names_both_lines(seed):
    g = Gemm()
    acc = g.dot(0)
    g.k.op("fneg", acc)
    with pytest.raises(AsyncDotReadEarly, match="before a wait has finished it") as caught:
        g.run(seed)
    assert line_of(caught.value, 0) == 'g.k.op("fneg", acc)'
    assert 'k.op("async_dot"' in line_of(caught.value, 1) or "g.dot(0)" in line_of(caught.value, 1)


def test_a_running_dot_travels_through_loops_and_conditions():
    g = Gemm()
    k = g.k

    def body(i, acc):
        acc = g.wait(1, g.dot(0, acc))
        (acc, ) = k.when(k.op("icmpEQ", i, k.const(1)), lambda: (acc, ), lambda: (acc, ), [g.type])
        return (acc, )

    (acc, ) = k.loop(3, body, [k.op("constant", 0.0, g.type)])
    k.store(g.c, g.wait(0, acc))
    out, halves = g.run()
    assert out.tolist() == (3 * halves[0]).tolist()


@pytest.mark.parametrize("waits, right", [(True, True), (False, False)])
def test_operands_are_read_when_the_dot_completes(waits, right):
    """Seed 0 completes dots as late as it can: an operand overwritten before the wait gives wrong numbers."""
    g = Gemm()
    acc = g.dot(0)
    acc = g.wait(0, acc) if waits else acc
    g.k.op("local_store", g.tile(g.b_tiles, 0), g.k.op("constant", 0.0, Tensor(BF16, (16, 16))))
    g.k.store(g.c, acc if waits else g.wait(0, acc))
    out, halves = g.run()
    assert (out.tolist() == halves[0].tolist()) == right
    assert waits or not out.any()


def test_an_operand_from_registers_and_a_transposed_one():
    g = Gemm()
    k = g.k
    left = k.op("local_load", g.tile(g.a_tiles, 1), None)
    right = k.op("buffer_trans", g.tile(g.b_tiles, 0), (1, 0))
    k.store(g.c, g.wait(0, k.op("async_dot", left, right, None, None, 0, type=g.type)))
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 4, (2, 64, 16)).astype(bf16), rng.integers(-4, 4, (2, 16, 16)).astype(bf16)
    out, _ = g.run()
    assert out.tolist() == (a[1].astype(np.float32) @ b[0].astype(np.float32).T).tolist()


def test_operands_must_have_been_written():
    k = Sketch()
    a, b = k.buffers(BF16, (64, 16), 1, "a_tiles"), k.buffers(BF16, (16, 16), 1, "b_tiles")
    a, b = k.op("buffer_index", a, 0), k.op("buffer_index", b, 0)
    k.op("async_dot", a, b, None, None, 0, type=Tensor(FP32, (64, 16)))
    with pytest.raises(UnwrittenRead, match=r"async_dot reads 'a_tiles'\[0\]"):
        k.run()
