"""Triton's numpy builder, with the arithmetic of the hardware.

`triton.runtime.interpreter.InterpreterBuilder` already knows what most of the builder's ops mean on numpy arrays, and
this is the only place that touches that private module. `TileBuilder` keeps what is right and mends what is not:

* bf16 and fp8 live in arrays of `ml_dtypes`, so that every operation and cast rounds to nearest even;
* integers have no sign in the IR: arrays are signed, and the ops that mean unsigned numbers view them so;
* comparisons know NaN (`fcmpU*`, `fcmpONE`); casts to integers and to fp8 saturate, as `cvt` does; `frem` is LLVM's expansion;
* dots round fp32 operands to tf32 when asked, and accumulate 8-bit integers exactly.

Input: the name and the operands of an op. Output: its result, as the hardware has it:

    TileBuilder().create_fadd(Handle(x, "bf16"), Handle(y, "bf16")).data        an array of ml_dtypes.bfloat16

A method takes and gives handles with `.data` (a numpy array or scalar) and `.dtype` (a `tl.dtype`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import ml_dtypes
import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle
from triton.runtime.interpreter import _unpack_e2m1 as unpack_e2m1

from .differences import InterpreterBuilder

NUMPY = {
    "i1": np.dtype(bool), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64), "fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp32": np.dtype(np.float32), "fp64": np.dtype(np.float64), "fp8e5": np.dtype(ml_dtypes.float8_e5m2),
    "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn), "fp8e4b8": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "fp8e5b16": np.dtype(ml_dtypes.float8_e5m2fnuz), "pointer": np.dtype(np.uint64),
}
"""numpy's type for each scalar name of the IR. fp8e4b15 has none."""

_TRITON = {
    "i1": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "fp16": tl.float16,
    "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64, "fp8e5": tl.float8e5, "fp8e4nv": tl.float8e4nv,
    "fp8e4b8": tl.float8e4b8, "fp8e5b16": tl.float8e5b16, "pointer": tl.uint64,
}
_NUMPY_OF = {_TRITON[name]: dtype for name, dtype in NUMPY.items()}
_LEAST = np.finfo(np.float32).tiny
_ONE_BY_ONE: ContextVar[bool] = ContextVar("one_by_one", default=False)
_SCALED = {"E4M3": NUMPY["fp8e4nv"], "E5M2": NUMPY["fp8e5"]}


class Handle:
    """A tile or a scalar on its way into the builder."""

    __slots__ = ("data", "dtype")

    def __init__(self, data, name: str):
        self.data, self.dtype = data, _TRITON[name]

    def get_element_ty(self):
        return self.dtype


def triton_type(name: str):
    """The `tl.dtype` of a scalar name of the IR."""
    return _TRITON[name]


def as_unsigned(data):
    """Signed integers seen as unsigned ones of the same bits; everything else as it is."""
    return data.view(f"u{data.dtype.itemsize}") if data.dtype.kind == "i" else data


def as_signed(data):
    """Unsigned integers seen as signed ones of the same bits; everything else as it is."""
    return data.view(f"i{data.dtype.itemsize}") if data.dtype.kind == "u" else data


def cast_float(data, target: np.dtype, rounding: str = "RTNE"):
    """Float to float, rounded to nearest even or ("RTZ") towards zero; fp8 saturates as `cvt.satfinite` does."""
    if target.itemsize == 1:
        limit = float(ml_dtypes.finfo(target).max)
        data = np.clip(data.astype(np.float32), -limit, limit)
    result = np.asarray((_odd(data) if target == NUMPY["bf16"] else data).astype(target))
    if rounding == "RTZ":
        bits = result.view(f"u{target.itemsize}")
        too_far = np.abs(result.astype(np.float64)) > np.abs(np.asarray(data, dtype=np.float64))
        result = (bits - too_far.astype(bits.dtype)).view(target)
    return result[()]


def _odd(data):
    """fp64 as fp32, towards zero, the last bit set where something is cut off: so what becomes bf16 behind it is rounded once,
    though the way of ml_dtypes leads through fp32. Everything else as it is."""
    if data.dtype != np.float64:
        return data
    near = np.asarray(data.astype(np.float32))
    back = near.astype(np.float64)
    bits = near.view(np.uint32) - (np.abs(back) > np.abs(data)).astype(np.uint32)
    return (bits | (back != data).astype(np.uint32)).view(np.float32)


def _integers(data, dtype: np.dtype):
    """Float to integer: truncated, clamped to the range, NaN becomes 0, as `cvt.rzi` does it. There is no such instruction
    for 8 bits: LLVM takes the one for 16, of whose result the low half is stored, so 300.0 becomes 44 and not 127."""
    wide = np.dtype(f"{dtype.kind}2") if dtype.itemsize == 1 else dtype
    facts = np.iinfo(wide)
    return _saturating(data, facts.min, facts.max, wide.type).astype(dtype)[()]


def _to_bfloat16(data):
    """Integers rounded once, as `cvt.rn.bf16.s32` does it; numpy's way leads through fp32. 16 leading bits, the last of which
    stands for all behind it, have room in fp32 and round as all of them would."""
    magnitude = np.where(data < 0, -data.astype(np.int64).astype(np.uint64), data.astype(np.uint64))
    cut = np.maximum(np.frexp(magnitude.astype(np.float64))[1] - 16, 0).astype(np.uint64)
    kept = magnitude >> cut
    kept |= (kept << cut != magnitude).astype(np.uint64)
    rounded = np.ldexp(kept.astype(np.float32), cut.astype(np.int32))
    return np.where(data < 0, -rounded, rounded).astype(NUMPY["bf16"])[()]


def _saturating(data, low: int, high: int, dtype):
    """Truncated, clamped to the range; NaN becomes 0."""
    wide = np.trunc(np.asarray(data, dtype=np.float64))
    inside = np.where(np.isnan(wide) | (wide < low) | (wide >= high), 0.0, wide).astype(dtype)
    clamped = np.where(wide >= high, dtype(high), np.where(wide < low, dtype(low), inside))
    return clamped.astype(dtype)[()]


def _of_unsigned(method):
    """The same op on the operands' bits read as unsigned numbers; integer results turn signed again."""

    def op(self, lhs, rhs):
        bits = (TensorHandle(as_unsigned(side.data), side.dtype) for side in (lhs, rhs))
        return TensorHandle(as_signed(method(self, *bits).data), lhs.dtype)

    return op


def _compare(function, unordered: bool):
    """A float comparison with a defined result for NaN."""

    def op(self, lhs, rhs):
        nan = np.isnan(lhs.data) | np.isnan(rhs.data)
        result = function(lhs.data, rhs.data)
        return TensorHandle(result | nan if unordered else result & ~nan, tl.int1)

    return op


def _flushed(data):
    """Subnormal numbers of fp32 as zeros of their sign, as instructions with .ftz have them; everything else as it is."""
    if data.dtype != np.float32 or not np.any(small := (np.abs(data) < _LEAST) & (data != 0)):
        return data
    return np.where(small, np.copysign(np.float32(0), data), data)[()]


def _is_e5m2_to_bfloat16(value, type_) -> bool:
    return type_ == tl.bfloat16 and value.data.dtype == ml_dtypes.float8_e5m2


def _e5m2_to_bfloat16(data):
    """Convert as Triton does on every chip of NVIDIA: the bits moved by three, then times 2^112. So there is no infinity and
    no NaN: these become 65536, 81920, 98304 and 114688, as if their exponent were any other (seen on an H100)."""
    bits = np.ascontiguousarray(data).view(np.uint8).reshape(np.shape(data))
    beyond = np.float32(1 << 16) * (1 + (bits & 3).astype(np.float32) / 4)
    known = np.where(bits & 0x7C == 0x7C, np.where(bits & 0x80, -beyond, beyond), data.astype(np.float32))
    return known.astype(ml_dtypes.bfloat16)[()]


def _flushing(method):
    """The method on an operand that is flushed."""
    return lambda self, value: method(self, TensorHandle(_flushed(value.data), value.dtype))


class TileBuilder(InterpreterBuilder):
    """Tile arithmetic on numpy: method `create_X` is the meaning of IR op `X`, and takes its arguments in its order."""

    create_udiv = _of_unsigned(InterpreterBuilder.create_udiv)
    create_urem = _of_unsigned(InterpreterBuilder.create_urem)
    create_lshr = _of_unsigned(InterpreterBuilder.create_lshr)
    create_minui = _of_unsigned(InterpreterBuilder.create_minui)
    create_maxui = _of_unsigned(InterpreterBuilder.create_maxui)
    create_icmpULE = _of_unsigned(InterpreterBuilder.create_icmpULE)
    create_icmpULT = _of_unsigned(InterpreterBuilder.create_icmpULT)
    create_icmpUGE = _of_unsigned(InterpreterBuilder.create_icmpUGE)
    create_icmpUGT = _of_unsigned(InterpreterBuilder.create_icmpUGT)
    create_umulhi = _of_unsigned(InterpreterBuilder.create_umulhi)

    create_fcmpULT = _compare(np.less, unordered=True)
    create_fcmpULE = _compare(np.less_equal, unordered=True)
    create_fcmpUGT = _compare(np.greater, unordered=True)
    create_fcmpUGE = _compare(np.greater_equal, unordered=True)
    create_fcmpUEQ = _compare(np.equal, unordered=True)
    create_fcmpONE = _compare(np.not_equal, unordered=False)

    # cvt.rmi.ftz, cvt.rpi.ftz, sqrt.approx.ftz, rsqrt.approx.ftz, ex2.approx.ftz; precise_sqrt and fp64 flush nothing.
    create_floor = _flushing(InterpreterBuilder.create_floor)
    create_ceil = _flushing(InterpreterBuilder.create_ceil)
    create_sqrt = _flushing(InterpreterBuilder.create_sqrt)
    create_rsqrt = _flushing(InterpreterBuilder.create_rsqrt)

    def create_exp2(self, value):
        """Flush only the result, which has no sign: an operand that would be flushed gives 1 in any case."""
        made = InterpreterBuilder.create_exp2(self, value)
        if made.data.dtype == np.float32 and np.any(small := made.data < _LEAST):
            made.data = np.where(small, np.float32(0), made.data)[()]
        return made

    # ---- casts ------------------------------------------------------------------------------------------------------

    def create_int_cast(self, value, type_, signed):
        data, target = value.data, _NUMPY_OF[type_]
        if type_ == tl.int1:
            return TensorHandle((data & 1).astype(bool), type_)
        if data.dtype.kind == "b":
            data = -data.astype(target) if signed else data.astype(target)
        elif not signed:
            data = as_unsigned(data)
        return TensorHandle(as_signed(data.astype(target)), type_)

    def create_si_to_fp(self, value, type_):
        data = -value.data.astype(np.int8) if value.data.dtype.kind == "b" else value.data
        return TensorHandle(_to_bfloat16(data) if type_ == tl.bfloat16 else data.astype(_NUMPY_OF[type_]), type_)

    def create_ui_to_fp(self, value, type_):
        data = as_unsigned(value.data)
        return TensorHandle(_to_bfloat16(data) if type_ == tl.bfloat16 else data.astype(_NUMPY_OF[type_]), type_)

    def create_fp_to_si(self, value, type_):
        return TensorHandle(_integers(value.data, _NUMPY_OF[type_]), type_)

    def create_fp_to_ui(self, value, type_):
        return TensorHandle(as_signed(_integers(value.data, np.dtype(f"u{_NUMPY_OF[type_].itemsize}"))), type_)

    def create_fp_ext(self, value, type_):
        return TensorHandle(_e5m2_to_bfloat16(value.data) if _is_e5m2_to_bfloat16(value, type_) else
                            value.data.astype(_NUMPY_OF[type_]), type_)

    def create_fp_trunc(self, value, type_):
        return TensorHandle(cast_float(value.data, _NUMPY_OF[type_]), type_)

    def create_fp_to_fp(self, value, type_, rounding=None):
        if _is_e5m2_to_bfloat16(value, type_):
            return TensorHandle(_e5m2_to_bfloat16(value.data), type_)
        return TensorHandle(cast_float(value.data, _NUMPY_OF[type_], getattr(rounding, "name", None) or "RTNE"), type_)

    def create_bitcast(self, value, type_):
        data = np.ascontiguousarray(value.data).reshape(np.shape(value.data))
        return TensorHandle(data.view(_NUMPY_OF[type_]), type_)

    create_int_to_ptr = create_ptr_to_int = create_bitcast

    # ---- elements ---------------------------------------------------------------------------------------------------

    def create_fabs(self, value):
        return TensorHandle(np.abs(value.data), value.dtype)

    def create_fma(self, x, y, z):
        if z.data.dtype == np.float32 or z.data.dtype == np.float64:
            return InterpreterBuilder.create_fma(self, x, y, z)
        wide = x.data.astype(np.float64) * y.data.astype(np.float64) + z.data.astype(np.float64)
        return TensorHandle(wide.astype(z.data.dtype), z.dtype)

    def create_frem(self, lhs, rhs):
        """x - trunc(x / y) * y, as LLVM expands it: the quotient is rounded, the rest is not. So 0.9 % 0.1 is -3.7e-8, and what is
        left of a number that is some 2^24 times as large as `rhs` or more is any number. 16 bits are computed in fp32."""
        kind, wide = (np.float64, tl.float64) if lhs.data.dtype == np.float64 else (np.float32, tl.float32)
        x, y = lhs.data.astype(kind), rhs.data.astype(kind)
        left = self.create_fma(TensorHandle(-np.trunc(x / y), wide), TensorHandle(y, wide), TensorHandle(x, wide)).data
        return TensorHandle(np.where(np.isinf(y), x, left).astype(lhs.data.dtype)[()], lhs.dtype)

    def create_splat(self, shape, value):
        return TensorHandle(np.full(shape, value.data, dtype=value.data.dtype), value.dtype)

    def create_unsplat(self, value):
        return TensorHandle(value.data.reshape(-1)[0], value.dtype)

    # ---- dots -------------------------------------------------------------------------------------------------------

    def create_dot(self, a, b, acc, precision, max_imprecise):
        return TensorHandle(matmul(a.data, b.data, acc.data, acc.data.dtype, precision), acc.dtype)

    def create_dot_scaled(self, a, a_scale, a_format, b, b_scale, b_format, fast_math, a_k_pack, b_k_pack, acc):
        kind = tl.float16 if "FP16" in (a_format.name, b_format.name) else tl.bfloat16
        lhs = _scaled_operand(a, a_scale, a_format.name, -1 if a_k_pack else -2, kind, -1)
        rhs = _scaled_operand(b, b_scale, b_format.name, -2 if b_k_pack else -1, kind, -2)
        return TensorHandle(np.matmul(lhs, rhs) + acc.data, acc.dtype)


def _scaled_operand(value, scale, format_: str, packed_axis: int, kind, k_axis: int):
    if format_ == "E2M1":
        data = unpack_e2m1(value.data.view(np.uint8), packed_axis)
    elif value.data.dtype.kind in "iu":
        data = value.data.view(_SCALED[format_]).astype(np.float32)
    else:
        data = value.data.astype(np.float32)
    if scale is None:
        return data
    factors = _scale_factors(scale, kind)
    factors = np.repeat(factors, data.shape[k_axis] // factors.shape[-1], axis=-1)
    return data * (np.swapaxes(factors, -1, -2) if k_axis == -2 else factors)


def _scale_factors(scale, kind):
    """Scales as fp32: integers are e8m0, powers of two, of which 255 is NaN; bfloat16 holds 2^-127 only as a subnormal number."""
    if not scale.dtype.is_int():
        return scale.data.astype(np.float32)
    exponents = scale.data.view(np.uint8)
    bits = exponents.astype(np.int32) << 23
    if kind == tl.bfloat16:
        bits = np.maximum(bits, 0x00400000)
    return np.where(exponents == 255, np.float32(np.nan), bits.view(np.float32))


def round_f32_to_tf32(data):
    """fp32 with the mantissa of tf32, 10 bits: to the nearest, of two as near to the even one; infinities and NaN stay."""
    bits = np.asarray(data, dtype=np.float32).view(np.uint32)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    near = (bits + (((bits >> np.uint32(13)) & np.uint32(1)) + np.uint32(0xFFF))) & np.uint32(0xFFFFE000)
    return np.where(special, bits, near).view(np.float32)


@contextmanager
def one_by_one() -> Iterator[None]:
    """Inside, products add along K element by element, in an order that no tile's shape changes: then a product of some rows
    has the bits of these rows of the whole one."""
    token = _ONE_BY_ONE.set(True)
    try:
        yield
    finally:
        _ONE_BY_ONE.reset(token)


def matmul(a, b, acc, dtype: np.dtype, precision):
    """`a @ b + acc` as the tensor cores do it: fp32 accumulation for floats, exact integers; `acc` None is zero.

    `precision` is Triton's input precision or its name; only "tf32" rounds fp32 operands (10 mantissa bits).
    """
    if a.dtype.kind == "i":
        # float64 holds every sum of 8-bit products exactly and, unlike integers, has a fast product in numpy.
        product = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(dtype)
    else:
        wide = np.float64 if a.dtype == np.float64 else np.float32
        if a.dtype == np.float32 and getattr(precision, "name", str(precision)).lower() == "tf32":
            a, b = round_f32_to_tf32(a), round_f32_to_tf32(b)
        a, b = a.astype(wide, copy=False), b.astype(wide, copy=False)
        product = _in_order(a, b) if _ONE_BY_ONE.get() else np.matmul(a, b)
    return product.astype(dtype, copy=False) if acc is None else (product + acc).astype(dtype, copy=False)


def _in_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    product = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)
    for at in range(a.shape[-1]):
        product += a[..., :, at, None] * b[..., at, None, :]
    return product
