"""Columns of buffers in tensor memory, and the layouts of their tiles: those of Triton's `compute_tmem_reg_layout`, on a grid."""

from itertools import product

import pytest
import triton.language as tl
from triton.experimental.gluon.language._semantic import _compute_tmem_reg_layout as of_triton
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout, TensorMemoryScalesLayout

from mimw.ir import Buffer, Scalar
from mimw.ir.tensor_memory import ATOMS, columns_of, tile_of

ELEMENTS = {"fp32": tl.float32, "i32": tl.int32, "fp16": tl.float16, "bf16": tl.bfloat16, "fp8e5": tl.float8e5,
            "fp8e4nv": tl.float8e4nv}


def buffer(element, rows, columns, count=0):
    return Buffer(Scalar(element), (rows, columns), count, "tmem")


def bases(layout):
    return tuple(tuple(map(tuple, part)) for part in (layout.reg_bases, layout.lane_bases, layout.warp_bases))


@pytest.mark.long(everywhere=True, but=[
    "fp32-*", "fp8e5-16x128b", "fp8e5-32x32b", "fp16-16x64b", "fp16-16x256b", "i32-16x256b", "bf16-32x32b", "fp8e4nv-16x64b"])
@pytest.mark.parametrize("atom", ATOMS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_tiles(element, atom):
    """For every size, cut of a larger buffer and number of warps: the same map, or none in either. Of types as wide as one before
    a few sizes, since nothing but the width is looked at."""
    seen = 0
    width = ELEMENTS[element].primitive_bitwidth
    first = element == next(name for name, one in ELEMENTS.items() if one.primitive_bitwidth == width)
    for rows, columns, warps in product((64, 128), (1, 2, 4, 8, 16, 32, 64, 128, 256) if first else (2, 32, 128), (4, 8, 16)):
        ours = tile_of(buffer(element, rows, columns), warps, atom)
        for whole in {columns, 256}:
            theirs = None
            try:
                layout = TensorMemoryLayout((rows, whole), 1)
                theirs = of_triton(ELEMENTS[element], [rows, columns], [rows, whole], layout, warps, atom)
            except Exception as error:
                assert "unsupported" in str(error)
            if atom != ATOMS[0]:
                assert (ours is None) == (theirs is None), (rows, columns, whole, warps)
            if theirs is not None:
                assert (ours.registers, ours.lanes, ours.warps) == bases(theirs), (rows, columns, whole, warps)
                seen += 1
    assert seen > (30 if first else 10)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("rows", [32, 64, 128, 256])
@pytest.mark.parametrize("columns", [4, 8, 16])
def test_tables_of_scales(rows, columns, warps):
    ours = tile_of(buffer("i8", rows, columns), warps)
    theirs = of_triton(tl.int8, [rows, columns], [rows, columns], TensorMemoryScalesLayout(), warps, "32x32b")
    assert (ours.registers, ours.lanes, ours.warps) == bases(theirs)


@pytest.mark.parametrize("element, rows, columns, taken", [
    ("fp32", 128, 128, 128), ("bf16", 128, 128, 64), ("fp8e5", 64, 128, 32), ("fp32", 128, 1, 1), ("bf16", 128, 1, 1),
    ("i8", 128, 4, 4), ("i8", 256, 8, 16)])
def test_columns(element, rows, columns, taken):
    assert columns_of(buffer(element, rows, columns, 3)) == taken


def test_fewer_than_four_warps_reach_not_all_lanes():
    assert tile_of(buffer("fp32", 128, 64), 2) is None and tile_of(buffer("fp32", 128, 64), 6) is None
