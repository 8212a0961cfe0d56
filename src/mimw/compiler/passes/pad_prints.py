"""Prints of tiles with odd extents: part by part, since Triton prints all that a thread holds, idle elements, too.

Input: a `print` of the program as the author has it. Output: a print of each part of powers of two, which says where it lies. For
example, of 12 elements:

    print " x: " %x     print " x[0:8]: " (cut %x (0) (8));  print " x[8:12]: " (cut %x (8) (4))
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ...ir import Op
from ...ir.extents import is_odd
from .pad_ends import Padding, end


@end("print")
def print_(padding: Padding, op: Op) -> None:
    """One operand after the other; several have numbers, as Triton's own have."""
    writer = padding.writer
    for number, (value, signed) in enumerate(zip(op.values, op.signed)):
        said = op.prefix.removesuffix(": ") + (f" (operand {number})" if len(op.values) > 1 else "")
        tile, shape = writer.now(value), getattr(value.type, "shape", ())
        for lines in product(*map(_lines, shape)) if is_odd(shape) else ((), ):
            part = writer.emit("cut", (tile, *zip(*lines))) if lines else tile
            where = ", ".join(f"{first}:{first + extent}" for first, extent in lines)
            writer.emit("print", (f"{said}[{where}]: " if lines else f"{said}: ", op.hex, (part, ), (signed, )))


def _lines(extent: int) -> Iterator[tuple[int, int]]:
    """Parts of a line, each a power of two at a multiple of it: the first element, and how many."""
    first = 0
    while extent:
        part = 1 << extent.bit_length() - 1
        yield first, part
        first, extent = first + part, extent - part
