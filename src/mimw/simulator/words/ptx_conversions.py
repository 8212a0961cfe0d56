"""What `cvt` of PTX makes of numbers: fp8, fp4, scales, halves, integers.

Input: an opcode. Output: a function of the registers and the operands' names, or None for a conversion without a meaning here. For
example:

    meaning("cvt.rn.satfinite.e4m3x2.f32")(registers, ["d", "a", "b"])      b in the low byte of d, a in the high one

PTX ISA, "cvt". Of several operands the last one becomes the low bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from .ptx_instructions import FLOATS, as_bits, as_floats
from .rounding import rounded

_PACKED = {"e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2, "e4m3x4": ml_dtypes.float8_e4m3fn,
           "e5m2x4": ml_dtypes.float8_e5m2, "f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16}
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
_DIRECTIONS = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def meaning(opcode: str) -> Callable | None:
    """The function of a conversion, by its rounding and its types."""
    name, *modifiers = opcode.split(".")
    if name != "cvt" or len(modifiers) < 2:
        return None
    *how, target, source = modifiers
    if (how, target, source) == (["rna"], "tf32", "f32"):
        return lambda registers, names: registers.write(names[0], _tf32(registers.read(names[1], 32)), 32)
    how, relu = [one for one in how if one != "relu"], "relu" in how
    saturates, how = "satfinite" in how, [one for one in how if one != "satfinite"]
    if how == ["rs"] and target in _PACKED and source == "f32":
        return _random(target, saturates) if saturates or target[-5:] == "f16x2" else None
    if target == "ue8m0x2" and source in ("f32", "bf16x2") and how in (["rp"], ["rz"]):
        return _packing(2, 8, source, lambda values: _e8m0(values, how == ["rp"], saturates))
    if source == "ue8m0x2" and target == "bf16x2" and how == ["rn"]:
        return _unpacking(8, lambda bits: _of_e8m0(bits).astype(ml_dtypes.bfloat16))
    if target == "e2m1x2" and source == "f32" and how == ["rn"] and saturates:
        return _packing(2, 4, source, lambda values: _e2m1(_positive(values, relu)))
    if source == "e2m1x2" and target == "f16x2" and how == ["rn"]:
        return _unpacking(4, lambda bits: np.where(bits & 8, -1, 1) * _E2M1[bits & 7])
    if target in _PACKED and target.endswith("x2") and source in ("f32", "f16x2") and how in (["rn"], ["rz"]):
        dtype = np.dtype(_PACKED[target])
        return _packing(2, 8 * dtype.itemsize, source, lambda values: as_bits(
            _narrowed(_positive(values, relu), dtype, how == ["rz"], saturates or dtype.itemsize == 1)))
    if source in ("e4m3x2", "e5m2x2") and target == "f16x2" and how == ["rn"]:
        dtype = np.dtype(_PACKED[source])
        return _unpacking(8, lambda bits: _positive(as_floats(bits, dtype).astype(np.float16), relu))
    return _single(how, target, source, relu, saturates)


def _tf32(bits):
    """To 10 bits of the mantissa, to the nearest, ties away from zero; infinities stay, and NaN is the one of all ones."""
    bits = np.asarray(bits, np.uint64)
    magnitude = bits & np.uint64(0x7FFF_FFFF)
    nearest = bits + np.uint64(0x1000) & np.uint64(0xFFFF_E000)
    return np.where(magnitude > 0x7F80_0000, np.uint64(0x7FFF_FFFF), np.where(magnitude == 0x7F80_0000, bits, nearest))


def _positive(values, relu: bool):
    return np.where(values < 0, 0, values).astype(values.dtype) if relu else values


def _narrowed(values, dtype: np.dtype, towards_zero: bool, saturates: bool):
    """To nearest even or towards zero; `saturates`: at most the largest finite number."""
    limit = float(ml_dtypes.finfo(dtype).max)
    wide = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        made = np.asarray(np.clip(wide, -limit, limit) if saturates else np.asarray(values)).astype(dtype)
        if towards_zero:
            too_far = np.abs(made.astype(np.float64)) > np.abs(wide)
            made = (made.view(f"u{dtype.itemsize}") - too_far.astype(f"u{dtype.itemsize}")).view(dtype)
    return made


def _e8m0(values, up: bool, saturates: bool):
    """The exponent plus 127 of the power of two above or below; NaN is 255. Signs go."""
    bits = as_bits(np.asarray(values, np.float32)).astype(np.int64) & 0x7FFF_FFFF
    exponent = (bits + 0x7F_FFFF) >> 23 if up else bits >> 23
    exponent = np.where(bits <= 0x40_0000, 0, exponent) if up else exponent
    return np.where(bits > 0x7F80_0000, 255, np.minimum(exponent, 254) if saturates else exponent).astype(np.uint64)


def _of_e8m0(bits):
    exponent = np.asarray(bits).astype(np.int64)
    return np.where(exponent == 255, np.nan, np.ldexp(1.0, exponent - 127))


def _e2m1(values):
    """To the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, ties to the even bits; NaN becomes the largest."""
    wide = np.abs(np.nan_to_num(np.asarray(values, np.float64), nan=6.0, posinf=6.0, neginf=-6.0))
    middle = (_E2M1[1:] + _E2M1[:-1]) / 2
    at = np.searchsorted(middle, wide, side="left")
    tie = (at < len(middle)) & (wide == middle[np.minimum(at, len(middle) - 1)])
    code = at + (tie & (at % 2 == 1))
    negative = np.signbit(values) & ~np.isnan(values)
    return (code + 8 * negative).astype(np.uint64)


def _packing(count: int, bits: int, source: str, convert: Callable) -> Callable:
    """Numbers, one a register or two halves of one, side by side in the target; `convert` gives the bits of each."""

    def run(registers, operands):
        target, *sources = operands
        if source == "f32":
            values = [as_floats(registers.read(one, 32), FLOATS["f32"]) for one in reversed(sources)]
        else:
            both = registers.read(sources[0], 32)
            values = [as_floats(both >> np.uint64(16 * place) & np.uint64(0xFFFF), FLOATS[source.removesuffix("x2")])
                      for place in range(2)]
        made = np.uint64(0)
        for place, value in enumerate(values):
            made = made | (convert(value) & np.uint64((1 << bits) - 1)) << np.uint64(place * bits)
        registers.write(target, made, count * bits)

    return run


def _unpacking(bits: int, convert: Callable) -> Callable:
    """Two numbers of a register as two halves of another one; `convert` gives them as fp16, or as bf16."""

    def run(registers, operands):
        both, made = registers.read(operands[1], 2 * bits), np.uint64(0)
        for place in range(2):
            value = np.asarray(convert((both >> np.uint64(place * bits) & np.uint64((1 << bits) - 1)).astype(np.int64)))
            value = value if value.dtype.itemsize == 2 else value.astype(np.float16)
            made = made | as_bits(value) << np.uint64(16 * place)
        registers.write(operands[0], made, 32)

    return run


def _random(target: str, saturates: bool) -> Callable:
    dtype, count = np.dtype(_PACKED[target]), int(target[-1])

    def run(registers, operands):
        given, *sources, random = operands
        if sources[0].startswith("{"):
            sources = [one.strip() for one in sources[0][1:-1].split(",")]
        values = np.stack([np.broadcast_to(as_floats(registers.read(one, 32), FLOATS["f32"]), registers.read(random, 32).shape)
                           for one in reversed(sources)], axis=-1)
        words = np.repeat(registers.read(random, 32)[..., None], count, axis=-1)
        bits = as_bits(rounded(values, words, dtype, count, saturates))
        shifts = np.uint64(8 * dtype.itemsize) * np.arange(count, dtype=np.uint64)
        registers.write(given, np.bitwise_or.reduce(bits << shifts, axis=-1), 8 * dtype.itemsize * count)

    return run


def _single(how: list[str], target: str, source: str, relu: bool, saturates: bool) -> Callable | None:
    """One number of one register."""
    if target in FLOATS and source in FLOATS:
        wider = FLOATS[target].itemsize > FLOATS[source].itemsize
        if how not in ([], ["rn"], ["rz"]) or (not how and not wider):
            return None
        convert = lambda values: _narrowed(_positive(values, relu), FLOATS[target], how == ["rz"], saturates)  # noqa: E731
        read, write = FLOATS[source], FLOATS[target]
    elif target in FLOATS and source[0] in "us" and how == ["rn"]:
        read, write = _integer(source), FLOATS[target]
        convert = lambda values: values.astype(write)  # noqa: E731
    elif target[0] in "us" and source in FLOATS and how and how[0] in _DIRECTIONS:
        read, write = FLOATS[source], _integer(target)
        convert = lambda values: _whole(_DIRECTIONS[how[0]](values.astype(np.float64)), write)  # noqa: E731
    elif target[0] in "us" and source[0] in "us" and not how:
        read, write = _integer(source), _integer(target)
        convert = lambda values: values.astype(write)  # noqa: E731
    else:
        return None

    def run(registers, operands):
        values = np.asarray(registers.read(operands[1], 8 * read.itemsize)).astype(f"u{read.itemsize}").view(read)
        registers.write(operands[0], as_bits(np.asarray(convert(values)).astype(write)), 8 * write.itemsize)

    return run


def _integer(kind: str) -> np.dtype:
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")


def _whole(values, dtype: np.dtype):
    """Within the range of the type; NaN is 0."""
    limits = np.iinfo(dtype)
    return np.where(np.isnan(values), 0, np.clip(values, float(limits.min), float(limits.max)))
