"""How tensor cores are told of a product: the descriptors of its operands in shared memory, and that of the instruction.

Input: types and layouts of a product's operands. Output: constants. An example, A (128, 64) of bf16 with a swizzle of 128 bytes:

    operand(layout, (128, 64), 16, k_axis=1)      high word 0x40004040; the four steps along K begin 0, 32, 64 and 96 bytes further
    instruction(..., rows=256, columns=256)       0x10400490

PTX ISA, "tcgen05 shared memory descriptor", "tcgen05 instruction descriptor", "Strides". The constants are those of Triton's own
code for two CTAs (tests/lowering/test_pair_constants.py compares them).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.layouts import NvmmaShared
from ...ir.types import Scalar

STEP_BYTES = 32         # of K that one instruction takes
_UNIT = 16              # of addresses and strides in a descriptor
_VERSION = 1 << 14      # bit 46
_SWIZZLES = {128: 2, 64: 4, 32: 6}      # bits 61 to 63
_KINDS = {"fp16": ("f16", 0), "bf16": ("f16", 1), "fp32": ("tf32", 2), "fp8e4nv": ("f8f6f4", 0), "fp8e5": ("f8f6f4", 1),
          "i8": ("i8", 1)}
_FLOAT_SUM, _INT_SUM = 1, 2


@dataclass(frozen=True)
class Operand:
    """An operand in shared memory: the upper word of its descriptors, and of each step along K what is added to the lower word,
    whose low bits are the buffer's address in units of 16 bytes."""

    high: int
    steps: tuple[int, ...]
    k_major: bool


def operand(layout: NvmmaShared, shape: tuple[int, int], allocated: tuple[int, int], element: Scalar, k_axis: int) -> Operand:
    """How tensor cores read a buffer.

    args:      shape      of the operand: (M, K) with `k_axis` 1, (K, N) with `k_axis` 0
               allocated  shape of the tile that the buffer is a view of
    """
    swizzle, size = layout.swizzle, element.bits // 8
    k_major = (k_axis == 0) == layout.transposed
    count = shape[k_axis] * size // STEP_BYTES
    across = 1 - k_axis
    if k_major:     # stripes of `swizzle` bytes of K, each with all rows
        starts = (step * STEP_BYTES // swizzle * allocated[across] * swizzle + step * STEP_BYTES % swizzle for step in range(count))
        leading = 0
    else:           # stripes of `swizzle` bytes of the other dimension, each with all of K
        starts = (step * STEP_BYTES // size * swizzle for step in range(count))
        leading = allocated[k_axis] * swizzle if shape[across] * size > swizzle else 0
    high = _SWIZZLES[swizzle] << 29 | _VERSION | 8 * swizzle // _UNIT
    return Operand(high, tuple(leading // _UNIT << 16 | start // _UNIT for start in starts), k_major)


def kind(element: Scalar) -> str:
    """The `.kind` of products of that type."""
    return _KINDS[element.name][0]


def instruction(a: Scalar, b: Scalar, a_k_major: bool, b_k_major: bool, rows: int, columns: int) -> int:
    """The instruction descriptor of a product of `rows` x `columns`, those of all CTAs that work on it."""
    result = _INT_SUM if a.name == "i8" else _FLOAT_SUM
    return (result << 4 | _KINDS[a.name][1] << 7 | _KINDS[b.name][1] << 10 | (not a_k_major) << 15 | (not b_k_major) << 16 |
            columns >> 3 << 17 | rows >> 4 << 24)
