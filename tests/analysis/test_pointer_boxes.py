"""Boxes of loads through pointers: carried pointers, nested loops, scalars that are computed twice, questions to a launch."""

import pytest

from mimw.compiler.analysis.address_forms import Within
from mimw.compiler.analysis.pointer_boxes import Refused, box_of, is_tile_access, ranges_of
from mimw.compiler.analysis.tensor_boxes import UNBOUNDED, Multiple
from mimw.ir import I32, I64, Pointer, Scalar, Tensor
from tests.analysis.building import Kernel

FP16 = Scalar("fp16")


class Tiles(Kernel):
    """Loads of 16 x 64 tiles of fp16."""

    shape = 16, 64

    def __init__(self):
        super().__init__()
        self.a = self.param("a", Pointer(FP16))
        self.M, self.N, self.stride = (self.param(name) for name in ("M", "N", "stride"))

    def rows(self, offset, axis=0, type_=I32):
        """offset + position along an axis of the tile, as an integer tile with an extent of 1 elsewhere."""
        extent = self.shape[axis]
        tile = self.op("make_range", Tensor(I32, (extent, )), 0, extent)
        tile = tile if type_ == I32 else self.op("int_cast", tile, Tensor(type_, (extent, )), True)
        return self.op("expand_dims", self.op("add", self.op("splat", tile.type, offset), tile), 1 - axis)

    def whole(self, tile):
        return self.op("broadcast", tile, self.shape)

    def pointers(self, row, column, stride=None):
        """a + (row + i) * stride + column + j."""
        rows = self.rows(row, type_=row.type)
        stride = self.stride if stride is None else stride
        stride = stride if stride.type == row.type else self.op("int_cast", stride, row.type, True)
        rows = self.op("mul", rows, self.op("splat", rows.type, stride))
        base = self.op("addptr", self.op("splat", Tensor(self.a.type, rows.type.shape), self.a), rows)
        return self.op("addptr", self.whole(base), self.whole(self.rows(column, 1)))

    def below(self, row, bound, axis=0):
        tile = self.rows(row, axis)
        return self.whole(self.op("icmpSLT", tile, self.op("splat", tile.type, bound)))

    def load(self, pointers, mask=None, other=None):
        if mask is None:
            return self.op("load", pointers, None, False)
        return self.op("masked_load", pointers, mask, other, None, False)


def boxes(k: Tiles):
    program = k.program()
    return program, [box_of(program, op) for op in program.walk() if (op.row.loads or op.row.stores) and is_tile_access(op)]


def read(box):
    return tuple([str(poly) for poly in polys] for polys in (box.shape, box.strides, box.offsets))


def test_a_box_without_a_mask_and_one_with_two():
    k = Tiles()
    row = k.op("mul", k.op("get_program_id", 0, named="pid"), k.number(16))
    k.load(k.pointers(row, k.number(0)))
    k.load(k.pointers(row, k.number(0)), k.op("and", k.below(row, k.M), k.below(k.number(0), k.N, 1)))
    _, (plain, masked) = boxes(k)
    assert read(plain) == ([str(UNBOUNDED)] * 2, ["stride", "1"], ["16*pid", "0"]) and plain.bounds == (None, None)
    assert read(masked) == (["M", "N"], ["stride", "1"], ["16*pid", "0"]) and all(masked.bounds)
    assert plain.base is k.a and plain.element == FP16 and plain.block == (16, 64) and not plain.turned
    assert {str(one.poly) for one in masked.assumed if isinstance(one, Multiple)} == {"stride"}


def test_carried_pointers_in_loops_of_loops():
    """The outer loop moves rows by its counter, the inner one carries the pointers along a row, by an argument each trip."""
    k = Tiles()
    with k.at(5).loop(k.M, start=0, step=16) as (row, _):
        pointers = k.pointers(row, k.number(0))
        with k.at(7).loop(k.N, [pointers]) as (_, (carried, )):
            k.load(carried)
            k.carry(k.op("addptr", carried, k.op("splat", Tensor(I32, k.shape), k.number(64))))
        k._carried = ()
    _, (box, ) = boxes(k)
    assert read(box)[2] == ["16*trip@5", "64*trip@7"]


def test_a_loop_that_adds_what_it_changes_is_not_followed():
    k = Tiles()
    with k.at(5).loop(k.M, [k.pointers(k.number(0), k.number(0))]) as (at, (carried, )):
        k.load(carried)
        k.carry(k.op("addptr", carried, k.op("splat", Tensor(I32, k.shape), at)))
    with k.at(9).loop(k.M, [k.number(0)]) as (_, (total, )):
        k.load(k.pointers(total, k.number(0)))
        k.carry(k.op("add", total, total))
    _, (pointers, scalar) = boxes(k)
    assert isinstance(pointers, Refused) and "goes through the loop or branch on line 5" in pointers.reason
    assert isinstance(scalar, Refused) and "what line 9 computes, which nothing bounds" in scalar.reason


def test_scalars_that_are_computed_alike_are_one():
    k = Tiles()

    def row():
        return k.op("mul", k.op("sdiv", k.op("get_program_id", 0), k.number(3)), k.number(16))
    k.load(k.pointers(row(), k.number(0)), k.below(row(), k.M))
    other = k.op("mul", k.op("sdiv", k.op("get_program_id", 1), k.number(3)), k.number(16))
    k.load(k.pointers(row(), k.number(0)), k.op("and", k.below(other, k.M), k.below(k.number(0), k.N, 1)))
    k.load(k.pointers(row(), k.number(0)), k.below(other, k.M))
    _, (same, different, along) = boxes(k)
    assert read(same)[0] == ["M", str(UNBOUNDED)]
    assert isinstance(different, Refused) and "bounds something else than the address moves by" in different.reason
    assert len(along.offsets[0].terms) == 1 and len(along.offsets[1].terms) == 2, "rows as the mask has them, the rest along a row"


def test_what_is_computed_in_a_branch_is_not_taken_elsewhere():
    """Two equal quotients, the first of which a branch may not have computed: each stands for itself."""
    k = Tiles()
    with k.when(k.op("icmpSLT", k.M, k.N)):
        inside = k.op("sdiv", k.M, k.number(3))
        k.load(k.pointers(inside, k.number(0)))
    outside = k.op("sdiv", k.M, k.number(3))
    k.load(k.pointers(outside, k.number(0)))
    _, (first, second) = boxes(k)
    assert first.offsets[0].symbols == (inside, ) and second.offsets[0].symbols == (outside, )


@pytest.mark.parametrize("row", [I32, I64], ids=str)
def test_where_32_bits_are_the_number_itself(row):
    """An offset of 32 bits has to stay within them; one of 64 bits is made of a program's number, which does."""
    k = Tiles()
    at = k.op("mul", k.op("get_program_id", 0, named="pid"), k.number(16))
    at = at if row == I32 else k.op("int_cast", at, I64, True)
    k.load(k.pointers(at, k.number(0)))
    _, (box, ) = boxes(k)
    limits: dict[str, int] = {}
    for one in box.assumed:
        if isinstance(one, Within):
            limits[str(one.poly)] = min(one.most, limits.get(str(one.poly), one.most))
    assert limits.get("i*stride + 16*pid*stride") == ((1 << 31) - 1 if row == I32 else None)
    assert limits["16*pid"] == UNBOUNDED - 16 and limits["stride"] == ((1 << 31) - 1 if row == I64 else (1 << 39) - 1)


def test_bounds_from_below():
    k = Tiles()
    row = k.op("sub", k.op("mul", k.op("get_program_id", 0, named="pid"), k.number(16)), k.number(2))
    tile = k.rows(row)
    inside = k.whole(k.op("icmpSGE", tile, k.op("splat", tile.type, k.number(0))))
    k.load(k.pointers(row, k.number(0)), inside)
    k.load(k.pointers(row, k.number(0)))
    k.op("masked_store", k.pointers(row, k.number(0)), k.tile(Tensor(FP16, k.shape)), inside, None)
    _, found = boxes(k)
    assert [[one.least for one in box.assumed if isinstance(one, Within) and str(one.poly) == "16*pid - 2"] for box in found] == [
        [-(1 << 31)], [0], [0]], "TMA reads blocks that begin in front of the tensor, and writes none"


def test_exact_scalars_make_strides():
    k = Tiles()
    half = k.op("sdiv", k.stride, k.number(2), named="half")
    k.load(k.pointers(k.number(0), k.number(0), half))
    pid = k.op("get_program_id", 0, named="pid")
    k.load(k.pointers(k.number(0), k.number(0), pid))
    program, (box, by_program) = boxes(k)
    assert read(box)[1] == ["half", "1"] and isinstance(by_program, Refused) and "pid is not made of arguments" in by_program.reason
    assert ranges_of(program).exact(half) and not ranges_of(program).exact(pid)


@pytest.mark.parametrize("element, says", [("i64", "8, 16 or 32 bits"), ("fp64", "8, 16 or 32 bits"), ("i1", "8, 16 or 32 bits")])
def test_elements_that_are_no_boxes(element, says):
    k = Tiles()
    k.a = k.param("b", Pointer(Scalar(element)))
    k.load(k.pointers(k.number(0), k.number(0)))
    _, (box, ) = boxes(k)
    assert isinstance(box, Refused) and says in box.reason
