"""Types of tiles as text: a type read from text, and a text written from a type.

Input: the text of an MLIR type, or the parts of a tile's type. Output: the parts, or the type as MLIR's own. An example:

    Tile.of("tensor<64x32xbf16, #ttg.blocked<...>>")      Tile((64, 32), "bf16", "#ttg.blocked<...>")
    made = types([tile.in_layout("#ttg.dot_op<...>")], context)

The binding can read a layout off a value, too, and make one of Python's classes for layouts; what it makes for that is never given
back, which Python says at its end, in every process that has asked once. It has no way to change one parameter of a layout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .text import module_of

_TILE = re.compile(r"tensor<((?:\d+x)+)(\w+), (#.*)>")
_SHARED = re.compile(r"#ttg\.(?:nvmma|swizzled)_shared<")


@dataclass(frozen=True)
class Tile:
    """The type of a tile: its shape, its element and its layout as MLIR writes them."""

    shape: tuple[int, ...]
    element: str
    layout: str

    @classmethod
    def of(cls, type_) -> Tile | None:
        """The tile of this type; None for the type of anything else, and for tiles of pointers."""
        found = _TILE.fullmatch(str(type_))
        return found and cls(tuple(int(extent) for extent in found[1].split("x")[:-1]), found[2], found[3])

    def in_layout(self, layout: str) -> Tile:
        return replace(self, layout=layout)

    @property
    def bits(self) -> int:
        """Bits of an element: the first number of its name, as in f8E4M3FN, bf16 and i8."""
        return int(re.search(r"\d+", self.element)[0])

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{extent}x' for extent in self.shape)}{self.element}, {self.layout}>"


def types(tiles: Sequence[Tile | str], context) -> list[Any]:
    """The types of these tiles, or of these texts, in this context."""
    module, found = module_of(f"module {{ tt.func private @types({', '.join(f'%{at}: {tile}' for at, tile in enumerate(tiles))}) "
                              "{ tt.return } }\n", context), []
    module.walk(lambda op: found.append(op.get_block()) if op.get_name() == "tt.return" else None)
    return [found[0].get_argument(at).get_type() for at in range(len(tiles))]


def numbers(name: str, layout: str) -> list[int]:
    """The list of numbers that a layout has under this name; the first, where layouts stand inside each other."""
    return json.loads(re.search(name + r" = (\[[\d, ]*\])", layout)[1])


def number(name: str, layout: str) -> int:
    """The number that a layout has under this name, which may stand inside another layout of it; 0 if there is none."""
    found = re.search(name + r" = (\d+)", layout)
    return int(found[1]) if found else 0


def lying_along(buffer, along: int) -> str | None:
    """The text of the type of a two-dimensional buffer for tensor cores, with the elements of dimension `along` side by side; None
    for a buffer of another kind."""
    text = str(buffer)
    found = re.match(r"!ttg\.memdesc<(\d+)x(\d+)x\w+, #ttg\.nvmma_shared<", text)
    if not found or "CGALayout" in text:
        return None
    row = int(found[1 + along]) * number("elementBitWidth", text) // 8
    if not (swizzle := next((width for width in (128, 64, 32) if row % width == 0), 0)):
        return None
    text = re.sub(r"swizzlingByteWidth = \d+", f"swizzlingByteWidth = {swizzle}", text)
    return re.sub(r"transposed = \w+", f"transposed = {'true' if along == 0 else 'false'}", text)


def contiguous(buffer) -> int | None:
    """The dimension along which the elements of a two-dimensional buffer of this type lie together; None in layouts of another kind
    than Triton's NV-MMA and swizzled ones."""
    return fastest(buffer, 2) if _SHARED.search(str(buffer)) else None


def fastest(buffer, rank: int) -> int:
    """The dimension along which the elements of a buffer of this type, which has so many, lie together."""
    text = str(buffer)
    if "order = [" in text:
        return numbers("order", text)[0]
    return 0 if "transposed = true" in text else rank - 1
