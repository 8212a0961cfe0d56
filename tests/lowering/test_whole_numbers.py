"""Floats of 16 bits that another conversion has just made become whole numbers by fp32: ptxas gets the short way wrong."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly


@mimw.jit
def by_way_of(x, y, WAY: tl.constexpr, OURS: tl.constexpr):
    at = tl.arange(0, 64)
    tile = tl.load(x + at)
    if OURS:
        buffer = tlx.local_alloc((64, ), tlx.dtype_of(x), 1)
        tlx.local_store(buffer[0], tile)
        tile = tlx.local_load(buffer[0])
    tl.store(y + at, tile.to(WAY).to(y.dtype.element_ty))


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("source, way, target", [(ml_dtypes.bfloat16, tl.float16, np.int32), (np.float16, tl.bfloat16, np.int64),
                                                 (ml_dtypes.float8_e4m3fn, tl.bfloat16, np.uint32)])
def test_numbers_of_two_conversions(machine, source, way, target, ours):
    values = np.array([0, 1, 3, 48, 100.5, 240, 0.25, 7], source)
    x, y = np.resize(values, 64), np.zeros(64, target)
    machine.launch(by_way_of, (1, ), x, y, way, ours)
    assert y.tolist() == x.astype(np.float64).astype(target).tolist()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("ours", [False, True])
def test_no_instruction_makes_whole_numbers_of_16_bits(target, ours):
    """Of the short form ptxas leaves one instruction, F2I.F16 of the bits of a bf16."""
    compiled = to_assembly(by_way_of, {"x": "*bf16", "y": "*i32"}, {"WAY": tl.float16, "OURS": ours}, target=target)
    assert "cvt.rn.f16.bf16" in compiled.ptx and "cvt.rzi.s32.f32" in compiled.ptx and "cvt.rzi.s32.f16" not in compiled.ptx
