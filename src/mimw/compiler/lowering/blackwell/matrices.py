"""Descriptors for tensor cores: those of a product's operands in shared memory and of the instruction; for a copy to tensor
memory, those of its source.

Input: types and layouts of a product's operands. Output: constants. An example, A (128, 64) of bf16 with a swizzle of 128 bytes:

    operand(layout, (128, 64), 16, k_axis=1)      high word 0x40004040; the four steps along K begin 0, 32, 64 and 96 bytes further
    instruction(..., rows=256, columns=256)       0x10400490

PTX ISA, "tcgen05 shared memory descriptor", "tcgen05 instruction descriptor", "Strides", "Scale factor layouts". The constants are
those of Triton's own code for two CTAs (tests/lowering/test_pair_constants.py and test_scaled_pair_constants.py compare them).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....ir.layouts import NvmmaShared
from ....ir.tensor_memory import row_groups
from ....ir.types import Scalar

STEP_BYTES = 32         # of K that one instruction takes
_UNIT = 16              # of addresses and strides in a descriptor
_VERSION = 1 << 14      # bit 46
_SWIZZLES = {128: 2, 64: 4, 32: 6}      # bits 61 to 63
_KINDS = {"fp16": ("f16", 0), "bf16": ("f16", 1), "fp32": ("tf32", 2), "fp8e4nv": ("f8f6f4", 0), "fp8e5": ("f8f6f4", 1),
          "i8": ("i8", 1)}
_FLOAT_SUM, _INT_SUM = 1, 2
_FP4 = "e2m1"
_FORMATS = {"e4m3": 0, "e5m2": 1, _FP4: 5}
_FP4_BY_FP4 = 1         # the format of both operands of an instruction that multiplies fp4 by fp4
_E8M0 = 1
_BLOCK_ROWS, _BLOCK_COLUMNS, _BLOCK_BYTES = 128, 4, 512     # of scales that one copy brings
_BLOCK_GROUPS = 4       # columns of tensor memory that such a block takes: 32 rows in each
_ATOM_BYTES, _ATOMS = 128, 8        # of the address that a descriptor's base offset counts


@dataclass(frozen=True)
class Operand:
    """An operand in shared memory: the upper word of its descriptors, and for each step along K the addend of the lower word,
    whose low bits are the buffer's address in units of 16 bytes."""

    high: int
    steps: tuple[int, ...]
    k_major: bool


def operand(layout: NvmmaShared, shape: tuple[int, int], allocated: tuple[int, int], element: Scalar, k_axis: int) -> Operand:
    """The form in which tensor cores read a buffer.

    args:      shape      of the operand: (M, K) with `k_axis` 1, (K, N) with `k_axis` 0
               allocated  shape of the tile that the buffer is a view of
    """
    swizzle, size = layout.swizzle, element.bits // 8 * (1 + layout.fp4_padded)
    k_major = (k_axis == 0) == layout.transposed
    count = shape[k_axis] * size // STEP_BYTES
    across = 1 - k_axis
    if k_major:     # stripes of `swizzle` bytes of K, each with all rows
        starts = (step * STEP_BYTES // swizzle * allocated[across] * swizzle + step * STEP_BYTES % swizzle for step in range(count))
        leading = 0
    else:           # stripes of `swizzle` bytes of the other dimension, each with all of K
        starts = (step * STEP_BYTES // size * swizzle for step in range(count))
        leading = allocated[k_axis] * swizzle if shape[across] * size > swizzle else 0
    stride = 8 * swizzle if not k_major or shape[across] > 8 else 0      # from 8 rows to the next
    high = _SWIZZLES[swizzle] << 29 | _VERSION | stride // _UNIT
    return Operand(high, tuple(leading // _UNIT << 16 | start // _UNIT for start in starts), k_major)


def kind(element: Scalar) -> str:
    """The `.kind` of products of that type."""
    return _KINDS[element.name][0]


def instruction(a: Scalar, b: Scalar, a_k_major: bool, b_k_major: bool, rows: int, columns: int) -> int:
    """The instruction descriptor of a product of `rows` x `columns`, those of all CTAs that work on it."""
    result = _INT_SUM if a.name == "i8" else _FLOAT_SUM
    return (result << 4 | _KINDS[a.name][1] << 7 | _KINDS[b.name][1] << 10 | (not a_k_major) << 15 | (not b_k_major) << 16 |
            columns >> 3 << 17 | rows >> 4 << 24)


# ---- block scales -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaled:
    """The inputs of one instruction of a product with block scales, besides its operands: the instruction descriptor, and the
    first column of the scales of A and of B, counted from the start of their tables."""

    instruction: int
    a_scale: int
    b_scale: int


def scaled_kind(a_format: str, b_format: str, block: int) -> str:
    """The `.kind` of products in these formats, with a scale for each `block` elements along K."""
    if a_format == b_format == _FP4:
        return "mxf4.block_scale.block32" if block == 32 else "mxf4nvf4.block_scale.block16"
    return "mxf8f6f4.block_scale.block32"


def scaled_instructions(a_format: str, b_format: str, block: int, a_k_major: bool, b_k_major: bool, rows: int, columns: int,
                        table_rows: tuple[int, int], steps: int) -> Iterator[Scaled]:
    """The inputs of the instruction for each of the `steps` along K.

    args:      rows, columns  of the product, those of all CTAs that work on it
               table_rows     of the tables of A's and of B's scales: 4 scales of a row are one column of tensor memory, for 32 rows
    """
    both = a_format == b_format == _FP4
    a, b = (_FP4_BY_FP4, _FP4_BY_FP4) if both else (_FORMATS[a_format], _FORMATS[b_format])
    scales = STEP_BYTES * (1 + both) // block
    told = (a << 7 | b << 10 | (not a_k_major) << 15 | (not b_k_major) << 16 | columns >> 3 << 17 |
            (block == 32) * _E8M0 << 23 | rows >> 7 << 27)
    for step in range(steps):
        group, number = divmod(step * scales, _BLOCK_COLUMNS)
        yield Scaled(told | number << 4 | number << 29, *(group * row_groups(rows) for rows in table_rows))


def packed_scales(rows: int, columns: int) -> Iterator[tuple[int, int, int]]:
    """(upper word of the descriptor, addend of its lower word, column in the table) of each copy of a block of packed scales,
    of a table of `rows` x `columns`."""
    down, across = rows // _BLOCK_ROWS, columns // _BLOCK_COLUMNS
    for column in range(across):
        for row in range(down):
            start = (row * across + column) * _BLOCK_BYTES
            offset = start // _ATOM_BYTES % _ATOMS
            yield offset << 17 | _VERSION | _ATOM_BYTES // _UNIT, start // _UNIT, (column * down + row) * _BLOCK_GROUPS
