"""Padded buffers must keep the accesses aligned that the compiled kernel makes.

Triton reads and writes a padded buffer as wide as an interval allows, up to 16 bytes at a time, and does not look at where the
padding puts the next interval: 8 bytes of padding behind 16 make every other 16-byte access one at a multiple of 8, and the GPU
stops with "misaligned address". Only the finished layouts determine the width of the accesses.
Input: the program, the chosen shared layouts, and for each array its accesses. Output: nothing, or
a `KernelError`:

    check_padding(program, {buffer: padded(8 after 16)}, {buffer: [TileAccess(blocked(each (1, 16) ..))]})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...errors import KernelError
from ...ir import Op, Program, Value
from ...ir.layouts import PaddedShared, RegisterLayout, SharedLayout
from ...ir.linear import linear_of
from ..constraints.bank_counts import TileAccess

_WIDEST = 16  # bytes: PTX ISA, ld.shared.v4.b32


def check_padding(program: Program, layouts: Mapping[Value, SharedLayout],
                  accesses: Mapping[Value, Iterable[TileAccess]]) -> None:
    """Raise `KernelError` for the first buffer whose padding breaks the alignment of an access."""
    for op in program.walk():
        layout = layouts.get(op.result) if op.name == "local_alloc" else None
        if isinstance(layout, PaddedShared):
            for access in accesses.get(op.result, ()):
                _check(op, layout, access.layout, access.transposed)


def _check(op: Op, layout: PaddedShared, tile: RegisterLayout | None, transposed: bool) -> None:
    size = op.result.type.element.bytes
    width = min(_WIDEST, size * _together(layout, tile, transposed))
    for interval, padding in layout.pairs:
        if padding * size % width:
            raise KernelError(
                f"'{op.result.name}' has {padding * size} bytes of padding after each {interval * size}, and is read or written "
                f"{width} bytes at a time: behind the first padding these are no longer at multiples of {width}.", op.site,
                hint=f"pad by a multiple of {width // size} elements ({width} bytes).")


def _together(layout: PaddedShared, tile: RegisterLayout | None, transposed: bool) -> int:
    """The number of elements that follow each other in the buffer and that one thread holds; 1 if unknown."""
    shape = layout.shape[::-1] if transposed else layout.shape
    linear = linear_of(tile, shape) if tile is not None else None
    held = {basis[::-1] if transposed else tuple(basis) for basis in linear.registers} if linear else set()
    most, count = min(interval for interval, _ in layout.pairs), 1
    for basis in layout.bases:
        if tuple(basis) not in held or count * 2 > most:
            break
        count *= 2
    return count
