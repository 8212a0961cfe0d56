"""Whole numbers that a launch cannot pass, and divisions that have no result."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.errors import DivisionByZero, SimulatorMisuse


@mimw.jit
def keep(x, n):
    tl.store(x, n)


@mimw.jit
def keep_int32(x, n: tl.int32):
    tl.store(x, n)


@mimw.jit
def keep_uint8(x, n: tl.uint8):
    tl.store(x, n)


@mimw.jit
def divide(x, a, b, REMAINDER: tl.constexpr):
    tl.store(x, a % b if REMAINDER else a // b)


@mimw.jit
def divide_tile(x, b):
    at = tl.arange(0, 8)
    tl.store(x + at, (at + 8) // b)


@mimw.jit
def divide_loaded(x, y):
    at = tl.arange(0, 8)
    inside = at < 4
    by = tl.load(y + at, inside, other=0)
    tl.store(x + at, (at + 8) // by, inside)


@mimw.jit
def divide_by_constant(x, B: tl.constexpr):
    tl.store(x, 4 // B)


def longs():
    return np.zeros(8, np.int64)


@pytest.mark.parametrize("kernel, value, bits", [
    (keep, 1 << 64, 64), (keep, 1 << 70, 64), (keep, -(1 << 63) - 1, 64), (keep_int32, 1 << 31, 32), (keep_int32, -(1 << 40), 32),
    (keep_uint8, 256, 8), (keep_uint8, -1, 8)])
def test_more_bits_than_the_kernel_gets(kernel, value, bits):
    with pytest.raises(SimulatorMisuse, match=f"argument 'n' is {value}, which {bits} bits do not hold"):
        mimw.simulate(kernel, (1, ), longs(), value)


@pytest.mark.parametrize("kernel, value", [
    (keep, (1 << 64) - 1), (keep, 1 << 63), (keep, -(1 << 63)), (keep, np.uint64(1 << 63)), (keep_int32, (1 << 31) - 1),
    (keep_int32, -(1 << 31)), (keep_uint8, 255)])
def test_as_many_bits_as_the_kernel_gets(kernel, value):
    out = longs()
    mimw.simulate(kernel, (1, ), out, value)
    assert out.view(np.uint64)[0] == int(value) % (1 << 64)


def test_a_fraction_for_a_whole_number():
    with pytest.raises(SimulatorMisuse, match="'n' is declared i32 and was given 2.5"):
        mimw.simulate(keep_int32, (1, ), longs(), 2.5)


@pytest.mark.parametrize("a", [5, -5, 1 << 40])
@pytest.mark.parametrize("remainder, text", [(False, "divides"), (True, "takes the remainder of")])
def test_a_number_divided_by_zero(a, remainder, text):
    with pytest.raises(DivisionByZero, match=f"{text} {a} by .*undefined on every GPU") as caught:
        mimw.simulate(divide, (1, ), longs(), a, 0, REMAINDER=remainder)
    assert "a // b" in str(caught.value) and "tl.where" in str(caught.value)
    out = longs()
    mimw.simulate(divide, (1, ), out, a, 3, REMAINDER=remainder)
    assert out[0] == (np.fmod(a, 3) if remainder else int(a / 3))


def test_a_tile_divided_by_zero():
    with pytest.raises(DivisionByZero, match="divides a tile of 8 elements by 0"):
        mimw.simulate(divide_tile, (1, ), longs(), 0)
    out = longs()
    mimw.simulate(divide_tile, (1, ), out, 4)
    assert out.tolist() == [value // 4 for value in range(8, 16)]


@pytest.mark.parametrize("by", [2, 0])
def test_zeros_among_the_elements_may_be_lanes_that_a_mask_takes_out(by):
    out = longs()
    mimw.simulate(divide_loaded, (1, ), out, np.full(8, by, np.int64))
    assert not by or out.tolist() == [4, 4, 5, 5, 0, 0, 0, 0]


def test_a_constant_of_zero_is_known_when_compiling():
    with pytest.raises(Exception, match="division or modulo by zero") as caught:
        mimw.simulate(divide_by_constant, (1, ), longs(), B=0)
    assert "4 // B" in str(caught.value)


def test_predictions_divide_what_they_did_not_load():
    """There arrays hold nothing, and zeros decide nothing."""
    assert mimw.predict(divide_loaded, (1, ), longs(), longs()).microseconds > 0
