"""The order of elements of a buffer that is seen as another type: row-major, or stripe by stripe.

Input: the types of a buffer and of a view of the same bytes, as MLIR writes them. Output: a `Seen`. For example, of swizzles of
128 bytes:

    seen("!ttg.memdesc<64x128xf16, #ttg.nvmma_shared<..>, ..>", "!ttg.memdesc<2x64x64xf16, ..>")      Seen.BY_STRIPES
    seen("!ttg.memdesc<128x64xf16, ..>", "!ttg.memdesc<2x64x64xf16, ..>")                             Seen.BY_ROWS

A tile that is wider than its swizzle lies in stripes as wide as that, each with all rows (PTX ISA, "Swizzling Modes"). Elements of
another width, and layouts that `buffer_map` does not know, are taken in row-major order.
"""

from __future__ import annotations

from enum import Enum
from math import prod

import numpy as np

from .cta_parts import part_in, split_in
from .layout_memory import buffer_map
from .layout_text import LayoutProblem
from .types import layout_in, type_in


class Seen(Enum):
    """The order of the elements of a view among those of its buffer."""

    BY_ROWS = "by rows"
    BY_STRIPES = "by stripes"
    OTHERWISE = "otherwise"


def seen(source: str, view: str) -> Seen:
    """The order of a view of the type `view` in a buffer of the type `source`."""
    have, want = part_in(source), part_in(view)
    if have.element.bits != want.element.bits or prod(have.shape) != prod(want.shape):
        return Seen.BY_ROWS
    try:
        bytes_of, wanted = _bytes(source), _bytes(view)
    except LayoutProblem:
        return Seen.BY_ROWS
    if np.array_equal(bytes_of.reshape(want.shape), wanted):
        return Seen.BY_ROWS
    if len(have.shape) == 2 and len(want.shape) == 3 and have.shape[0] == want.shape[1]:
        stripes, rows, width = want.shape
        if np.array_equal(bytes_of.reshape(rows, stripes, width).transpose(1, 0, 2), wanted):
            return Seen.BY_STRIPES
    return Seen.OTHERWISE


def _bytes(text: str) -> np.ndarray:
    """The byte of each element of a CTA's part. Of three dimensions the first counts buffers, which lie one behind the other."""
    type_ = type_in(text)
    count, shape = (type_.shape[0], type_.shape[1:]) if len(type_.shape) == 3 else (1, type_.shape)
    slot = buffer_map(layout_in(text), shape, type_.element.bits).offsets()
    part = split_in(text)
    size = prod(part.part) // count * type_.element.bytes
    found = slot + np.arange(count).reshape(-1, *(1, ) * len(shape)) * size
    return found.reshape(type_.shape)[part.of_rank(0)]
