"""`{key: value}` in a kernel: pairs, since keys may be tiles, which no dictionary takes.

Input: the keys and values of a display, as the code generator has them. Output: a `Display` for a word. For example:

    layout={x: {"space": "shared"}}         Display([(x, Display([("space", "shared")]))])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Display:
    """The pairs in the order of the text."""

    pairs: list[tuple[Any, Any]]

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {value!r}' for key, value in self.pairs)}}}"
