"""Requirements of ops on buffers, as data: the op, its line, the layouts that the op can work with, and the reason.

Input: a shared layout. Output: whether a requirement accepts it. An example:

    wanted = Requirement(tiles, Exactly(nvmma), site, "tma_load", "its descriptor is descriptor<bf16[128, 64]>")
    wanted.layouts.accepts(plain)        False
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.core import Value
from ...ir.data_mover import layout_problem
from ...ir.layouts import NvmmaShared, SharedLayout, SwizzledShared
from ...ir.site import Site


class LayoutSet:
    """Base: a set of shared layouts, in the coordinates of the allocation."""

    def accepts(self, layout: SharedLayout) -> bool:
        """True if this layout is in the set."""
        raise NotImplementedError


@dataclass(frozen=True)
class Exactly(LayoutSet):
    """One layout and no other."""

    layout: SharedLayout

    def accepts(self, layout: SharedLayout) -> bool:
        return layout == self.layout

    def __str__(self) -> str:
        return str(self.layout)


@dataclass(frozen=True)
class AnyNvmma(LayoutSet):
    """Any NV-MMA layout of tiles of that rank; with `contiguous`, one in which that dimension of the tile is contiguous."""

    contiguous: int | None = None
    rank: int = 2

    def accepts(self, layout: SharedLayout) -> bool:
        if not isinstance(layout, NvmmaShared) or layout.rank != self.rank:
            return False
        return self.contiguous is None or self.contiguous == (0 if layout.transposed else layout.rank - 1)

    def __str__(self) -> str:
        if self.contiguous is None:
            return "an nvmma layout"
        return f"an nvmma layout with dimension {self.contiguous} contiguous"


@dataclass(frozen=True)
class WholeTiles(LayoutSet):
    """A layout of whole tiles of that rank, or plain rows of the allocation's `whole` dimensions, in which such tiles lie."""

    rank: int
    whole: int

    def accepts(self, layout: SharedLayout) -> bool:
        return layout.rank == self.rank or is_plain(layout) and layout.rank == self.whole

    def __str__(self) -> str:
        return f"tiles of rank {self.rank}"


@dataclass(frozen=True)
class Outermost(LayoutSet):
    """Layouts in which dimension `dim` is the next one outside after `dropped` outer dimensions of the `whole` have been
    indexed away."""

    dim: int
    dropped: int
    whole: int

    def accepts(self, layout: SharedLayout) -> bool:
        if layout.rank < self.whole:
            return layout.rank < self.whole - self.dropped and self.dim == self.dropped
        return is_plain(layout) and layout.order[::-1][self.dropped] == self.dim

    def __str__(self) -> str:
        return f"dimension {self.dim} outermost"


def is_plain(layout: SharedLayout) -> bool:
    """True for unswizzled rows in any order of the dimensions."""
    return isinstance(layout, SwizzledShared) and layout.max_phase == 1


@dataclass(frozen=True)
class StartsAt(LayoutSet):
    """Any layout that can begin at multiples of `boundary` bytes."""

    boundary: int

    def accepts(self, layout: SharedLayout) -> bool:
        return not isinstance(layout, NvmmaShared) or not layout.swizzle or self.boundary % layout.boundary == 0

    def __str__(self) -> str:
        return f"a layout that can begin at any multiple of {self.boundary} bytes"


@dataclass(frozen=True)
class InOrder(LayoutSet):
    """Any layout in which the elements follow each other row by row, the last dimension fastest."""

    def accepts(self, layout: SharedLayout) -> bool:
        if isinstance(layout, SwizzledShared):
            return layout.max_phase == 1 and layout.order == tuple(reversed(range(len(layout.order))))
        return isinstance(layout, NvmmaShared) and layout.swizzle == 0 and layout.rank == 1

    def __str__(self) -> str:
        return "its elements in order, without swizzle"


@dataclass(frozen=True)
class Atoms(LayoutSet):
    """A layout in which 8 rows of 128 bytes of a tile of two dimensions lie as in any other tile of that layout: row after row, and
    in stripes as wide as the swizzle. `narrow`: also 128 bytes of columns alone."""

    narrow: bool = False

    def accepts(self, layout: SharedLayout) -> bool:
        if isinstance(layout, SwizzledShared):
            return not self.narrow and layout.max_phase == 1 and layout.order[0] == len(layout.order) - 1
        if not isinstance(layout, NvmmaShared) or layout.rank != 2 or layout.transposed or layout.fp4_padded:
            return False
        return layout.swizzle > 0 or not self.narrow

    def __str__(self) -> str:
        return "an nvmma layout with the last dimension contiguous" + ("" if self.narrow else ", or plain rows")


@dataclass(frozen=True)
class Moved(LayoutSet):
    """Layouts of tiles that AMD's data mover fills with blocks of that shape and bits of an element, or reads (`stores`)."""

    bits: int
    block: tuple[int, ...]
    stores: bool = False

    def accepts(self, layout: SharedLayout) -> bool:
        return not layout_problem(layout, self.bits, self.block, self.stores)

    def __str__(self) -> str:
        return "plain rows, padded or not"


@dataclass(frozen=True)
class Impossible(LayoutSet):
    """An empty set of layouts: no layout gives what the op needs; `what` names the need."""

    what: str

    def accepts(self, layout: SharedLayout) -> bool:
        return False

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Requirement:
    """`word` at `site` takes the buffer `alloc` in one of `layouts` only, because of `why`; `pins` if its author says so.

    Where TMA copies a block, `descriptor` is what it copies by, and `block` the layout of the block, with the dimensions of that
    descriptor: an author who pins the layout of the buffer decides on that of the descriptor, too.
    """

    alloc: Value
    layouts: LayoutSet
    site: Site
    word: str
    why: str
    pins: bool = False
    descriptor: Value | None = None
    block: NvmmaShared | None = None

    def __str__(self) -> str:
        return f"{self.word} wants {self.layouts}: {self.why}"
