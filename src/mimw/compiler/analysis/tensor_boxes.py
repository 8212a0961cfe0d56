"""Boxes of tensors in global memory: what a TMA descriptor and one of its blocks are, and what a launch has to keep to.

Input: nothing. Output: frozen data. For example, of `pointer_boxes`:

    Box(base=a, block=(128, 64), shape=(M, K), strides=(stride_am, 1), offsets=(128*pid, 64*trip), order=(0, 1), ..)
    Multiple(stride_am, 8, "16 bytes do not divide the stride {poly}", site)       one of what it assumes
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Scalar, Site, Value
from .address_forms import Within
from .polynomials import Poly

UNBOUNDED = (1 << 31) - 16      # an extent that cuts nothing off, and a multiple of 16 bytes for any element


@dataclass(frozen=True)
class Refused:
    """An access stays one by pointers: `reason` is a part of a sentence, `site` the line that it is about."""

    reason: str
    site: Site


@dataclass(frozen=True)
class Multiple:
    """Something that is to hold at each launch: `poly`, of arguments alone, is a multiple of `of`; `what` is the fault
    otherwise."""

    poly: Poly
    of: int
    what: str
    site: Site


@dataclass(frozen=True)
class Box:
    """A block of a tensor.

    `shape`, `strides` and `offsets` are in elements, in the order of the descriptor's axes, as `block` is; shape and strides are of
    arguments alone. `order[d]` is the axis of the tile that is axis d of the descriptor. `bounds[d]` is the comparison in the mask
    that proved the extent, None where the program promises it. `assumed` has to hold at a launch.
    """

    base: Value
    element: Scalar
    block: tuple[int, ...]
    shape: tuple[Poly, ...]
    strides: tuple[Poly, ...]
    offsets: tuple[Poly, ...]
    order: tuple[int, ...]
    bounds: tuple[Op | None, ...]
    assumed: tuple[Within | Multiple, ...]

    @property
    def turned(self) -> bool:
        """True if the tile's axes are in another order than the descriptor's."""
        return self.order != tuple(range(len(self.order)))
