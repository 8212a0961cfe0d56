"""The values of a pipe, all first class: they go to helpers and partitions, through control flow and back.

Input: a `PipeRecord` and parts by name. Output: the values of the pipe that a kernel holds. For example, behind
`result = reader.wait(k)`:

    result.slot.x             the buffer of field x in the slot of chunk k
    result.is_closed          an i1 scalar
"""

from __future__ import annotations

import triton.language.core as tl

from ..parts import Parts


class FieldDict(dict):
    """Name -> buffer, also for names that are constexprs."""

    def __getitem__(self, name):
        return super().__getitem__(name.value if isinstance(name, tl.constexpr) else name)


class PipeParts(Parts):
    """A value of a pipe: parts whose names have no `_` in front are the pipe's fields."""

    @property
    def _fields(self) -> FieldDict:
        return FieldDict((name, part) for name, part in self._parts.items() if not name.startswith("_"))


class Described(PipeParts):
    """The properties that a pipe and its endpoints share."""

    @property
    def capacity(self) -> int:
        """Chunks that fit in the pipe."""
        return self._owner.capacity

    @property
    def scope(self) -> str:
        """Always "cta"."""
        return "cta"

    @property
    def name(self) -> str | None:
        """The name that the author gave the pipe; None for a pipe without one."""
        return self._owner.name

    @property
    def fields(self) -> FieldDict:
        """Name -> whole buffer, of the fields that are visible here."""
        return self._fields


class pipe_slot(PipeParts):
    """One stage of a pipe: an attribute for each visible field, the buffer without its leading dimension.

    example:   slot = tiles.writer().acquire(i)
               tle.gpu.copy(desc, slot.k, [64, 64], [i * 64, 0])
    """

    @property
    def fields(self) -> FieldDict:
        """Name -> buffer."""
        return self._fields

    @property
    def _shown(self) -> FieldDict:
        return self._fields


class pipe_wait_result(PipeParts):
    """The result of `reader.wait`.

    example:   tiles = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 64, 64], tl.float16))
               slot = tiles.reader().wait(i).slot
    """

    @property
    def slot(self) -> pipe_slot:
        """The stage's buffers."""
        return self._parts["_slot"]

    @property
    def is_closed(self) -> tl.tensor:
        """An i1 scalar: true for an end marker."""
        return self._parts["_is_closed"]
