"""Buffers of any extents, of which Triton's memory descriptors cannot be: arrays of pieces, or buffers of powers of two.

Input: a program before `pad_tiles`. Output: what each buffer with odd extents becomes. For example:

    buffer<fp16[176, 64] x 4>       pieces: buffer<fp16[16, 64] x 44>       11 of 16 rows, if TMA or the tensor cores know it
    buffer<fp16[64, 176] x 2>       pieces: buffer<fp16[64, 16] x 22>       11 stripes as wide as the swizzle
    buffer<fp32[48]>                padded: buffer<fp32[64]>                if it is one row, or only threads read and write it

Pieces lie one behind the other just as the rows and stripes of the whole tile would: the NV-MMA layout of a tile is stripes as
wide as its swizzle, and in each of them groups of 8 rows (PTX ISA, "Shared Memory Matrix Layout"). So a piece's address is where
the hardware finds the tile, and a tile takes the bytes that it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from ...errors import KernelError
from ...ir import Buffer, Builder, Op, Place, Program, Scalar, Value
from ...ir.extents import is_odd, padded
from ..analysis import uses_of
from ..constraints.defaults import holds_nvmma, nvmma_shared
from ..constraints.memory_roots import memory_roots
from ..constraints.views import find_views

_ATOM = 8       # rows of a group, in which the swizzle repeats
_BY_HARDWARE = ("lhs", "rhs", "left", "right", "block")


@dataclass(frozen=True)
class Pieces:
    """The pieces of one tile of the extents `around`: `shape` of each, and their `count`. An array of tiles has `tiles` in its
    extents."""

    around: tuple[int, int]
    shape: tuple[int, int]
    count: int
    tiles: int = 1

    @property
    def of_stripe(self) -> int:
        """The number of pieces in one stripe of columns."""
        return self.around[0] // self.shape[0]

    def bytes_of(self, element: Scalar) -> int:
        """The bytes of one piece."""
        return prod(self.shape) * element.bytes


@dataclass(frozen=True)
class Lies:
    """A view of pieces: where they are, and how the view runs over them.

    fields:  pieces    of the tile that it is a part of
             shape     the author's extents, before any turn
             array     the new array of pieces
             first     the number of its first piece there
             straight  the new view of that piece; None of an array of tiles
             turned    True if the author's view is the transposed one
             place     of an array in storage that it shares
    """

    pieces: Pieces
    shape: tuple[int, ...]
    array: Value
    first: Value | int
    straight: Value | None = None
    turned: bool = False
    place: Place | None = None

    @property
    def is_whole(self) -> bool:
        """True of a tile that is one piece: its view is a buffer like any other."""
        return self.shape == self.pieces.shape

    @property
    def cut(self) -> tuple[int, ...]:
        """The attribute `pieces` of an access by threads: rows, columns, and the pieces of a stripe."""
        return *self.shape, self.pieces.of_stripe

    def straightened(self, writer: Builder, tile: Value | None) -> Value | None:
        """A tile of the view's as the pieces lie, or the other way round."""
        return writer.emit("trans", (tile, (1, 0))) if self.turned and tile is not None else tile


def pieces_of(type_: Buffer, op: Op, rows_together: int = 0) -> Pieces:
    """The pieces of a buffer that TMA or the tensor cores know: stripes as wide as the swizzle, by as many rows as go into all of
    them, and into `rows_together`. KernelError, about `op`, for extents that they cannot have."""
    rows, columns = type_.shape[-2:] if len(type_.shape) >= 2 else (0, 0)
    tiles = prod(type_.shape[:-2])
    if rows and not is_odd((rows, columns)) and rows_together in (0, rows):
        return Pieces((rows, columns), (rows, columns), 1, tiles)
    swizzle = nvmma_shared((rows, columns), type_.element).swizzle if rows and holds_nvmma(type_.element) else 0
    stripe = 8 * swizzle // type_.element.bits
    if not swizzle or columns % stripe or rows % _ATOM:
        raise KernelError(
            f"{type_}: rows of {columns} elements x {type_.element.bytes} bytes = {columns * type_.element.bytes} bytes; TMA "
            "and the tensor cores know tiles of rows of a multiple of 32 bytes, and of a number of rows that is a multiple of "
            f"{_ATOM}.", op.site, hint="make the last extent a multiple of 32 bytes and the other a multiple of 8.")
    height = gcd(rows, rows_together)
    height &= -height
    return Pieces((rows, columns), (height, stripe), rows // height * (columns // stripe), tiles)


def odd_arrays(program: Program) -> dict[Value, Pieces | None]:
    """Each array that is made with odd extents: its pieces, or None where its extents are padded."""
    return program.kept(_odd_arrays)


def picked_arrays(program: Program) -> frozenset[Value]:
    """The arrays, and the storage that some share, of which threads pick single elements."""
    return program.kept(_picked_arrays)


def _picked_arrays(program: Program) -> frozenset[Value]:
    roots = memory_roots(program)
    picking = program.where(lambda row: {"buffer", "indices"} <= row.places.keys() and bool(row.touches))
    return frozenset(root for op in picking for root in roots.get(op.buffer, ()))


def is_odd_buffer(type_: object) -> bool:
    return isinstance(type_, Buffer) and is_odd(type_.shape)


def is_row(type_: Buffer) -> bool:
    """True of a buffer that is a single row, which lies the same with padding behind it."""
    return max(type_.shape[:-1], default=1) == 1


def padded_buffer(type_: Buffer) -> Buffer:
    """The buffer that holds one of this type, of which only threads read and write elements."""
    return Buffer(type_.element, padded(type_.shape), type_.count, type_.space)


def _odd_arrays(program: Program) -> dict[Value, Pieces | None]:
    """Pieces of what TMA or the tensor cores know, single rows left out, and of what is cut or shares its memory, if it can be in
    pieces."""
    views = find_views(program)
    known = {view.alloc for op in program.walk() for name, way in op.row.lies.items() if way in _BY_HARDWARE
             for view in views.get(getattr(op, name), ()) if not is_row(getattr(op, name).type)}
    odd = {view.alloc for value, found in views.items() if is_odd_buffer(value.type) for view in found
           if not (view.slices and len(value.type.shape) == 1)}
    boxes: dict[Value, set[Op]] = {}
    for view in (view for found in views.values() for view in found):
        boxes.setdefault(view.alloc, set()).update(cut for cut, _ in view.slices if len(cut.shape) > 1)
    made = {}
    for op in program.where(lambda row: row.allocates == "buffer"):
        if op.result in odd and op.type.space == "tmem":
            made[op.result] = None
        elif op.result in odd:
            cuts = boxes.get(op.result, ())
            rows = gcd(*(cut.shape[-2] for cut in cuts))
            made[op.result] = _pieces(op, rows, op.result in known, bool(cuts) or op.reuse is not None)
    return made


def _pieces(op: Op, rows_together: int, known: bool, inside: bool) -> Pieces | None:
    """The pieces of a buffer that hardware has `known`, or that may not be padded since others lie `inside` or behind it."""
    try:
        return pieces_of(op.result.type, op, rows_together) if known or inside else None
    except KernelError:
        if known:
            raise
        return None


def reused_operands(program: Program) -> frozenset[Op]:
    """The waits for products behind which their task writes, or has TMA write, into memory that products of the task have read."""
    return program.kept(_reused_operands)


def _reused_operands(program: Program) -> frozenset[Op]:
    uses, roots = uses_of(program), memory_roots(program)
    read, written = {}, {}
    for op in program.where(lambda row: bool(row.touches)):
        for name, access in op.row.touches:
            found = roots.get(getattr(op, name), frozenset()) if isinstance(getattr(op, name), Value) else frozenset()
            if op.name == "async_dot" and found:
                read.setdefault(uses.task(op), set()).update(found)
            elif access in ("write", "async-write"):
                written.setdefault(uses.task(op), set()).update(found)
    return frozenset(op for op in program.named("async_dot_wait")
                     if not read.get(uses.task(op), set()).isdisjoint(written.get(uses.task(op), ())))
