"""Library functions of integers and of bits.

Input: arrays of integers, or of numbers whose bits are meant. Output: arrays. For example:

    FUNCTIONS["clz"](np.int32([1, 0]))                  [31, 32]
    FUNCTIONS["byte_perm"](x, y, np.int32([0x5410]))    the low half of x, and that of y above it

CUDA Math API, "Integer Intrinsics" and "Type Casting Intrinsics". Unsigned numbers are told by their types.
"""

from __future__ import annotations

import numpy as np


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)


def _as(x: np.ndarray, kind: str) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"{kind}{x.dtype.itemsize}").reshape(x.shape)


def clz(x: np.ndarray) -> np.ndarray:
    """Zeros above the highest bit that is set; all bits of 0."""
    bits, width, found = _bits(x).astype(np.uint64), 8 * x.dtype.itemsize, np.zeros(x.shape, np.int32)
    step = width // 2
    while step:
        empty = bits >> np.uint64(width - step) == 0
        found += np.where(empty, step, 0).astype(np.int32)
        bits = np.where(empty, bits << np.uint64(step), bits) & np.uint64((1 << width) - 1)
        step //= 2
    return found + (_bits(x) == 0)


def popc(x: np.ndarray) -> np.ndarray:
    return np.bitwise_count(_bits(x)).astype(np.int32)


def ffs(x: np.ndarray) -> np.ndarray:
    """The place of the lowest bit that is set, from 1 on; 0 of 0."""
    bits = _bits(x)
    lowest = bits & (~bits + bits.dtype.type(1))
    return np.where(bits == 0, 0, 8 * x.dtype.itemsize - clz(lowest)).astype(np.int32)


def brev(x: np.ndarray) -> np.ndarray:
    """The bits in the other order."""
    bits, found = _bits(x), np.zeros(x.shape, f"u{x.dtype.itemsize}")
    one = bits.dtype.type(1)
    for place in range(8 * x.dtype.itemsize):
        found |= (bits >> bits.dtype.type(place) & one) << bits.dtype.type(8 * x.dtype.itemsize - 1 - place)
    return _as(found, "i")


def byte_perm(x: np.ndarray, y: np.ndarray, selector: np.ndarray) -> np.ndarray:
    """Four of the eight bytes of x (0 to 3) and y (4 to 7), as the low three bits of each 4 of the selector say."""
    both = _bits(x).astype(np.uint64) | _bits(y).astype(np.uint64) << np.uint64(32)
    picks, found = _bits(selector).astype(np.uint64), np.uint64(0)
    for place in range(4):
        which = picks >> np.uint64(4 * place) & np.uint64(7)
        found = found | (both >> which * np.uint64(8) & np.uint64(0xFF)) << np.uint64(8 * place)
    return _as(np.asarray(found).astype(np.uint32), "i")


def mulhi(kind: str):
    """The upper half of the product."""

    def run(x, y):
        bits = 8 * x.dtype.itemsize
        wide = _as(x, kind).astype(object) * _as(y, kind).astype(object) >> bits
        return np.asarray(wide & (1 << bits) - 1, object).astype(np.uint64).astype(f"u{bits // 8}").view(f"{kind}{bits // 8}")

    return run


def mul24(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The low 32 bits of the product of the low 24 bits, which have a sign."""
    low = [(_as(one, "i").astype(np.int64) << 40) >> 40 for one in (x, y)]
    return (low[0] * low[1]).astype(np.int32)


def umul24(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    low = [_bits(one).astype(np.uint64) & np.uint64(0xFFFFFF) for one in (x, y)]
    return (low[0] * low[1]).astype(np.uint32)


def sad(kind: str):
    """|x - y| + z."""
    return lambda x, y, z: (np.abs(_as(x, kind).astype(np.int64) - _as(y, kind).astype(np.int64)) +
                            _bits(z).astype(np.int64)).astype(np.uint32)


def halved(kind: str, up: int):
    """The mean, rounded down, or up by `up`, without overflow."""
    return lambda x, y: _as(x, kind).astype(np.int64) + _as(y, kind).astype(np.int64) + up >> 1


def _view(kind: str):
    return lambda x: _as(x, kind)


FUNCTIONS = {
    "clz": clz, "clzll": clz, "popc": popc, "popcll": popc, "popcount": popc, "ffs": ffs, "ffsll": ffs, "brev": brev,
    "brevll": brev, "byte_perm": byte_perm, "mulhi": mulhi("i"), "umulhi": mulhi("u"), "mul64hi": mulhi("i"),
    "umul64hi": mulhi("u"), "mul24": mul24, "umul24": umul24, "sad": sad("i"), "usad": sad("u"),
    "hadd": halved("i", 0), "uhadd": halved("u", 0), "rhadd": halved("i", 1), "urhadd": halved("u", 1),
    "int_as_float": _view("f"), "uint_as_float": _view("f"), "longlong_as_double": _view("f"),
    "float_as_int": _view("i"), "float_as_uint": _view("i"), "double_as_longlong": _view("i"),
    "double2hiint": lambda x: (_as(x, "i") >> 32).astype(np.int32),
    "double2loint": lambda x: _as(x, "i").astype(np.int32),
    "hiloint2double": lambda high, low: _as(_bits(high).astype(np.uint64) << np.uint64(32) | _bits(low).astype(np.uint64), "f"),
}
