"""Layouts of accesses that are read from a finished module: those in which AMD's matrix cores add up."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw import jit
from mimw.compiler.triton_port.accesses import tile_layouts
from mimw.compiler.triton_port.text import ModuleText, finished_module
from mimw.ir.layouts import AmdMfma, AmdWmma
from tests.compiling import to_ttgir

ALIGNED = {(place, ): [["tt.divisibility", 16]] for place in range(2)}


@jit
def squared(x, y, LAYOUT: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tl.load(x + at)
    if LAYOUT is None:
        acc = tl.dot(tile, tile)
    else:
        acc = tl.dot(tile, tile, tlx.zeros((64, 64), tl.float32, layout=LAYOUT))
    tlx.buffer_store(acc, y, at)


@pytest.mark.parametrize("target, pinned, found", [
    ("gfx942", (3, [16, 16, 16], False, [2, 2], 32, [2, 1]), AmdMfma(3, (16, 16, 16), False, (2, 2), tiles=(2, 1))),
    ("gfx950", (4, [32, 32, 16], True, [4, 1]), AmdMfma(4, (32, 32, 16), True, (4, 1))),
    ("gfx1250", None, AmdWmma(3, True, ((0, 1), (1, 0)), (), (16, 16, 32)))])
def test_a_sum_is_stored_from_where_it_is(target, pinned, found):
    """It goes through no shared memory, for which a large tile's buffers would leave no room."""
    layout = None if pinned is None else tlx.amd_mfma_layout(*pinned)
    ttgir = to_ttgir(squared, {"x": "*fp16", "y": "*fp32"}, {"LAYOUT": layout}, target, {"num_warps": 4},
                     attrs=ALIGNED).stage("ttgir")
    store = next(line for line in ttgir.splitlines() if "amdg.buffer_store" in line)
    assert tile_layouts(ModuleText(finished_module(ttgir)), store) == [found]
