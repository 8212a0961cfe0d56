"""Numbers of which a launch knows the least and the most: what a kernel's programs and trips make of its arguments.

Input: numbers and `Span`s. Output: the same, by the rules of the kernel's integers. For example, for a grid of 64 programs:

    pid = program((64, ), 0)                        Span(0, 63)
    tiles = quotient(bits(N + 127, 32), 128)        a number, since N is one
    within(remainder(pid, tiles) * 128, 0, N)       True if every value of it is
    apart(a, c)                                     True if two arrays share no byte

Each function is right of every number that the kernel may compute there, and may allow for more: spans know nothing of each other.
The modules that `mimw.compiler.orchestrate.box_host` writes are the readers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .host import HostArray

EVERYTHING = 1 << 80        # beyond any number that is asked for


@dataclass(frozen=True)
class Span:
    """Whole numbers from `least` to `most`, both included."""

    least: int
    most: int

    def __add__(self, other: int | Span) -> Span:
        return Span(self.least + least(other), self.most + most(other))

    __radd__ = __add__

    def __neg__(self) -> Span:
        return Span(-self.most, -self.least)

    def __sub__(self, other: int | Span) -> Span:
        return Span(self.least - most(other), self.most - least(other))

    def __rsub__(self, other: int | Span) -> Span:
        return -self + other

    def __mul__(self, other: int | Span) -> Span:
        return hull(*(mine * theirs for mine in (self.least, self.most) for theirs in (least(other), most(other))))

    __rmul__ = __mul__


def least(number: int | Span) -> int:
    """The least that a number may be."""
    return number.least if isinstance(number, Span) else number


def most(number: int | Span) -> int:
    """The most that a number may be."""
    return number.most if isinstance(number, Span) else number


def hull(*numbers: int | Span) -> Span:
    """The span of all of them."""
    return Span(min(map(least, numbers)), max(map(most, numbers)))


def within(number: int | Span, low: int, high: int) -> bool:
    """True if every value of a number is from `low` to `high`."""
    return low <= least(number) and most(number) <= high


def bits(number: int | Span, count: int) -> int | Span:
    """A number as an integer of so many bits has it, with its sign: it wraps."""
    half = 1 << count - 1
    if not isinstance(number, Span):
        return (number + half) % (2 * half) - half
    return number if within(number, -half, half - 1) else Span(-half, half - 1)


def quotient(number: int | Span, by: int | Span) -> int | Span:
    """Division as the kernel divides, towards 0. What 0 may divide can be anything."""
    if least(by) <= 0 <= most(by):
        return Span(-EVERYTHING, EVERYTHING)
    if not isinstance(number, Span) and not isinstance(by, Span):
        return _towards_zero(number, by)
    return hull(*(_towards_zero(one, other) for one in {least(number), most(number)} for other in {least(by), most(by)}))


def remainder(number: int | Span, by: int | Span) -> int | Span:
    """The rest that a quotient leaves, with the sign of what is divided. What 0 may divide can be anything."""
    if least(by) <= 0 <= most(by):
        return Span(-EVERYTHING, EVERYTHING)
    if not isinstance(number, Span) and not isinstance(by, Span):
        return number - by * _towards_zero(number, by)
    limit = max(abs(least(by)), abs(most(by))) - 1
    return Span(max(min(least(number), 0), -limit), min(max(most(number), 0), limit))


def _towards_zero(number: int, by: int) -> int:
    return abs(number) // abs(by) * (1 if (number < 0) == (by < 0) else -1)


def smaller(one: int | Span, other: int | Span) -> int | Span:
    """The smaller of two numbers."""
    found = Span(min(least(one), least(other)), min(most(one), most(other)))
    return found if isinstance(one, Span) or isinstance(other, Span) else found.least


def larger(one: int | Span, other: int | Span) -> int | Span:
    """The larger of two numbers."""
    found = Span(max(least(one), least(other)), max(most(one), most(other)))
    return found if isinstance(one, Span) or isinstance(other, Span) else found.least


def either(one: int | Span, other: int | Span) -> Span:
    """One of two numbers, by a condition that nobody asks here."""
    return hull(one, other)


def program(grid: tuple[int, ...], axis: int) -> Span:
    """The number of a program along an axis of the grid."""
    return Span(0, programs(grid, axis) - 1)


def programs(grid: tuple[int, ...], axis: int) -> int:
    """The number of programs that the grid has along an axis."""
    return grid[axis] if axis < len(grid) else 1


def trips(start: int | Span, end: int | Span, step: int | Span) -> Span:
    """The number of a round of a loop, from 0 on; 0 for a loop that has none. A step may be anything where it may be 0."""
    if least(step) < 1:
        return Span(0, EVERYTHING)
    return Span(0, max(0, (most(end) - least(start) - 1) // least(step)))


def counter(start: int | Span, end: int | Span, step: int | Span) -> Span:
    """The counter of a loop in any of its rounds."""
    if least(step) < 1:
        return Span(-EVERYTHING, EVERYTHING)
    return Span(least(start), max(least(start), most(end) - 1))


def address(array: Any) -> int:
    """The address of an array's first element; of a descriptor's base."""
    array = getattr(array, "base", array) if hasattr(array, "block_shape") else array
    return array.data_ptr() if hasattr(array, "data_ptr") else HostArray(array).data_ptr()


def apart(one: Any, other: Any) -> bool:
    """True if no byte lies between the first and the last element of both arrays, tensors or tensor descriptors."""
    (begin, end), (start, stop) = reach(one), reach(other)
    return end <= start or stop <= begin


def reach(array: Any) -> tuple[int, int]:
    """The addresses from the first byte of an array to behind its last one."""
    if hasattr(array, "block_shape"):
        base, shape, strides = array.base, tuple(array.shape), tuple(array.strides)
    else:
        base = array if hasattr(array, "data_ptr") else HostArray(array)
        shape, strides = tuple(base.shape), tuple(base.stride())
    begin, size = address(array), base.dtype.itemsize
    if 0 in shape:
        return begin, begin
    steps = [stride * (extent - 1) for stride, extent in zip(strides, shape)]
    return begin + size * sum(step for step in steps if step < 0), begin + size * (1 + sum(step for step in steps if step > 0))


__all__ = ["Span", "address", "apart", "bits", "counter", "either", "larger", "program", "programs", "quotient", "reach",
           "remainder", "smaller", "trips", "within"]
