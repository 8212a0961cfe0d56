"""Buffers of any extents, of which Triton's memory descriptors cannot be: arrays of pieces, or buffers of powers of two.

Input: a program before `pad_tiles`. Output: what each buffer with odd extents becomes. For example:

    buffer<fp16[176, 64] x 4>       pieces: buffer<fp16[16, 64] x 44>       11 pieces of 16 rows, if TMA or the tensor cores know it
    buffer<fp16[64, 176] x 2>       pieces: buffer<fp16[64, 16] x 22>       11 stripes as wide as the swizzle
    buffer<fp32[48]>                padded: buffer<fp32[64]>                if it is one row, or only threads read and write it

Pieces lie one behind the other just as the rows and stripes of the whole tile would: the NV-MMA layout of a tile is stripes as
wide as its swizzle, and in each of them groups of 8 rows (PTX ISA, "Shared Memory Matrix Layout"). So a piece's address is where
the hardware finds the tile, and a tile takes the bytes that it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...errors import KernelError
from ...ir import Buffer, Op, Program, Value
from ...ir.extents import is_odd, padded
from ..constraints.defaults import holds_nvmma, nvmma_shared

_ATOM = 8       # rows of a group, in which the swizzle repeats


@dataclass(frozen=True)
class Pieces:
    """The pieces of one tile: `shape` of each, and their `count`. An array of tiles has `tiles` in its extents."""

    shape: tuple[int, int]
    count: int
    tiles: int = 1


def pieces_of(type_: Buffer, op: Op) -> Pieces:
    """The pieces of a buffer that TMA or the tensor cores know. KernelError, about `op`, for extents that they cannot have."""
    rows, columns = type_.shape[-2:] if len(type_.shape) >= 2 else (0, 0)
    swizzle = nvmma_shared((rows, columns), type_.element).swizzle if rows and holds_nvmma(type_.element) else 0
    stripe = 8 * swizzle // type_.element.bits
    whole = not is_odd((rows, ))
    if not swizzle or columns % stripe or not whole and rows % _ATOM:
        raise KernelError(
            f"{type_}: rows of {columns} elements x {type_.element.bytes} bytes = {columns * type_.element.bytes} bytes; TMA "
            "and the tensor cores know tiles of rows of a multiple of 32 bytes, and of a number of rows that is a multiple of "
            f"{_ATOM}.", op.site, hint="make the last extent a multiple of 32 bytes and the other a multiple of 8.")
    height = rows & -rows
    return Pieces((height, stripe), rows // height * (columns // stripe), prod(type_.shape[:-2]))


def odd_arrays(program: Program) -> dict[Value, Pieces | None]:
    """Each array that is made with odd extents: its pieces, or None where its extents are padded."""
    return program.kept(_odd_arrays)


def is_odd_buffer(type_: object) -> bool:
    return isinstance(type_, Buffer) and is_odd(type_.shape)


def padded_buffer(type_: Buffer) -> Buffer:
    """The buffer that holds one of this type, of which only threads read and write elements."""
    return Buffer(type_.element, padded(type_.shape), type_.count, type_.space)


def _odd_arrays(program: Program) -> dict[Value, Pieces | None]:
    roots: dict[Value, Op] = {}
    known: dict[Op, bool] = {}
    for op in program.walk():
        if op.row.allocates == "buffer" and is_odd_buffer(op.result.type):
            roots[op.result], known[op] = op, False
        elif op.viewed is not None and op.viewed in roots:
            roots[op.result] = roots[op.viewed]
        for name, way in op.row.lies.items():
            buffer = getattr(op, name)
            if buffer in roots and way in ("lhs", "rhs", "block") and max(buffer.type.shape[:-1], default=1) > 1:
                known[roots[buffer]] = True
    return {op.result: pieces_of(op.result.type, op) if by_hardware else None for op, by_hardware in known.items()}
