"""Every op of `arith`, `math`, `vector` and the shuffles of raw bodies against numpy: widths wrap, signs are the op's."""

import math as python_math
from typing import Literal as L

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.testing import compare
from mimw.tle.raw import InOut, Input, arith, dialect, gpu, ir, llvm, math, memref, nvvm, vector

INDEX, I8, I32 = ir.IndexType.get(), *map(ir.IntegerType.get_signless, (8, 32))
F16, F32, PTR = ir.F16Type.get(), ir.F32Type.get(), ir.Type.parse("!llvm.ptr<1>")
PAIRS = [arith.addi, arith.subi, arith.muli, arith.andi, arith.ori, arith.xori, arith.minsi, arith.minui, arith.maxsi, arith.maxui,
         arith.divsi, arith.divui, arith.remsi, arith.remui, arith.floordivsi, arith.ceildivsi, arith.ceildivui]
RELATIONS = list(arith.CmpIPredicate)
FLOATS = [arith.addf, arith.subf, arith.mulf, arith.divf, arith.remf, arith.maximumf, arith.minimumf, arith.maxnumf, arith.minnumf,
          math.powf, math.atan2, math.copysign]
ORDERS = list(arith.CmpFPredicate)
FUNCTIONS = [arith.negf, math.absf, math.exp, math.exp2, math.log, math.log2, math.sin, math.cos, math.sqrt, math.rsqrt, math.ceil,
             math.floor, math.erf, math.tanh, math.tan, math.expm1, math.log1p, math.log10, math.atan, math.trunc, math.roundeven]


def row_of(out, row, type_, value):
    """A helper: write each thread's value in a row of 64."""
    place = arith.addi(gpu.thread_id("x"), row * 64)
    llvm.store(value, llvm.getelementptr(PTR, out, [place], [-2147483648], type_))
    return row + 1


@dialect(name="mlir")
def integers(a: Input[L["memref<64xi32, 3>"]], b: Input[L["memref<64xi32, 3>"]], out: InOut[L["!llvm.ptr<1>"]]):
    at = gpu.thread_id("x")
    x, y, row = memref.load(a, [at]), memref.load(b, [at]), 0
    for pair in PAIRS:
        row = row_of(out, row, I32, pair(x, y))
    for relation in RELATIONS:
        row = row_of(out, row, I32, arith.extui(I32, arith.cmpi(relation, x, y)))
    for shift in [arith.shli, arith.shrsi, arith.shrui]:
        row = row_of(out, row, I32, shift(x, arith.andi(y, 15)))
    for narrow in [arith.trunci(I8, x), arith.addi(arith.trunci(I8, x), arith.trunci(I8, y))]:
        row = row_of(out, row, I32, arith.extsi(I32, narrow))
        row = row_of(out, row, I32, arith.extui(I32, narrow))
    for low, high in [arith.mulsi_extended(x, y), arith.mului_extended(x, y)]:
        row = row_of(out, row, I32, low)
        row = row_of(out, row, I32, high)
    total, carry = arith.addui_extended(x, y)
    row = row_of(out, row, I32, arith.select(carry, total, arith.index_cast(I32, arith.index_castui(INDEX, x))))
    row = row_of(out, row, I32, arith.fptosi(I32, arith.sitofp(F32, arith.shrsi(x, 8))))
    row = row_of(out, row, I32, arith.bitcast(I32, arith.uitofp(F32, x)))
    row = row_of(out, row, I32, math.absi(~x))
    row = row_of(out, row, I32, nvvm.shfl_sync(I32, -1, x, 3, 0, nvvm.ShflKind.up))
    row = row_of(out, row, I32, nvvm.shfl_sync(I32, -1, x, 2, (32 - 8) << 8 | 31, nvvm.ShflKind.down))
    row = row_of(out, row, I32, nvvm.shfl_sync(I32, -1, x, 5, 31, "idx"))
    other, valid = gpu.shuffle(x, 6, 8, "xor")
    row = row_of(out, row, I32, arith.select(valid, other, y))
    row = row_of(out, row, I32, nvvm.vote_ballot_sync(-1, arith.cmpi("slt", x, y)))


@dialect(name="mlir")
def floats(a: Input[L["memref<?xf32, 3>"]], b: Input[L["memref<?xf32, 3>"]], out: InOut[L["!llvm.ptr<1>"]]):
    at = gpu.thread_id("x")
    x, y, row = memref.load(a, [at]), memref.load(b, [at]), 0
    for pair in FLOATS:
        row = row_of(out, row, F32, pair(x, y))
    for relation in ORDERS:
        row = row_of(out, row, F32, arith.uitofp(F32, arith.cmpf(relation, x, y)))
    for function in FUNCTIONS:
        row = row_of(out, row, F32, function(x))
    half = arith.truncf(F16, x)
    row = row_of(out, row, F32, arith.extf(F32, arith.addf(math.exp(half), half)))
    row = row_of(out, row, F32, math.fma(x, y, arith.constant(F32, math.sqrt(4.0))))
    first = arith.muli(arith.divsi(at, 4), 4)
    four = vector.load(ir.VectorType.get([4], F32), a, [first])
    row = row_of(out, row, F32, vector.reduction(F32, vector.CombiningKind.ADD, arith.mulf(four, four)))
    row = row_of(out, row, F32, vector.extract(vector.insert(y, four, [], [1]), [], [1]))
    two = arith.addf(vector.broadcast(ir.VectorType.get([2], F32), x), 1.0)
    row = row_of(out, row, F32, vector.reduction(F32, "maximumf", two))


def numbers_of(function):
    @mimw.jit
    def kernel(a_ptr, b_ptr, out_ptr):
        at = tl.arange(0, 64)
        tle.raw.call(function, [tl.load(a_ptr + at), tl.load(b_ptr + at), out_ptr])

    return kernel


def integer_rows(a, b):
    u, v, wide = a.view(np.uint32), b.view(np.uint32), a.astype(np.int64)
    quotient, floor = (np.abs(wide) // np.abs(b.astype(np.int64))) * np.sign(wide) * np.sign(b), wide // b
    compared = [a == b, a != b, a < b, a <= b, a > b, a >= b, u < v, u <= v, u > v, u >= v]
    narrow = [a.astype(np.int8), a.astype(np.int8) + b.astype(np.int8)]
    lane = np.arange(64) % 32
    signed, unsigned = wide * b, u.astype(np.uint64) * v
    ballot = [sum(1 << i for i in range(32) if (a < b)[start + i]) for start in (0, 32)]
    return [a + b, a - b, a * b, a & b, a | b, a ^ b, np.minimum(a, b), np.minimum(u, v), np.maximum(a, b), np.maximum(u, v),
            quotient, u // v, wide - quotient * b, u % v, floor, -(-wide // b), -(-u.astype(np.int64) // v), *compared,
            a << (b & 15), a >> (b & 15), u >> (v & 15), *(kind for one in narrow for kind in (one, one.view(np.uint8))),
            signed, signed >> 32, unsigned, unsigned >> np.uint64(32), np.where(u + v < u, u + v, u), a >> 8,
            u.astype(np.float32).view(np.int32), np.abs(~a), np.where(lane >= 3, np.roll(a, 3), a),
            np.where(lane % 8 < 6, np.roll(a, -2), a), a[np.arange(64) // 32 * 32 + 5], a[np.arange(64) ^ 6],
            np.repeat(np.array(ballot, np.uint32), 32)]


def test_integers(machine):
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-2**31, 2**31, 64).astype(np.int32) for _ in range(2))
    b[::2] = rng.integers(1, 20, 32)
    with np.errstate(all="ignore"):
        rows = [np.asarray(row).astype(np.int64).astype(np.uint32).view(np.int32) for row in integer_rows(a, b)]
    out = np.zeros((len(rows), 64), np.int32)
    machine.launch(numbers_of(integers), (1, ), a, b, out, num_warps=2)
    for number, (have, want) in enumerate(zip(out, rows)):
        assert (have == want).all(), number


def test_floats(machine):
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(0.1, 3, 64).astype(np.float32) for _ in range(2))
    b[:3] = a[:3]
    erf = np.vectorize(python_math.erf)
    functions = [np.negative, np.abs, np.exp, np.exp2, np.log, np.log2, np.sin, np.cos, np.sqrt, lambda x: 1 / np.sqrt(x), np.ceil,
                 np.floor, erf, np.tanh, np.tan, np.expm1, np.log1p, np.log10, np.arctan, np.trunc, np.rint]
    half, four = a.astype(np.float16), np.repeat(a.reshape(16, 4), 4, axis=0)
    x, y = a.astype(np.float64), b.astype(np.float64)
    ordered = [x == y, x > y, x >= y, x < y, x <= y, x != y]
    rows = [x + y, x - y, x * y, x / y, np.fmod(x, y), np.maximum(x, y), np.minimum(x, y), np.maximum(x, y), np.minimum(x, y), x**y,
            np.arctan2(x, y), x, x < 0, *ordered, x > 0, *ordered, x < 0, x > 0, *(function(x) for function in functions),
            np.exp(half.astype(np.float32)).astype(np.float16) + half, x * y + 2, (four.astype(np.float64)**2).sum(1), y, x + 1]
    out = np.zeros((len(rows), 64), np.float32)
    machine.launch(numbers_of(floats), (1, ), a, b, out, num_warps=2)
    for number, (have, want) in enumerate(zip(out, rows)):
        compare(have, np.asarray(want, np.float32), rtol=2e-3 if number == len(rows) - 5 else 3e-5, atol=1e-6), number


def test_a_nan_is_unordered():
    a, b = np.ones(64, np.float32), np.ones(64, np.float32)
    a[1] = np.nan
    out = np.zeros((len(FLOATS) + len(ORDERS) + len(FUNCTIONS) + 5, 64), np.float32)
    mimw.simulate(numbers_of(floats), (1, ), a, b, out, num_warps=2)
    unordered = [order.name.startswith(("U", "AlwaysTrue")) for order in ORDERS]
    assert out[len(FLOATS):len(FLOATS) + len(ORDERS), 1].tolist() == unordered
