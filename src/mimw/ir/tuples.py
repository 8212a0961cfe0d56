"""`like`: a tuple of other items that keeps its class, so that a kernel still reads the fields of a named tuple by name.

Input: a tuple or a list, and items. Output: the items in that class:

    like(Shape(M=4, N=8), [1, 2])       Shape(M=1, N=2)
    like((4, 8), [1, 2])                (1, 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def like(value: tuple | list, items: Iterable[Any]) -> Any:
    """`items` as `value` has its own: a named tuple with the same names, a list as a list."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
