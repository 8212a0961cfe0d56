"""What compiled is what was simulated: arrays, the order of effects, findings. The build fails where the two disagree.

`python -m benchmarks.read_back` does the same with all kernels of the library; here are a few small ones of each chip.
"""

from dataclasses import replace

import pytest

from benchmarks.mutation_kernels import CASES
from benchmarks.read_back import compared
from benchmarks.read_back_launches import forms_of
from benchmarks.read_back_order import difference
from benchmarks.read_back_page import disagrees
from mimw.compiler.ttgir.same_bytes import Seen, seen
from mimw.ir import Op
from tests.kernels.tma_pipeline import pipeline, pipeline_arguments

CHOSEN = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", ["Tutorial 04", "Tutorial 08", "Tutorial 11", "Tutorial 15, cluster", "Tutorial 16",
                                  "Product by tasks, on gfx950"])
def test_recorded_and_compiled_agree(name):
    case = CHOSEN[name]
    row = compared(forms_of(*case.make(), case.target), case.target, seeds=1, settled=case.settled)
    assert not disagrees(row) and row["arrays"] == row["order"] == row["findings"] == "same", row
    assert row["effects"] > 5


def small(**mistakes):
    grid, args, meta = pipeline_arguments(**mistakes)
    return forms_of(pipeline, grid, args, meta, "sm_90a")


def test_a_mistake_is_found_in_both():
    row = compared(small(RELEASE_FIRST=True), "sm_90a", seeds=2)
    assert row["findings"].startswith("same: ") and row["order"] == "same", row


def test_a_wait_that_a_compiler_drops_is_found():
    forms = small()
    assert not disagrees(compared(forms, "sm_90a", seeds=1))
    lines = forms.text.splitlines()
    wait = max(place for place, line in enumerate(lines) if "ttng.wait_barrier" in line)
    row = compared(replace(forms, text="\n".join(lines[:wait] + lines[wait + 1:])), "sm_90a", seeds=2)
    assert disagrees(row) and row["dropped"] == {"barrier_wait": 1} and row["findings"] != "same", row


def test_a_wait_that_a_compiler_moves_behind_an_arrival_is_found():
    forms = small()
    lines = forms.text.splitlines()
    arrive = min(place for place, line in enumerate(lines) if "ttng.arrive_barrier" in line)
    wait = max(place for place, line in enumerate(lines[:arrive]) if "ttng.warp_group_dot_wait" in line)
    moved = [*lines[:wait], *lines[wait + 1:arrive + 1], lines[wait], *lines[arrive + 1:]]
    row = compared(replace(forms, text="\n".join(moved)), "sm_90a", seeds=1)
    assert row["order"].startswith("task ") and "barrier_arrive" in row["order"] and row["findings"] != "same", row


def test_orders_are_compared_without_what_is_not_there():
    ops = [Op(name) for name in ("barrier_wait", "fence", "tma_load")]
    key = (0, 0, 0), 0
    assert difference({key: [0, 1, 0, 2]}, {key: [0, 2]}, ops, {0, 2}) == ""
    assert "barrier_wait" in difference({key: [0, 2]}, {key: [2, 0]}, ops, {0, 2})
    assert "nothing" in difference({key: [0, 2]}, {key: [0]}, ops, {0, 2})


def nvmma(shape: str, swizzle: int = 128) -> str:
    layout = f"#ttg.nvmma_shared<{{swizzlingByteWidth = {swizzle}, transposed = false, elementBitWidth = 16}}>"
    return f"!ttg.memdesc<{shape}xf16, {layout}, #ttg.shared_memory, mutable>"


@pytest.mark.parametrize("source, view, how", [
    ("128x64", "2x64x64", Seen.BY_ROWS), ("64x128", "2x64x64", Seen.BY_STRIPES), ("64x128", "128x64", Seen.OTHERWISE)])
def test_views_of_a_swizzled_tile(source, view, how):
    """A tile that is wider than its swizzle lies stripe by stripe."""
    assert seen(nvmma(source), nvmma(view)) is how


@pytest.mark.parametrize("name, text, said", [
    ("Tutorial 04", ("add.u32 to, $1, 0;", "add.u32 to, $1, 64;"), "do not lie in the order"),
    ("Tutorial 04", ("[map, {c1, c0}]", "[map, {c0, c1}]"), "in another form than mimw writes"),
    ("Tutorial 16", ("st.shared::cluster.b32 [to], $3;", "red.shared::cluster.add.u32 [to], $3;"), "no meaning in the simulator")])
def test_assembly_that_says_something_else_is_refused(name, text, said):
    case = CHOSEN[name]
    forms = forms_of(*case.make(), case.target)
    changed = forms.text.replace(*text)
    assert changed != forms.text
    assert said in compared(replace(forms, text=changed), case.target)["refused"]
