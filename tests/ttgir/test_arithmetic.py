"""Readers of arithmetic: each op on 128 numbers against numpy."""

import math

import numpy as np
import pytest

from tests.ttgir.modules import TILE, elementwise

RANDOM = np.random.default_rng(0)
A, B, C = (RANDOM.standard_normal(TILE).astype(np.float32) * 3 for _ in range(3))
K = RANDOM.integers(-1000, 1000, TILE).astype(np.int32)
J = np.where(K % 7 == 0, 3, K % 7 + 1).astype(np.int32) * np.where(np.arange(TILE) % 2, 1, -1).astype(np.int32)
U, V = K.view(np.uint32), J.view(np.uint32)
TRUTH = f"%r = arith.extui %m : tensor<{TILE}xi1, #line> to R"
S = np.arange(TILE, dtype=np.int32) % 31


def each(function):
    return lambda x: np.array([function(one) for one in x.tolist()], np.float32)


FLOATS = {
    "arith.addf": lambda a, b: a + b, "arith.subf": lambda a, b: a - b, "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b, "arith.remf": np.fmod, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin, "tt.precise_divf": lambda a, b: a / b,
    "tt.approx_divf": lambda a, b: a / b}
ONE = {
    "arith.negf": np.negative, "math.exp": np.exp, "math.exp2": np.exp2, "math.log": np.log, "math.log2": np.log2,
    "math.sqrt": np.sqrt, "math.rsqrt": lambda x: 1 / np.sqrt(x), "math.sin": np.sin, "math.cos": np.cos,
    "math.erf": each(math.erf), "math.absf": np.abs, "math.ceil": np.ceil, "math.floor": np.floor, "tt.precise_sqrt": np.sqrt}
POSITIVE = ("math.log", "math.log2", "math.sqrt", "math.rsqrt", "tt.precise_sqrt")
INTEGERS = {
    "arith.addi": lambda i, j: i + j, "arith.subi": lambda i, j: i - j, "arith.muli": lambda i, j: i * j,
    "arith.divsi": lambda i, j: np.trunc(i / j), "arith.remsi": np.fmod, "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.ceildivsi": lambda i, j: -(-i // j), "arith.floordivsi": lambda i, j: i // j}
UNSIGNED = {
    "arith.divui": lambda u, v: u // v, "arith.remui": lambda u, v: u % v, "arith.maxui": np.maximum, "arith.minui": np.minimum,
    "arith.ceildivui": lambda u, v: u // v + (u % v != 0),
    "tt.mulhiui": lambda u, v: (u.astype(np.uint64) * v >> np.uint64(32)).astype(np.uint32)}


@pytest.mark.parametrize("op", FLOATS)
def test_two_floats(op):
    assert np.allclose(elementwise(f"%r = {op} %a, %b : T", "f32", "f32", A, B), FLOATS[op](A, B), rtol=1e-6)


@pytest.mark.parametrize("op", ONE)
def test_one_float(op):
    x = np.abs(A) if op in POSITIVE else A
    assert np.allclose(elementwise(f"%r = {op} %a : T", "f32", "f32", x), ONE[op](x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", INTEGERS)
def test_two_integers(op):
    assert (elementwise(f"%r = {op} %a, %b : T", "i32", "i32", K, J) == INTEGERS[op](K, J)).all()


@pytest.mark.parametrize("op", UNSIGNED)
def test_two_integers_without_sign(op):
    assert (elementwise(f"%r = {op} %a, %b : T", "i32", "i32", K, J).view(np.uint32) == UNSIGNED[op](U, V)).all()


def test_shifts():
    for op, wanted in (("arith.shli", K << S), ("arith.shrsi", K >> S), ("arith.shrui", (U >> S.view(np.uint32)).view(np.int32))):
        assert (elementwise(f"%r = {op} %a, %b : T", "i32", "i32", K, S) == wanted).all(), op
    assert (elementwise("%r = math.absi %a : T", "i32", "i32", K) == np.abs(K)).all()


def test_three_operands():
    assert np.allclose(elementwise("%r = math.fma %a, %b, %c : T", "f32", "f32", A, B, C), A * B + C, rtol=1e-6, atol=1e-6)
    clamped = elementwise("%r = tt.clampf %a, %b, %c, propagateNan = none : T", "f32", "f32", A, -np.abs(B), np.abs(C))
    assert (clamped == np.clip(A, -np.abs(B), np.abs(C))).all()


@pytest.mark.parametrize("word, wanted", [
    ("eq", K == J), ("ne", K != J), ("slt", K < J), ("sle", K <= J), ("sgt", K > J), ("sge", K >= J), ("ult", U < V),
    ("ule", U <= V), ("ugt", U > V), ("uge", U >= V)])
def test_comparisons_of_integers(word, wanted):
    found = elementwise(f"%m = arith.cmpi {word}, %a, %b : T \n%r = arith.select %m, %a, %b : tensor<{TILE}xi1, #line>, T",
                        "i32", "i32", K, J)
    assert (found == np.where(wanted, K, J)).all()


@pytest.mark.parametrize("word, wanted", [
    ("oeq", A == B), ("ogt", A > B), ("oge", A >= B), ("olt", A < B), ("ole", A <= B), ("une", A != B), ("ugt", A > B),
    ("ult", A < B), ("uno", A != A), ("ord", A == A)])
def test_comparisons_of_floats(word, wanted):
    found = elementwise(f"%m = arith.cmpf {word}, %a, %b : T \n{TRUTH}", "f32", "i32", A, B)
    assert (found == wanted).all()


def test_a_comparison_with_nan_is_as_its_word_says():
    nan = np.full(TILE, np.nan, np.float32)
    for word, wanted in (("olt", 0), ("ult", 1), ("oeq", 0), ("une", 1), ("uno", 1), ("ord", 0)):
        found = elementwise(f"%m = arith.cmpf {word}, %a, %b : T \n{TRUTH}", "f32", "i32", A, nan)
        assert (found == wanted).all(), word


CASTS = {
    "arith.sitofp": ("i32", "f32", K, K), "arith.uitofp": ("i32", "f64", K, U), "arith.fptosi": ("f32", "i32", A, np.trunc(A)),
    "arith.fptoui": ("f32", "i32", np.abs(A), np.trunc(np.abs(A))),
    "arith.extf": ("f16", "f32", A.astype(np.float16), A.astype(np.float16)),
    "arith.truncf": ("f32", "f16", A, A.astype(np.float16)), "arith.bitcast": ("f32", "i32", A, A.view(np.int32)),
    "arith.extsi": ("i8", "i32", K.astype(np.int8), K.astype(np.int8)), "arith.trunci": ("i32", "i8", K, K.astype(np.int8)),
    "arith.extui": ("i8", "i32", K.astype(np.int8), K.astype(np.uint8))}


@pytest.mark.parametrize("op", CASTS)
def test_casts(op):
    given, gives, x, wanted = CASTS[op]
    assert (elementwise(f"%r = {op} %a : T to R", given, gives, x) == wanted).all()


def test_casts_of_triton():
    assert (elementwise("%r = tt.bitcast %a : T -> R", "f32", "i32", A) == A.view(np.int32)).all()
    down = elementwise("%r = tt.fp_to_fp %a, rounding = rtz : T -> R", "f32", "f16", A)
    assert (np.abs(down.astype(np.float32)) <= np.abs(A)).all() and np.allclose(down, A, rtol=1e-3)


def test_truth_is_minus_one_with_a_sign_and_one_without():
    made = f"%m = arith.cmpi slt, %a, %b : T \n%r = WORD %m : tensor<{TILE}xi1, #line> to R"
    assert (elementwise(made.replace("WORD", "arith.extsi"), "i32", "i32", K, J) == -(K < J).astype(np.int32)).all()
    assert (elementwise(made.replace("WORD", "arith.uitofp"), "i32", "f32", K, J) == (K < J)).all()


@pytest.mark.parametrize("written, wanted", [
    ("dense<2.500000e+00>", 2.5), ("dense<0xFF800000>", -np.inf), ("dense<0x7F800000>", np.inf),
    ("dense<-1.000000e-03>", np.float32(-1e-3))])
def test_constants_of_floats(written, wanted):
    assert (elementwise(f"%k = arith.constant {written} : T \n%r = arith.addf %k, %k : T", "f32", "f32", A) == 2 * wanted).all()


def test_constants_of_integers_and_truth():
    assert (elementwise("%k = arith.constant dense<-7> : T \n%r = arith.addi %a, %k : T", "i32", "i32", K) == K - 7).all()
    found = elementwise(f"%k = arith.constant dense<true> : tensor<{TILE}xi1, #line> \n"
                        f"%r = arith.select %k, %a, %b : tensor<{TILE}xi1, #line>, T", "i32", "i32", K, J)
    assert (found == K).all()


def test_numbers_of_loops():
    """An index is a number of 64 bits."""
    made = """%n = arith.constant 5 : i32
        %i = arith.index_cast %n : i32 to index
        %j = arith.index_cast %i : index to i32
        %k = arith.index_castui %j : i32 to index
        %l = arith.index_castui %k : index to i32
        %s = tt.splat %l : i32 -> T
        %r = arith.addi %a, %s : T"""
    assert (elementwise(made, "i32", "i32", K) == K + 5).all()


def test_poison_that_nobody_uses():
    assert (elementwise("%u = ub.poison : T \n%r = arith.addi %a, %b : T", "i32", "i32", K, J) == K + J).all()


def test_assembly_and_functions_of_libraries():
    found = elementwise('%r = tt.elementwise_inline_asm "add.s32 $0, $1, $2;" {constraints = "=r,r,r", packed_element = 1 : i32, '
                        "pure = true} %a, %b : T, T -> R", "i32", "i32", K, J)
    assert (found == K + J).all()
    found = elementwise('%r = tt.extern_elementwise %a {libname = "", libpath = "", pure = true, symbol = "__nv_tanhf"} : '
                        f"(tensor<{TILE}xf32, #line>) -> R", "f32", "f32", A)
    assert np.allclose(found, np.tanh(A), rtol=1e-5)
