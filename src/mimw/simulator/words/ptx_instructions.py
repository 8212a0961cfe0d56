"""What single instructions of PTX compute: moves, arithmetic, logic, and reductions of a warp.

Input: an opcode. Output: a function of the registers and the operands' names, or None for one without a meaning here. For example:

    meaning("fma.rn.f32x2")(registers, ["d", "a", "b", "c"])      d = a * b + c for both halves of 64 bits

Names and meanings: PTX ISA, "Instructions". Numbers are computed as numpy does it: what PTX calls .approx, and what a chip computes
with fewer bits than fp32 has, may differ in the last bits from what a GPU gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np

from .lanes import across

FLOATS = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32),
          "f64": np.dtype(np.float64)}
_LITERAL = re.compile(r"0[fF]([0-9a-fA-F]{8})$|0[dD]([0-9a-fA-F]{16})$|(-?0[xX][0-9a-fA-F]+|-?\d+)[uU]?$"
                      r"|(-?\d+\.\d*(?:[eE][-+]?\d+)?)$")
_ONE, _TWO = {"abs": np.abs, "neg": np.negative}, {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_APPROXIMATE = {"tanh": np.tanh, "ex2": np.exp2, "lg2": np.log2, "rcp": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x),
                "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "div": np.divide}
_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_ROUNDINGS = {"rn", "rz", "rm", "rp"}


def number(text: str, bits: int):
    """The bits of a literal; None for a name."""
    match = _LITERAL.match(text)
    if match is None:
        return None
    single, double, integer, decimal = match.groups()
    if decimal:
        value = int(np.array(float(decimal), FLOATS[{16: "f16", 32: "f32", 64: "f64"}[bits]]).view(f"u{bits // 8}"))
    else:
        value = int(single or double, 16) if single or double else int(integer, 0)
    return np.uint64(value & ((1 << bits) - 1))


def as_floats(bits: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The low bits of registers as numbers."""
    return np.asarray(bits).astype(f"u{dtype.itemsize}").view(dtype)


def as_bits(values: np.ndarray) -> np.ndarray:
    """Numbers as the low bits of registers."""
    values = np.asarray(values)
    return np.ascontiguousarray(values).reshape(values.shape).view(f"u{values.dtype.itemsize}").astype(np.uint64)


def meaning(opcode: str) -> Callable | None:
    """The function of an instruction, by its name and its modifiers."""
    name, *modifiers = opcode.split(".")
    kind = modifiers[-1] if modifiers else ""
    rest = modifiers[:-1]
    if name == "mov" and (bits := _bits(kind)):
        return lambda registers, operands: registers.write(operands[0], registers.read(operands[1], bits), bits)
    if name == "prmt" and modifiers == ["b32"]:
        return _permuted
    if name == "nanosleep":
        return lambda registers, operands: None
    if name == "redux" and rest[:1] == ["sync"]:
        return _redux(rest[1:], kind)
    if name in _LOGIC and kind[:1] == "b":
        return _elements(_LOGIC[name], _bits(kind), None)
    if name == "not" and kind[:1] == "b":
        return _elements(np.invert, _bits(kind), None)
    if name in ("shl", "shr") and kind[:1] in "bus":
        return _shift(name, kind)
    if kind[:1] in ("u", "s") and kind[1:].isdigit():
        return _integers(name, rest, kind)
    return _floats(name, rest, kind)


def _bits(kind: str) -> int:
    match = re.fullmatch(r"[busf](8|16|32|64)", kind)
    return int(match[1]) if match else 0


def _permuted(registers, operands: list[str]) -> None:
    """Four bytes of the eight that two registers have, as four digits choose; a digit from 8 on repeats the byte's sign."""
    target, low, high, chosen = operands
    both = registers.read(low, 32) | registers.read(high, 32) << np.uint64(32)
    digits, made = registers.read(chosen, 32), np.uint64(0)
    for place in range(4):
        digit = digits >> np.uint64(4 * place) & np.uint64(15)
        byte = both >> (digit & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = (byte >> np.uint64(7)) * np.uint64(255)
        made = made | np.where(digit & np.uint64(8), sign, byte).astype(np.uint64) << np.uint64(8 * place)
    registers.write(target, made, 32)


def _floats(name: str, modifiers: list[str], kind: str) -> Callable | None:
    scalar, lanes = (kind.removesuffix("x2"), 2) if kind.endswith("x2") else (kind, 1)
    dtype, given = FLOATS.get(scalar), set(modifiers)
    if dtype is None or given & _ROUNDINGS - {"rn"}:
        return None
    function = None
    if name in _TWO or name in _ONE:
        function = {**_TWO, **_ONE}[name] if given <= {"rn", "ftz"} else None
    elif name == "fma" and given <= {"rn", "ftz"}:
        function = _fma
    elif name in ("max", "min") and given <= {"ftz", "NaN"}:
        function = {"max": (np.fmax, np.maximum), "min": (np.fmin, np.minimum)}[name]["NaN" in given]
    elif name in _APPROXIMATE and given <= {"approx", "ftz", "rn", "full"}:
        function = _APPROXIMATE[name]
    return None if function is None else _elements(function, 8 * dtype.itemsize * lanes, dtype, "ftz" in given)


def _fma(x, y, z):
    """Rounded once: two fp32 make a product of 48 bits, which fp64 holds; its sum is rounded to odd before the last rounding."""
    if x.dtype == np.float64:
        return x * y + z
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    with np.errstate(invalid="ignore"):
        back = total - product
        error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    towards = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, (bits + towards).view(np.float64), total).astype(x.dtype)


def _elements(function: Callable, bits: int, dtype: np.dtype | None, flush: bool = False) -> Callable:
    """`function` of the lanes of all operands: of bits, or of numbers of `dtype`."""

    def run(registers, operands):
        target, *sources = operands
        taken = [registers.read(source, bits) for source in sources]
        if dtype is None:
            registers.write(target, function(*taken) & np.uint64((1 << bits) - 1), bits)
            return
        total, size = np.uint64(0), 8 * dtype.itemsize
        with np.errstate(all="ignore"):
            for place in range(bits // size):
                shift = np.uint64(place * size)
                values = [_flushed(as_floats(one >> shift & np.uint64((1 << size) - 1), dtype), flush) for one in taken]
                total = total | as_bits(_flushed(function(*values).astype(dtype), flush)) << shift
        registers.write(target, total, bits)

    return run


def _flushed(values, flush: bool):
    """.ftz: what is below the normal numbers becomes zero of the same sign."""
    if not flush:
        return values
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(0, values), values).astype(values.dtype)


def _shift(name: str, kind: str) -> Callable:
    bits, signed = _bits(kind), kind.startswith("s")

    def run(registers, operands):
        value, by = registers.read(operands[1], bits), np.minimum(registers.read(operands[2], 32), np.uint64(bits))
        if name == "shl":
            made = np.where(by >= 64, np.uint64(0), value << np.minimum(by, np.uint64(63)))
        elif signed:
            wide = value.astype(f"u{bits // 8}").view(f"i{bits // 8}").astype(np.int64)
            made = (wide >> np.minimum(by, np.uint64(63)).astype(np.int64)).view(np.uint64)
        else:
            made = np.where(by >= 64, np.uint64(0), value >> np.minimum(by, np.uint64(63)))
        registers.write(operands[0], made & np.uint64((1 << bits) - 1), bits)

    return run


def _integers(name: str, modifiers: list[str], kind: str) -> Callable | None:
    bits, wide = int(kind[1:]), f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}"
    function = {"": _WHOLE, "lo": _LOW_HALF}.get(".".join(modifiers), {}).get(name)
    if function is None:
        return None

    def run(registers, operands):
        target, *sources = operands
        values = [np.asarray(registers.read(source, bits)).astype(f"u{bits // 8}").view(wide) for source in sources]
        with np.errstate(over="ignore"):
            registers.write(target, as_bits(np.asarray(function(*values)).astype(wide)), bits)

    return run


def _redux(modifiers: list[str], kind: str) -> Callable | None:
    """PTX ISA, redux.sync: over the lanes that hold the register of a warp, all 32."""
    operation, *rest = modifiers
    if kind == "f32" and operation in ("max", "min") and set(rest) <= {"abs", "NaN"}:
        reduce = {"max": (np.fmax, np.maximum), "min": (np.fmin, np.minimum)}[operation]["NaN" in rest]
        dtype = FLOATS["f32"]
    elif not rest and (kind, operation) in _INTEGER_REDUX:
        reduce, dtype = _INTEGER_REDUX[kind, operation], np.dtype(np.int32 if kind == "s32" else np.uint32)
    else:
        return None

    def run(registers, operands):
        target, source, lanes = operands
        if int(registers.read(lanes, 32)) != 0xFFFF_FFFF:
            raise registers.refused(f"redux.sync of the lanes {lanes}, not of all")
        values = as_floats(registers.read(source, 32), dtype)
        values = np.abs(values) if "abs" in rest else values
        registers.write(target, as_bits(across(reduce, values, registers.steps)), 32)

    return run


# By their modifiers: none, or .lo, the low half of a product.
_WHOLE = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "abs": np.abs, "neg": np.negative}
_LOW_HALF = {"mul": np.multiply, "mad": lambda x, y, z: x * y + z}
_INTEGER_REDUX = {("u32", "add"): np.add, ("u32", "min"): np.minimum, ("u32", "max"): np.maximum, ("s32", "add"): np.add,
                  ("s32", "min"): np.minimum, ("s32", "max"): np.maximum, ("b32", "and"): np.bitwise_and,
                  ("b32", "or"): np.bitwise_or, ("b32", "xor"): np.bitwise_xor}
