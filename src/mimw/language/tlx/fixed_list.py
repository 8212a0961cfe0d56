"""The lists that layouts consist of: equal to lists, as published programs compare layouts, yet immutable and hashable.

Input: lists and tuples, nested or not. Output: lists that do not change. For example:

    fixed([[0, 1], (1, 0)])                  == [[0, 1], [1, 0]] == ((0, 1), (1, 0))
    hash(fixed([1, 0]))                      == hash((1, 0))
    fixed([1, 0]).append(2)                  TypeError
"""

from __future__ import annotations

from typing import Any

from ..refuse import refuse


class FixedList(list):
    """A list that does not change: equal to every list or tuple of the same items, with the hash of the tuple."""

    def __eq__(self, other) -> bool:
        return list.__eq__(self, list(other)) if isinstance(other, (list, tuple)) else NotImplemented

    def __ne__(self, other) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self):
        return FixedList, (tuple(self), )

    def _refuse(self, *_, **__):
        refuse(TypeError, "layouts do not change; make another one")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse


def fixed(value: Any) -> Any:
    """`value` with every list and tuple in it as a `FixedList`."""
    return FixedList(map(fixed, value)) if isinstance(value, (list, tuple)) else value


def tuples(value: Any) -> Any:
    """`value` with every list in it as a tuple."""
    return tuple(map(tuples, value)) if isinstance(value, (list, tuple)) else value
