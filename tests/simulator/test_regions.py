"""Reductions, scans and element-wise maps: their regions run on whole slices."""

import numpy as np
import pytest

from .programs import FP32, I32, Sketch


def reduced(data, axis, body):
    k = Sketch()
    x, y = k.pointer(FP32, "x"), k.pointer(FP32, "y")
    (result, ) = k.combine("reduce", [k.load(x, data.shape)], axis, lambda a, b: (body(k, a, b), ))
    k.store(y, result)
    out = np.zeros(getattr(result.type, "shape", (1, )), np.float32)
    run = k.run(data, out)
    return out, run


@pytest.mark.parametrize("axis", [0, 1])
def test_a_sum_takes_log_n_steps(axis):
    data = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    out, run = reduced(data, axis, lambda k, a, b: k.op("fadd", a, b))
    np.testing.assert_allclose(out, data.sum(axis), rtol=1e-5)
    assert run.counts["fadd"] == {0: 3, 1: 4}[axis]


def test_a_reduction_to_a_scalar():
    out, _ = reduced(np.arange(16, dtype=np.float32), 0, lambda k, a, b: k.op("maxnumf", a, b))
    assert out.tolist() == [15.0]


def test_order_is_kept_for_what_is_only_associative():
    """`first of the two` gives the first element, `second of the two` the last one."""
    data = np.arange(8, dtype=np.float32)
    assert reduced(data, 0, lambda k, a, b: a)[0].tolist() == [0.0]
    assert reduced(data, 0, lambda k, a, b: b)[0].tolist() == [7.0]


def test_argmax_with_two_values():
    k = Sketch()
    x, y = k.pointer(FP32, "x"), k.pointer(I32, "y")

    def larger(value, index, value2, index2):
        first = k.op("or", k.op("fcmpOGT", value, value2),
                     k.op("and", k.op("fcmpOEQ", value, value2), k.op("icmpSLT", index, index2)))
        return k.op("select", first, value, value2), k.op("select", first, index, index2)

    _, index = k.combine("reduce", [k.load(x, (8, )), k.arange(8)], 0, larger)
    k.store(y, index)
    out = np.zeros(1, np.int32)
    k.run(np.array([3, 9, 1, 9, 2, 0, 9, 4], np.float32), out)
    assert out.tolist() == [1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative_sums(reverse, axis):
    data = np.arange(32, dtype=np.int32).reshape(4, 8)
    k = Sketch()
    x, y = k.pointer(I32, "x"), k.pointer(I32, "y")
    (result, ) = k.combine("scan", [k.load(x, data.shape)], axis, lambda a, b: (k.op("add", a, b), ), reverse)
    k.store(y, result)
    out = np.zeros(data.shape, np.int32)
    k.run(data, out)
    expected = np.flip(np.flip(data, axis).cumsum(axis), axis) if reverse else data.cumsum(axis)
    assert out.tolist() == expected.tolist()


def mapped(body, data, pack=1):
    k = Sketch()
    x, y = k.pointer(FP32, "x"), k.pointer(FP32, "y")
    op = k.regions("map_elementwise", (k.load(x, data.shape), ), (FP32, ), pack)
    k.block(op, lambda *args: body(k, *args), [FP32] * pack)
    k.store(y, op.results[0])
    out = np.zeros(data.shape, np.float32)
    k.run(data, out)
    return out.tolist()


def test_map_with_control_flow_runs_once_per_element():
    def body(k, a):
        negative = k.op("fcmpOLT", a, k.const(0.0, FP32))
        return k.when(negative, lambda: (k.op("fneg", a), ), lambda: (k.op("fadd", a, a), ), [FP32])

    assert mapped(body, np.array([[-1, 2], [3, -4]], np.float32)) == [[1, 4], [6, 4]]


def test_map_of_pairs():
    def swap(k, first, second):
        return second, first

    assert mapped(swap, np.arange(6, dtype=np.float32), pack=2) == [1, 0, 3, 2, 5, 4]
