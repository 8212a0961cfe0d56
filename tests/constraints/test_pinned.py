"""Layouts that the author pins: made for the task at hand, kept through arithmetic, released, compared."""

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.constraints.pinned import resolved
from mimw.errors import LayoutConflict
from mimw.ir import Op
from mimw.ir.layouts import Linear, ThreadValue
from mimw.runtime.compile_kernel import compile_kernel


class Tiles:
    warp_size = 32

    def __init__(self, num_warps):
        self.num_warps = num_warps


def linear(threads, values, shape, warps=4):
    return resolved(ThreadValue(threads, values), Op("require_layout"), shape, Tiles(warps))


def test_lanes_then_warps_then_registers():
    assert linear(((32, 1), (4, 32)), ((2, 128), ), (256, )) == Linear(
        ((128, ), ), ((1, ), (2, ), (4, ), (8, ), (16, )), ((32, ), (64, )), (256, ))


def test_positions_are_row_major():
    assert linear(((4, 16), (8, 2)), ((2, 1), ), (4, 16), warps=1) == Linear(
        ((0, 1), ), ((1, 0), (2, 0), (0, 2), (0, 4), (0, 8)), (), (4, 16))


def test_zero_replicates():
    assert linear(((32, 1), (2, 32), (2, 0)), (), (64, )).warps == ((32, ), (0, ))


@pytest.mark.parametrize("threads, values, warps, text", [
    (((32, 1), ), ((2, 32), ), 4, r"is for 32 threads; this task has 4 warps x 32 = 128"),
    (((32, 1), ), (), 1, r"does not hold each of the 64 elements of \[64\] once: its steps are \[1, 2, 4, 8, 16\]"),
    (((32, 1), ), ((2, 16), ), 1, r"its steps are \[1, 2, 4, 8, 16, 16\]"),
    (((32, 2), ), ((2, 64), ), 1, r"its steps are \[2, 4, 8, 16, 32, 64\]"),
])
def test_refused(threads, values, warps, text):
    with pytest.raises(LayoutConflict, match=text):
        linear(threads, values, (64, ), warps)


ACROSS, ALONG = tlx.layout(((32, 4), 2), ((1, 32), 128)), tlx.layout(((32, 4), 2), ((2, 64), 1))


@mimw.jit
def compare(x, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    at = tl.arange(0, 256)
    left = tlx.require_layout(tl.load(x + at), LEFT)
    right = tlx.require_layout(tl.load(x + at), RIGHT)
    tlx.assert_same_layout(left * 2 + 1, right)
    tl.store(x + at, tlx.release_layout(left) + tlx.release_layout(right))


@mimw.jit
def release(x):
    at = tl.arange(0, 256)
    tl.store(x + at, tlx.release_layout(at))


def test_equal_layouts():
    assert compile_kernel(compare, {"x": "*fp32"}, {"LEFT": ALONG, "RIGHT": tlx.layout(((32, 2, 2), 2), ((2, 64, 128), 1))})


def test_layouts_that_differ():
    with pytest.raises(triton.CompilationError, match="layout assertion failed: LinearLayouts differ") as caught:
        compile_kernel(compare, {"x": "*fp32"}, {"LEFT": ALONG, "RIGHT": ACROSS})
    assert isinstance(caught.value.__cause__, LayoutConflict)
    assert "linear(registers [(1,)], lanes [(2,), " in str(caught.value)
    assert "linear(registers [(128,)], lanes [(1,), " in str(caught.value)


def test_a_layout_for_another_number_of_warps():
    with pytest.raises(triton.CompilationError, match="is for 128 threads; this task has 8 warps x 32 = 256"):
        compile_kernel(compare, {"x": "*fp32"}, {"LEFT": ALONG, "RIGHT": ALONG}, options={"num_warps": 8})


def test_nothing_to_release():
    with pytest.raises(triton.CompilationError, match="release_layout of a tile without an explicit layout"):
        compile_kernel(release, {"x": "*i32"}, {})
