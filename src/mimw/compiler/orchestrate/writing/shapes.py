"""Which tiles Triton spreads by itself, so that the text need not.

Input: the operands of an op. Output: the values to write. For example, of an addition of i32[64, 32] tiles:

    implicit(w, splat(%n), %x)                      %n, %x                  n + x
    implicit(w, broadcast(%rows), broadcast(%cols))     %rows, %cols        rows[:, None] + cols[None, :]

Only a spread that is written inside its user may be left out, and only where Triton's own rule gives the same shape.
"""

from __future__ import annotations

from itertools import product

from ....ir import Value
from .texts import shape_of


def narrow(w, value: Value) -> Value:
    """The value before it is spread to its shape; itself if it is not, or if it has a name of its own."""
    op = w.inlining.inlined(value)
    return op.value if op is not None and op.name in ("splat", "broadcast") else value


def implicit(w, *values: Value) -> tuple[Value, ...]:
    """Operands of one shape, as narrow as Triton spreads them back to it together."""
    shape = shape_of(values[0].type)
    for chosen in product(*((narrow(w, value), value) if narrow(w, value) is not value else (value, ) for value in values)):
        if spread(*(shape_of(one.type) for one in chosen)) == shape:
            return chosen
    return values


def spread(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of tiles that Triton has spread to each other, a scalar to any; None for different ranks, or if they do not fit."""
    tiles = [shape for shape in shapes if shape]
    if len({len(shape) for shape in tiles}) > 1:
        return None
    found = tuple(max(extents) for extents in zip(*tiles))
    fits = all(extent in (1, whole) for shape in tiles for extent, whole in zip(shape, found))
    return found if fits else None
