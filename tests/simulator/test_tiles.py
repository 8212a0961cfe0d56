"""Tile arithmetic: what Triton's numpy builder gets wrong is right here."""

import ml_dtypes
import numpy as np
import pytest

from mimw.compiler.triton_port.interpreter import TileBuilder
from mimw.errors import OutOfBounds, SimulatorMisuse
from mimw.ir import Scalar
from mimw.simulator import HANDLERS
from mimw.simulator.words.tiles import tile_op

from .programs import BF16, FP16, FP32, I1, I8, I32, I64, Sketch, Tensor, line_of

bf16 = ml_dtypes.bfloat16
FP8 = Scalar("fp8e4nv")


def test_the_builder_has_every_method_that_is_passed_on():
    passed_on = [name for name, handler in HANDLERS.items() if handler.run is tile_op]
    assert [name for name in passed_on if not hasattr(TileBuilder, f"create_{name}")] == []
    assert len(passed_on) > 80


def unary(name, element, data, *rest, out=None):
    """The op on a tile of `data`; `out` is the result's element."""
    k = Sketch()
    x, y = k.pointer(element, "x"), k.pointer(out or element, "y")
    rest = tuple(Tensor(r, data.shape) if isinstance(r, Scalar) else r for r in rest)
    k.store(y, k.op(name, k.load(x, data.shape), *rest))
    result = np.zeros(data.shape, DTYPES[out or element])
    k.run(data, result)
    return result


def binary(name, element, lhs, rhs, out=None):
    k = Sketch()
    x, y, z = k.pointer(element, "x"), k.pointer(element, "y"), k.pointer(out or element, "z")
    k.store(z, k.op(name, k.load(x, lhs.shape), k.load(y, rhs.shape)))
    result = np.zeros(lhs.shape, DTYPES[out or element])
    k.run(lhs, rhs, result)
    return result


DTYPES = {I8: np.int8, I32: np.int32, I64: np.int64, FP16: np.float16, BF16: bf16, FP32: np.float32, I1: bool,
          FP8: ml_dtypes.float8_e4m3fn}


@pytest.mark.parametrize("op, expected", [
    ("udiv", 0x7FFFFFFF), ("sdiv", 0), ("urem", 1), ("srem", -1), ("lshr", 0x3FFFFFFF), ("ashr", -1), ("minui", 2),
    ("minsi", -1), ("maxui", -1), ("maxsi", 2), ("umulhi", 1), ("add", 1), ("mul", -2),
])
def test_the_op_says_whether_integers_have_a_sign(op, expected):
    minus_one, two = np.full(4, -1, np.int32), np.full(4, 2, np.int32)
    assert binary(op, I32, minus_one, two).tolist() == [expected] * 4


@pytest.mark.parametrize("op, expected", [("icmpULT", False), ("icmpSLT", True), ("icmpUGE", True), ("icmpSGE", False)])
def test_comparisons_by_sign(op, expected):
    assert binary(op, I32, np.full(2, -1, np.int32), np.full(2, 2, np.int32), out=I1).tolist() == [expected] * 2


@pytest.mark.parametrize("op, expected", [
    ("fcmpOLT", [True, False]), ("fcmpULT", [True, True]), ("fcmpONE", [True, False]), ("fcmpUNE", [True, True]),
    ("fcmpOEQ", [False, False]), ("fcmpUEQ", [False, True])])
def test_comparisons_know_nan(op, expected):
    lhs, rhs = np.array([1, np.nan], np.float32), np.array([2, 2], np.float32)
    assert binary(op, FP32, lhs, rhs, out=I1).tolist() == expected


@pytest.mark.parametrize("signed, expected", [(True, [-1, 5]), (False, [255, 5])])
def test_integers_widen_by_sign(signed, expected):
    assert unary("int_cast", I8, np.array([-1, 5], np.int8), I32, signed, out=I32).tolist() == expected


def test_integers_to_floats_by_sign():
    data = np.array([-1, 3], np.int32)
    assert unary("si_to_fp", I32, data, FP32, out=FP32).tolist() == [-1.0, 3.0]
    assert unary("ui_to_fp", I32, data, FP32, out=FP32).tolist() == [4294967296.0, 3.0]


def test_floats_to_integers_saturate():
    data = np.array([3.9, -3.9, 1e20, -1e20, np.nan], np.float32)
    assert unary("fp_to_si", FP32, data, I32, out=I32).tolist() == [3, -3, 2**31 - 1, -2**31, 0]
    assert unary("fp_to_ui", FP32, data, I32, out=I32).view(np.uint32).tolist() == [3, 0, 2**32 - 1, 0, 0]


def test_bf16_rounds_to_nearest_even():
    # 1 + 2^-8 lies halfway between bf16's 1 and 1 + 2^-7; 1 + 3 * 2^-8 halfway between 1 + 2^-7 and 1 + 2^-6.
    data = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], np.float32)
    assert unary("fp_trunc", FP32, data, BF16, out=BF16).astype(float).tolist() == [1.0, 1 + 2**-6, 1 + 2**-7]


def test_bf16_arithmetic_rounds_each_result():
    lhs, rhs = np.array([256.0, 1.0], bf16), np.array([1.0, 1.0], bf16)
    assert binary("fadd", BF16, lhs, rhs).astype(float).tolist() == [256.0, 2.0]
    near_one = np.array([1 + 2**-7] * 2, bf16)
    assert binary("fmul", BF16, near_one, near_one).astype(float).tolist() == [1 + 2**-6] * 2


def test_rounding_towards_zero():
    class RTZ:
        name = "RTZ"
    data = np.array([1 + 3 * 2**-8, -1 - 3 * 2**-8], np.float32)
    assert unary("fp_to_fp", FP32, data, BF16, RTZ, out=BF16).astype(float).tolist() == [1 + 2**-7, -1 - 2**-7]


def test_fp8_saturates():
    data = np.array([1e6, -1e6, 1.0], np.float32)
    result = unary("fp_to_fp", FP32, data, FP8, None, out=FP8)
    assert result.astype(float).tolist() == [448.0, -448.0, 1.0]


def test_division_by_zero_and_overflow_are_silent_values(recwarn):
    assert binary("fdiv", FP32, np.array([1.0, 0.0], np.float32), np.zeros(2, np.float32)).tolist()[0] == np.inf
    assert unary("exp", FP32, np.array([1e5], np.float32)).tolist() == [np.inf]
    assert not recwarn.list


def test_bits_seen_as_another_type():
    assert unary("bitcast", FP32, np.array([1.0, -2.0], np.float32), I32, out=I32).tolist() == [0x3F800000, -0x40000000]


def test_select_and_minimum_and_fma():
    k = Sketch()
    x, y = k.pointer(FP32, "x"), k.pointer(FP32, "y")
    a = k.load(x, (4, ))
    zero = k.op("constant", 0.0, a.type)
    positive = k.op("select", k.op("fcmpOGT", a, zero), a, zero)
    k.store(y, k.op("fma", positive, positive, k.op("minimumf", a, zero)))
    data, out = np.array([-2, -1, 1, 3], np.float32), np.zeros(4, np.float32)
    k.run(data, out)
    assert out.tolist() == [-2, -1, 1, 9]


def test_shapes_join_split_trans():
    k = Sketch()
    x, y = k.pointer(I32, "x"), k.pointer(I32, "y")
    a = k.load(x, (4, ))
    joined = k.op("join", a, k.op("add", a, a))
    first, second = k.op("split", joined)
    flat = k.op("reshape", k.op("trans", joined, (1, 0)), (8, ), False)
    both = k.op("reshape", k.op("trans", k.op("join", first, second), (1, 0)), (8, ), False)
    k.store(y, k.op("add", both, flat))
    data, out = np.arange(4, dtype=np.int32), np.zeros(8, np.int32)
    k.run(data, out)
    assert out.tolist() == [0, 2, 4, 6, 0, 4, 8, 12]


def test_histogram_leaves_masked_elements_out():
    k = Sketch()
    x, y = k.pointer(I32, "x"), k.pointer(I32, "y")
    a = k.load(x, (8, ))
    k.store(y, k.op("histogram", a, 4, k.op("icmpSLT", a, k.op("constant", 3, a.type))))
    data, out = np.array([0, 1, 1, 2, 2, 2, 3, 3], np.int32), np.zeros(4, np.int32)
    k.run(data, out)
    assert out.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("indices, fine", [([3, 0, 1, 1], True), ([3, 0, 4, 1], False)])
def test_gather_checks_its_indices(indices, fine):
    k = Sketch()
    x, i, y = k.pointer(FP32, "x"), k.pointer(I32, "i"), k.pointer(FP32, "y")
    k.store(y, k.op("gather", k.load(x, (4, )), k.load(i, (4, )), 0))
    data, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    if fine:
        k.run(data, np.array(indices, np.int32), out)
        assert out.tolist() == indices
    else:
        with pytest.raises(OutOfBounds, match="from 0 to 4 into 4"):
            k.run(data, np.array(indices, np.int32), out)


@pytest.mark.parametrize("symbol, expected", [
    ("__nv_expf", np.e), ("__nv_erff", 0.8427008), ("__ocml_tanh_f32", np.tanh(1.0)), ("__nv_rsqrtf", 1.0)])
def test_library_functions(symbol, expected):
    k = Sketch()
    x, y = k.pointer(FP32, "x"), k.pointer(FP32, "y")
    a = k.load(x, (2, ))
    k.store(y, k.op("extern_elementwise", "", "", symbol, (a, ), a.type, True))
    out = np.zeros(2, np.float32)
    k.run(np.ones(2, np.float32), out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_what_cannot_be_simulated_names_the_line():
    k = Sketch()
    k.op("inline_asm", "mov.u32 $0, %laneid;", "=r", (), (I32, ), False, 1)
    with pytest.raises(SimulatorMisuse, match="mov.u32") as caught:
        k.run()
    assert 'k.op("inline_asm"' in line_of(caught.value)
    k = Sketch()
    k.op("extern_elementwise", "", "", "__nv_no_such", (k.const(1.0, FP32), ), FP32, True)
    with pytest.raises(SimulatorMisuse, match="__nv_no_such"):
        k.run()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "and", "or", "xor", "sdiv", "srem", "icmpSLT", "icmpSLE", "icmpSGT",
                                  "icmpSGE", "icmpEQ", "icmpNE"])
def test_integers_are_computed_as_tiles_are(name):
    """Scalar integers take a way of their own; a tile of the same numbers takes Triton's."""
    numbers = [0, 1, 7, -1, -7, 2**31 - 1, -2**31 + 1]
    pairs = [(a, b) for a in numbers for b in numbers if b or name not in ("sdiv", "srem")]
    result = I1 if name.startswith("icmp") else I32
    for a, b in pairs:
        k = Sketch()
        y, z = k.pointer(I32, "y"), k.pointer(I32, "z")
        one = k.op(name, k.const(a), k.const(b))
        tile = k.op(name, k.op("constant", a, Tensor(I32, (1, ))), k.op("constant", b, Tensor(I32, (1, ))))
        if result is I1:
            one, tile = k.op("int_cast", one, I32, False), k.op("int_cast", tile, Tensor(I32, (1, )), False)
        k.store(y, one)
        k.store(z, tile)
        out = np.zeros(2, np.int32)
        k.run(out[:1], out[1:])
        assert out[0] == out[1], (a, b)
