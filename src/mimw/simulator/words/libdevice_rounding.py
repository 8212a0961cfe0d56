"""Arithmetic and conversions that name their rounding: to nearest (rn), towards zero (rz), down (rd), up (ru).

Input: the name of a library function without its prefix. Output: a function of arrays, exact, or None. For example:

    function("fadd_rz")(x, y)           the sum of fp32 numbers, towards zero
    function("double2int_ru")(x)        the next whole number above, within int32
    function("ll2float_rd")(x)          the largest fp32 that is not above the integer

CUDA Math API, "Single/Double Precision Intrinsics" and "Type Casting Intrinsics"; PTX ISA, "cvt": numbers out of an integer type's
range become its ends; NaN becomes 0, and the number with the highest bit alone where either type has 64 bits. Each result is the
nearest number, as numpy has it, and one step on where that lies on the wrong side of the true value, which `Fraction` knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np

_ARITHMETIC = re.compile(r"([fd]?)(add|sub|mul|div|rcp|sqrt|fma)(f?)_(rn|rz|rd|ru)")
_TO_INTEGER = re.compile(r"(float|double)2(u?)(int|ll)_(rn|rz|rd|ru)")
_FROM_INTEGER = re.compile(r"(?:u?int|u?ll)2(float|double)_(rn|rz|rd|ru)")
_WHOLE = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def function(name: str) -> Callable | None:
    """The meaning of a function whose name ends in its rounding, or None."""
    if match := _ARITHMETIC.fullmatch(name):
        return _arithmetic(match[2], match[4], single="f" in (match[1], match[3]))
    if match := _TO_INTEGER.fullmatch(name):
        bits = 64 if match[3] == "ll" else 32
        return _to_integer(match[4], np.dtype(f"{match[2] or 'i'}{bits // 8}"), match[1] == "double")
    if match := _FROM_INTEGER.fullmatch(name):
        return _from_integer(np.float32 if match[1] == "float" else np.float64, match[2])
    if match := re.fullmatch(r"double2float_(rn|rz|rd|ru)", name):
        return _narrowing(match[1])
    return {"llrint": _to_integer("rn", np.dtype("i8"), True), "llrintf": _to_integer("rn", np.dtype("i8"), False)}.get(name)


def flushed(value: np.ndarray) -> np.ndarray:
    """fp32 with zeros of the same sign for what is below its normal numbers; other types as they are."""
    if value.dtype != np.float32:
        return value
    return np.where(np.abs(value) < np.finfo(np.float32).tiny, np.copysign(value.dtype.type(0), value), value)


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z, rounded once. Of fp32 the product is exact in fp64, and a sum rounded to odd there loses nothing for fp32."""
    if x.dtype != np.float32:
        return _apply("fma", "rn", x, y, z)
    product, wide = x.astype(np.float64) * y, z.astype(np.float64)
    total = product + wide
    part = total - product
    error = (product - (total - part)) + (wide - part)
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0)
    even = (np.ascontiguousarray(total).view(np.int64) & 1) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(total, towards), total).astype(np.float32)


def _arithmetic(name: str, mode: str, single: bool) -> Callable:
    def run(*values):
        if not single:
            return _apply(name, mode, *values)
        values = [flushed(value) for value in values]
        return flushed(fma(*values) if name == "fma" and mode == "rn" else _apply(name, mode, *values))

    return run


def _apply(name: str, mode: str, *values) -> np.ndarray:
    """Of numbers in their own type."""
    values = np.broadcast_arrays(*values)
    dtype = values[0].dtype.type
    with np.errstate(all="ignore"):
        near = _nearest(name, *values)
        if mode == "rn" and name != "fma":
            return near
        found = np.empty(near.size, near.dtype)
        for place, (one, *operands) in enumerate(zip(near.reshape(-1), *(value.reshape(-1) for value in values))):
            exact = _exact(name, *map(float, operands))
            if name == "fma" and exact is not None:
                one = _rounded(exact, dtype, one)
            found[place] = _root(one, exact, mode) if name == "sqrt" else _step(one, exact, mode)
            if exact == 0 and mode == "rd" and name in ("add", "sub", "fma"):
                found[place] = _zero_down(name, operands, dtype)
    return found.reshape(near.shape)


def _nearest(name: str, *values) -> np.ndarray:
    """To nearest, as numpy and the hardware have it; of `fma` what infinities, NaN and zeros give."""
    if name == "rcp":
        return 1 / values[0]
    if name == "sqrt":
        return np.sqrt(values[0])
    if name == "fma":
        return values[0] * values[1] + values[2]
    return {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name](*values)


def _exact(name: str, *values: float) -> Fraction | None:
    """The true value; of a root its square. None where there is none: it is infinite or no number."""
    if not all(map(math.isfinite, values)):
        return None
    x, *rest = map(Fraction, values)
    if name in ("rcp", "div"):
        below = rest[0] if rest else x
        return None if not below else x / below if rest else 1 / x
    if name == "sqrt":
        return None if x <= 0 else x
    return {"add": lambda y: x + y, "sub": lambda y: x - y, "mul": lambda y: x * y, "fma": lambda y, z: x * y + z}[name](*rest)


def _rounded(exact: Fraction, dtype, special):
    """A true value to nearest, ties to even; `special` is what zero is."""
    if not exact:
        return special
    try:
        wide = float(exact)
    except OverflowError:
        return dtype(math.copysign(math.inf, exact))
    near = dtype(wide)
    if dtype is np.float64 or not np.isfinite(near) or Fraction(wide) == exact:
        return near
    other = np.nextafter(near, dtype(np.inf if wide > near else -np.inf))
    if wide != near and (Fraction(float(near)) + Fraction(float(other))) / 2 == Fraction(wide):       # no tie, only in fp64
        return max(near, other) if exact > Fraction(wide) else min(near, other)
    return near


def _step(near, exact: Fraction | None, mode: str):
    """The neighbour of `near` on the side that `mode` asks for."""
    if exact is None or mode == "rn" or math.isnan(near):
        return near
    down = mode == "rd" or mode == "rz" and exact > 0
    if down and exact < float(near):
        return np.nextafter(near, near.dtype.type(-np.inf))
    if not down and exact > float(near):
        return np.nextafter(near, near.dtype.type(np.inf))
    if exact and not near:        # what is too small for any number has its sign
        return near.dtype.type(math.copysign(0.0, exact))
    return near


def _root(near, square: Fraction | None, mode: str):
    if square is None or mode == "rn":
        return near
    found = Fraction(float(near))**2
    if mode == "ru":
        return np.nextafter(near, near.dtype.type(np.inf)) if found < square else near
    return np.nextafter(near, near.dtype.type(0)) if found > square else near


def _zero_down(name: str, operands, dtype):
    """A sum that is zero, rounded down: -0, unless both terms are +0."""
    first, second = (operands[0] * operands[1], operands[2]) if name == "fma" else operands
    second = -second if name == "sub" else second
    both = not np.signbit(first) and not np.signbit(second) and not first and not second
    return dtype(0.0) if both else dtype(-0.0)


def _to_integer(mode: str, dtype: np.dtype, double: bool) -> Callable:
    limits = np.iinfo(dtype)
    nothing = 1 << (8 * dtype.itemsize - 1) if double or dtype.itemsize == 8 else 0

    def run(x):
        wide = flushed(x).astype(np.float64)
        whole = _WHOLE[mode](wide)
        inside = (whole >= float(limits.min)) & (whole < float(limits.max) + (limits.max < 2**53))
        found = np.where(inside, whole, 0).astype(dtype)
        found = np.where(whole > 0, np.where(inside, found, limits.max), np.where(inside, found, limits.min)).astype(dtype)
        return np.where(np.isnan(wide), np.array(nothing, np.uint64).astype(dtype), found)

    return run


def _from_integer(dtype, mode: str) -> Callable:
    def run(x):
        near = x.astype(dtype)
        if mode == "rn":
            return near
        return np.array([_step(one, Fraction(int(exact)), mode) for one, exact in zip(near.reshape(-1), x.reshape(-1))],
                        dtype).reshape(x.shape)

    return run


def _narrowing(mode: str) -> Callable:
    def run(x):
        near = x.astype(np.float32)
        if mode != "rn":
            near = np.array([_step(one, Fraction(float(exact)) if np.isfinite(exact) else None, mode)
                             for one, exact in zip(near.reshape(-1), x.reshape(-1))], np.float32).reshape(x.shape)
        return flushed(near)

    return run
