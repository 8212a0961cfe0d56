"""Overlap of operands in local memory: the output of an operation must not overlap an input, unless both are the same
elements.

Input: a program and its target. Output: nothing, or `PartlyOverwritten` with the two boxes. For example, where `a` has 64 elements
in UB:

    lower, upper = tle.dsa.subview(a, [0], [40], [1]), tle.dsa.subview(a, [24], [40], [1])
    tle.dsa.add(lower, upper, upper)        PartlyOverwritten: `out`, elements 24 to 63 of 'a', overlaps `lhs`, elements 0 to 39

A vector unit works block by block, so that which elements it has overwritten when it reads is not defined. In place, with equal
boxes, every element is read before it is written. Boxes are compared whose offsets are known when compiling; the simulator
looks at all others. On GPUs an operation reads all of its operands first; there nothing is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import PartlyOverwritten
from ...ir import Op, Program, Value
from ...target import Target
from ..analysis import constant_of, uses_of


@dataclass(frozen=True)
class Box:
    """The elements `start + j * step` of `root`, for each j below `size`, along each axis."""

    root: Value
    axes: tuple[tuple[int, int, int], ...]

    def overlaps(self, other: Box) -> bool:
        """True if some element is in both, and not all are the same."""
        return self.root is other.root and self.axes != other.axes and all(map(_meet, self.axes, other.axes))

    def __str__(self) -> str:
        text = ", ".join(f"{start} to {start + (size - 1) * step}" + (f" in steps of {step}" if step > 1 else "")
                         for start, size, step in self.axes)
        return f"elements {text} of {self.root.name or 'a buffer'!r}"


def _meet(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """True if two runs of numbers have a number in common."""
    short, long = sorted((one, other), key=lambda run: run[1])
    start, size, step = long
    return any(0 <= at - start <= (size - 1) * step and (at - start) % step == 0
               for at in range(short[0], short[0] + short[1] * short[2], short[2]))


def check_overlap(program: Program, target: Target) -> None:
    """Raise `PartlyOverwritten` for the first operation that writes a part of its own input."""
    if target.binary:
        return
    uses = uses_of(program)
    for op in program.where(lambda row: "dsa" in row.traits and "out" in row.places):
        written = _box(uses, op.out)
        for name in op.row.reads:
            read = _box(uses, getattr(op, name))
            if written is not None and read is not None and written.overlaps(read):
                raise PartlyOverwritten(
                    f"`out`, {written}, overlaps `{name}`, {read}: which of them are overwritten before they are read is not "
                    f"defined on {target}.", op.site, *_views(uses, op.out),
                    hint="write to a buffer of its own, or to exactly the elements that are read.")


def _views(uses, buffer: Value) -> list:
    op = uses.definition.get(buffer)
    return [op.site] if op is not None and op.row.view == "box" else []


def _box(uses, buffer: Value) -> Box | None:
    """The elements of a buffer, seen through views; None where an offset is known at run time only."""
    op: Op | None = uses.definition.get(buffer)
    if op is None or op.row.hands_over:
        return None
    if op.row.view != "box":
        return Box(buffer, tuple((0, extent, 1) for extent in buffer.type.shape)) if op.row.allocates else None
    around = _box(uses, op.buffer)
    offsets = [one if isinstance(one, int) else constant_of(uses, one) for one in op.offsets]
    if around is None or None in offsets:
        return None
    return Box(around.root, tuple((start + offset * step, size, stride * step) for (start, _, step), offset, size, stride in zip(
        around.axes, offsets, op.sizes, op.strides)))
