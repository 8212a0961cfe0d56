"""Products in layouts of AMD's matrix cores, and slices: which layouts the solver gives, converts and refuses."""

import pytest

from mimw.compiler.constraints.matrix_cores import depths
from mimw.compiler.constraints.solver import solve_layouts
from mimw.errors import LayoutConflict, TargetError
from mimw.ir.layouts import AmdMfma, Blocked, DotOperand, Linear
from mimw.ir.types import Scalar
from mimw.target import TARGETS
from tests.building import BF16, FP32

from .building import Kernel

ACC = AmdMfma(4, (16, 16, 32), True, (2, 2))
BY_BITS = {"fp64": {16: (4, )}, "fp32": {32: (2, ), 16: (4, ), 4: (16, )}, "bf16": {32: (8, ), 16: (16, ), 4: (64, )},
           "i8": {32: (16, ), 16: (32, ), 4: (64, )}, "fp8e4b8": {32: (16, ), 16: (32, )}, "fp8e5": {}}
BY_BITS_950 = BY_BITS | {"bf16": {32: (8, 16), 16: (16, 32), 4: (64, )}, "i8": {32: (16, 32), 16: (32, 64), 4: (64, )},
                         "fp8e4b8": {}, "fp8e5": {32: (16, 64), 16: (32, 128)}}


@pytest.mark.parametrize("version, table", [(3, BY_BITS), (4, BY_BITS_950)])
def test_the_depths_of_instructions(version, table):
    """K of every MFMA that Triton 3.9 compiles for gfx942 and gfx950, all others being refused by its backend."""
    for name, by_size in table.items():
        for tile in ((32, 32), (16, 16), (64, 4), (4, 64)):
            assert depths(version, tile, Scalar(name)) == by_size.get(min(tile), ()), (name, tile)
    assert depths(3, (16, 16), Scalar("fp32"), tf32=True) == (8, ) and depths(4, (16, 16), Scalar("fp32"), tf32=True) == (4, )


def product(k, a_layout=None, acc_layout=None, registers=None, shape=(64, 64, 32), element=BF16):
    m, n, depth = shape
    a, b, acc = k.tile((m, depth), element, "a"), k.tile((depth, n), element, "b"), k.tile((m, n), FP32, "acc")
    if a_layout is not None:
        a = k("require_layout", a, a_layout, True, name="a")
    if acc_layout is not None:
        acc = k("require_layout", acc, acc_layout, True, name="acc")
    return k("dot", a, b, acc, None, 0, name="sum", at=7, **({"registers": registers} if registers else {}))


def solved(k, target="gfx950"):
    return solve_layouts(k.finish(), TARGETS[target])


@pytest.mark.parametrize("a_layout, acc_layout, width", [(None, ACC, 8), (DotOperand(0, ACC, 4), None, 4),
                                                         (DotOperand(0, ACC, 8), ACC, 8)])
def test_the_rest_follows_what_the_author_says(a_layout, acc_layout, width):
    k = Kernel()
    total = product(k, a_layout, acc_layout)
    doubled = k("fadd", total, total, name="doubled")
    layouts = solved(k)
    dot = next(op for op in k.finish().walk() if op.name == "dot")
    assert layouts.registers[total] == layouts.registers[doubled] == ACC
    assert [layouts.wanted(dot, place) for place in range(3)] == [DotOperand(0, ACC, width), DotOperand(1, ACC, width), ACC]
    assert "k.py:7 dot accumulates in it" in layouts.reasons[total]


@pytest.mark.parametrize("shape, wanted", [((64, 64, 32), ((32, 32, 16), (2, 2))), ((128, 32, 32), ((32, 32, 16), (4, 1))),
                                           ((16, 64, 32), ((16, 16, 32), (1, 4))), ((16, 64, 16), ((16, 16, 16), (1, 4)))])
def test_a_product_that_must_be_one_of_matrix_cores(shape, wanted):
    k = Kernel()
    total = product(k, registers="agpr", shape=shape)
    assert solved(k).registers[total] == AmdMfma(4, wanted[0], True, wanted[1])


@pytest.mark.parametrize("target", ["sm_80", "gfx1250"])
def test_elsewhere_it_is_tritons(target):
    k = Kernel()
    assert isinstance(solved_product(k, target), Blocked)


def solved_product(k, target):
    total = product(k, registers="agpr")
    return solved(k, target).registers[total]


@pytest.mark.parametrize("target, layout, kind, text", [
    ("sm_90a", ACC, TargetError, "sm_90a cannot hold a tile in mfma"), ("gfx942", ACC, TargetError, "that of gfx942 is 3"),
    ("gfx950", AmdMfma(4, (16, 16, 32), True, (2, 1)), LayoutConflict, "for 2 warps; this task has 4"),
    ("gfx950", AmdMfma(4, (16, 16, 128), True, (2, 2)), LayoutConflict, "no matrix core instruction 16x16x128 multiplies bf16"),
    ("gfx950", AmdMfma(4, (16, 16, 4), True, (2, 2), 64), LayoutConflict, "for sums of 64 bits; this product gives fp32")])
def test_refused(target, layout, kind, text):
    k = Kernel()
    product(k, acc_layout=layout)
    with pytest.raises(kind, match=text):
        solved(k, target)


def sliced(box, layout=None):
    k = Kernel()
    tile = k.tile((64, 64), name="tile")
    if layout is not None:
        tile = k("require_layout", tile, layout, True, name="tile")
    part = k("extract_slice", tile, box[:2], box[2:], name="part", at=9)
    layouts = solved(k)
    return layouts.registers[tile], next(iter(layouts.operands.values()), layouts.registers[tile]), layouts.registers[part]


def test_a_slice_of_whole_registers_keeps_the_layout():
    rows = Blocked((1, 1), (1, 64), (4, 1), (1, 0))
    assert sliced((16, 64, 8, 0)) == (rows, rows, rows)
    assert sliced((32, 32, 32, 0), ACC) == (ACC, ACC, ACC)


def test_a_slice_elsewhere_gets_lanes_that_reach_over_a_part_of_it():
    have, wanted, part = sliced((16, 64, 3, 0))
    assert have == wanted       # a constant is made where it is wanted
    assert isinstance(wanted, Linear) and isinstance(part, Linear)
    assert (wanted.lanes, wanted.warps, part.shape) == (part.lanes, part.warps, (16, 64))
    assert max(basis[0] for basis in (*part.lanes, *part.warps)) == 0


def test_a_pinned_layout_is_not_left_for_a_slice():
    with pytest.raises(LayoutConflict, match="an element of every 32 x 32"):
        sliced((16, 32, 0, 0), ACC)
