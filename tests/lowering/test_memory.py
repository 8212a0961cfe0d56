"""Shared memory: no buffer lies over another, nor conversion scratch over a buffer that somebody may still use."""

import re
from itertools import combinations

import pytest

from mimw.compiler.triton_port.allocation import allocation
from tests.compiling import to_ttgir
from tests.kernels import staging
from tests.lowering.harness import Case

_DESC = "tensordesc<fp16[64,64]>"
_CASES = {
    "one_after_the_other": {"x": "*fp16", "n": "i32"},
    "inside_loop_and_if": {"x": "*fp16", "n": "i32"},
    "transposing_tasks": {"x": "*fp16", "y_desc": _DESC, "n": "i32"},
    "through_staging": {"x_desc": _DESC, "y_desc": _DESC, "n": "i32"},
}


@pytest.fixture(params=_CASES)
def pieces(request, tmp_path):
    compiled = Case(getattr(staging, request.param), _CASES[request.param]).compiled(by=to_ttgir)
    return request.param, allocation(compiled.stage("ttgir")).pieces


@pytest.mark.long(but=["inside_loop_and_if", "transposing_tasks", "through_staging"], everywhere=True)
def test_nothing_lies_over_a_buffer(pieces):
    name, found = pieces
    buffers = [piece for piece in found if piece.op == "ttg.local_alloc"]
    assert len(buffers) == {"one_after_the_other": 2, "inside_loop_and_if": 3, "transposing_tasks": 3, "through_staging": 4}[name]
    for one, other in combinations(buffers, 2):
        assert not one.overlaps(other), (one, other)
    scratch = [piece for piece in found if piece.op not in ("ttg.local_alloc", "tt.func", "ttg.warp_specialize")]
    assert scratch or name in ("transposing_tasks", "through_staging")
    for piece in scratch:
        assert not any(piece.overlaps(buffer) for buffer in buffers), piece


def test_scratch_of_tasks_is_apart(tmp_path):
    """Reductions in three tasks run at once, so their scratch does not share bytes; one warp needs none."""
    compiled = Case(staging.tasks_of_all_sizes, {"x": "*fp32"}).compiled(by=to_ttgir)
    scratch = [piece.start for piece in allocation(compiled.stage("ttgir")).pieces
               if piece.op not in ("ttg.local_alloc", "tt.func", "ttg.warp_specialize")]
    assert len(scratch) == len(set(scratch)) == 3


def test_a_tile_that_was_loaded_is_not_given_back_before_it_is_read():
    """Triton moves the read of a product's operand to the product, and a `local_dealloc` stays where it is."""
    text = Case(staging.operand_by_descriptor, {"x": "*fp16", "y_desc": _DESC, "n": "i32"}).compiled(by=to_ttgir).stage("ttgir")
    tiles = re.findall(r"ttg.local_load (%[\w.]+)", text)
    assert len(tiles) == 2
    for tile in tiles:
        assert f"ttg.local_dealloc {tile} " not in text[:text.index(f"ttg.local_load {tile} ")]


def test_memory_is_given_back_at_the_end_of_the_kernel_or_task():
    """A `local_dealloc` for each allocation survives Triton's canonicalisation, at the very end of kernel or task."""
    text = Case(staging.inside_loop_and_if, _CASES["inside_loop_and_if"]).compiled(by=to_ttgir).stage("ttgir")
    lines = [line.strip().split(" ")[0] for line in text[:text.index("tt.return")].splitlines()]
    assert lines[-4:-1] == ["ttg.local_dealloc"] * 3
    task = Case(staging.transposing_tasks, _CASES["transposing_tasks"]).compiled(by=to_ttgir).stage("ttgir")
    assert task[:task.index("ttg.warp_return")].rstrip().splitlines()[-1].strip().startswith("ttg.local_dealloc")
