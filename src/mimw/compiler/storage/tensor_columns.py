"""Columns of tensor memory: the arrays of a program with their places, and the arrays that share columns.

Input: a program after `place_tensor_memory`. Output: a `TensorArray` for each array, and the columns that the CTA allocates:

    s = local_alloc((128, 128), fp32, 2, tmem, reuse=spec)      TensorArray("s", ..., Place(0, 128, 128, 2), shared_with=("p", ))
    p = local_alloc((128, 128), fp16, 2, tmem, reuse=spec)      TensorArray("p", ..., Place(0, 128, 64, 2), shared_with=("s", ))
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Buffer, Place, Program, Site

SPACE = "tmem"


@dataclass(frozen=True)
class TensorArray:
    """An array of buffers; `place` is in columns, and `shared_with` names the other arrays that have some of them too."""

    name: str
    type: Buffer
    place: Place
    site: Site
    shared_with: tuple[str, ...] = ()


def tensor_arrays(program: Program) -> list[TensorArray]:
    """The arrays in tensor memory by first column, the widest of one place first; none before they have their places."""
    found = []
    for op in program.walk():
        if op.row.allocates == "buffer" and op.result.type.space == SPACE and "place" in op.attrs:
            found.append(TensorArray(op.result.name or f"line {op.site.line}", op.result.type, op.attrs["place"], op.site))
    found.sort(key=lambda array: (array.place.offset, -array.place.size))
    return [replace(array, shared_with=tuple(other.name for other in found if other is not array
                                             and not columns(array.place).isdisjoint(columns(other.place)))) for array in found]


def columns(place: Place) -> frozenset[int]:
    """All columns of an array."""
    return frozenset(first + column for first in map(place.start, range(place.count)) for column in range(place.size))


def allocated_columns(program: Program) -> int:
    """The columns that a CTA takes, a power of two; 0 without tensor memory."""
    return max((op.attrs["bytes"] for op in program.walk()
                if op.row.allocates == "storage" and op.result.type.space == SPACE and "bytes" in op.attrs), default=0)
