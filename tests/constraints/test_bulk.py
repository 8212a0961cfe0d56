"""A bulk copy moves bytes as they lie, so its buffer's elements lie in order."""

import pytest

from mimw.compiler.constraints.solver import solve_layouts
from mimw.errors import LayoutConflict
from mimw.ir import Descriptor, Pointer
from mimw.ir.layouts import SwizzledShared
from tests.analysis.building import F32, Kernel


def one_row(*, operand: bool, store: bool = False):
    """A bulk copy of row 3 of a plane, which TMA may want, too."""
    k = Kernel()
    x, desc = k.param("x", Pointer(F32)), k.param("desc", Descriptor(F32, (16, 64)))
    tile, bar = k.at(2).one(k.buffers("tile", 1, (16, 64), F32), 0), k.one(k.barriers("full", 1), 0)
    row = k.one(tile, 3)
    k.at(3).op("bulk_store", x, row, 256) if store else k.at(3).op("bulk_load", x, bar, row, 256)
    if operand:
        k.at(4).load(desc, bar, tile)
    return k.program()


@pytest.mark.parametrize("store", [False, True])
def test_a_row_keeps_its_plane_from_being_swizzled(store):
    (layout, ) = solve_layouts(one_row(operand=False, store=store)).shared.values()
    assert layout == SwizzledShared(1, 1, 1, (1, 0))


def test_a_swizzled_tile_cannot_have_one():
    """The row's view is enough to disagree with TMA's swizzle; the bulk copy need not be named."""
    with pytest.raises(LayoutConflict, match="outermost.*|a bulk copy moves consecutive bytes") as caught:
        solve_layouts(one_row(operand=True))
    assert 4 in {site.line for site in caught.value.sites}
