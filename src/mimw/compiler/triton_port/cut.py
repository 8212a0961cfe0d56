"""Where a part begins that is cut from a buffer in shared memory, for Triton 3.8, which has no op that says so.

Input: a part of a buffer. Output: by how much each bit of the place where it begins moves that in memory, in elements, as a text of
an attribute; and LLVM's ops that compute it:

    offsets(builder, part)      "2 64,128,256 1,2,4,8"      2 bytes an element; rows move it by 64, 128, 256, columns by 1, 2, 4, 8

A buffer's layout is linear: its element (row, column) lies where the bits of row and column, each with an offset of its own, are
exclusive-ored together. A layout names the way back, the coordinates of each bit of the offset, which is inverted here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TYPE = re.compile(r"!ttg\.memdesc<([\dx]+)x([a-z]+\d\w*), .*, ([\dx]+)>")


def offsets(builder, part) -> str:
    """The text for a part of a buffer, whose type names the extents of both."""
    shape, element, allocated = _TYPE.fullmatch(str(part.get_type())).groups()
    rank = shape.count("x") + 1
    extents = [int(extent) for extent in allocated.split("x")][-rank:]
    layout = builder.get_gluon_layout_from_memdesc(part)
    bases = builder.to_linear_layout(layout._to_ir(builder), extents).offset_bases
    found = inverse([tuple(basis) for basis in bases], extents)
    size = max(8, int(re.search(r"\d+", element)[0])) // 8
    return " ".join([str(size), *(",".join(map(str, moves)) for moves in found)])


def inverse(bases: list[tuple[int, ...]], extents: list[int]) -> list[list[int]]:
    """The offset of each power of two along each dimension; `bases` has the coordinates of each bit of an offset."""
    rows = [(basis, 1 << bit) for bit, basis in enumerate(bases)]
    for dim, extent in enumerate(extents):      # Gauss and Jordan: at the end each row has one bit of one dimension
        for bit in range(extent.bit_length() - 1):
            pivot = next(row for row in rows if row[0][dim] >> bit & 1 and not _settled(row[0], dim, bit))
            rows = [_xor(row, pivot) if row is not pivot and row[0][dim] >> bit & 1 else row for row in rows]
    alone = {_only(basis): offset for basis, offset in rows if any(basis)}
    return [[alone[dim, bit] for bit in range(extent.bit_length() - 1)] for dim, extent in enumerate(extents)]


def _settled(basis: tuple[int, ...], dim: int, bit: int) -> bool:
    """True if the row is the pivot of an earlier bit: that is the only row which has it."""
    return any(basis[:dim]) or basis[dim] & ((1 << bit) - 1) != 0


def _xor(row: tuple, other: tuple) -> tuple:
    return tuple(one ^ two for one, two in zip(row[0], other[0], strict=True)), row[1] ^ other[1]


def _only(basis: tuple[int, ...]) -> tuple[int, int]:
    """The one dimension and bit of a basis that has no other."""
    (dim, value), = [(dim, value) for dim, value in enumerate(basis) if value]
    if value & (value - 1):
        raise ValueError("the layout of a buffer is no linear map that can be inverted")
    return dim, value.bit_length() - 1


def begins(text: str, value: str, struct: str, named: Callable[[str], str]) -> str:
    """The name of the bytes from the buffer's begin to the part's; `value` is the part as LLVM's struct, whose first member is an
    address and whose others are the coordinates where it begins. `named` writes one op."""
    size, *dims = text.strip('"').split(" ")
    total = named("llvm.mlir.constant(0 : i32) : i32")
    one = named("llvm.mlir.constant(1 : i32) : i32")
    for dim, moves in enumerate(dims):
        at = named(f"llvm.extractvalue {value}[{dim + 1}] : {struct}")
        for bit, move in enumerate(filter(None, moves.split(","))):
            shift = named(f"llvm.mlir.constant({bit} : i32) : i32")
            factor = named(f"llvm.mlir.constant({int(move) * int(size)} : i32) : i32")
            moved = named(f"llvm.lshr {at}, {shift} : i32")
            set_ = named(f"llvm.and {moved}, {one} : i32")
            total = named(f"llvm.xor {total}, {named(f'llvm.mul {set_}, {factor} : i32')} : i32")
    return total
