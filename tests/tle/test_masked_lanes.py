"""A lane that is masked off touches nothing: no read of what nobody wrote, no race, no data on their way."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import CopyReadEarly, DataRace, UnwrittenRead
from tests.compiling import to_ttgir


@mimw.jit
def pointers_into(buffer, at, FORM: tl.constexpr):
    """To each element of a row: as a box of the buffer, or element by element backwards and forwards."""
    if FORM == "box":
        return tle.gpu.local_ptr(buffer)
    return tle.gpu.local_ptr(buffer, (at ^ 0, ))


@mimw.jit
def part_of_a_row(x, y, written, read, FORM: tl.constexpr, N: tl.constexpr):
    """The first `written` of N elements are stored, the first `read` loaded."""
    row = tle.gpu.alloc([N], x.dtype.element_ty)
    at = tl.arange(0, N)
    pointers = pointers_into(row, at, FORM)
    tl.store(pointers, tl.load(x + at), mask=at < written)
    tl.store(y + at, tl.load(pointers, mask=at < read, other=7))


@pytest.mark.parametrize("form", ["box", "picked"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_what_nobody_wrote_is_not_read(machine, form, dtype):
    x, y = np.arange(64).astype(dtype), np.zeros(64, dtype)
    machine.launch(part_of_a_row, (1, ), x, y, 50, 50, form, 64)
    assert (y == np.where(np.arange(64) < 50, x, dtype(7))).all()


@pytest.mark.parametrize("form", ["box", "picked"])
def test_one_lane_more_is(form):
    with pytest.raises(UnwrittenRead, match="element \\(50,\\)"):
        mimw.simulate(part_of_a_row, (1, ), np.ones(64, np.float32), np.zeros(64, np.float32), 50, 51, form, 64)


@mimw.jit
def rows_and_scalars(x, y, N: tl.constexpr):
    """Two-dimensional masks, a scalar pointer whose mask never holds, and a mask without `other`."""
    box = tle.gpu.alloc([N, N], x.dtype.element_ty)
    rows = tl.broadcast_to(tl.arange(0, N)[:, None], (N, N))
    cols = tl.broadcast_to(tl.arange(0, N)[None, :], (N, N))
    at, asked = rows * N + cols, cols <= rows
    tl.store(tle.gpu.local_ptr(box), tl.load(x + at), mask=asked)
    whole = tl.load(tle.gpu.local_ptr(box), mask=asked, other=0)
    turned = tl.load(tle.gpu.local_ptr(box, (cols, rows)), mask=cols >= rows)
    tl.store(y + at, whole + tl.where(cols > rows, turned, 0))
    nobody = tl.load(tle.gpu.local_ptr(box, (0, N - 1)), mask=tl.load(x) < 0, other=5)
    tl.store(y + N * N, nobody)


def test_two_dimensions_and_a_scalar(machine):
    x, y = np.arange(1, 257, dtype=np.float32).reshape(16, 16), np.zeros(257, np.float32)
    machine.launch(rows_and_scalars, (1, ), x, y, 16)
    assert (y[:256].reshape(16, 16) == np.tril(x) + np.tril(x, -1).T).all() and y[256] == 5


@mimw.jit
def halves(y, first, FORM: tl.constexpr):
    """One task stores the first 32 elements, the other loads those from `first` on, in no order."""
    row = tle.gpu.alloc([64], tl.int32, init_value=tl.zeros([64], tl.int32))
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 64)
            tl.store(pointers_into(row, at, FORM), at, mask=at < 32)
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, 64)
            tl.store(y + at, tl.load(pointers_into(row, at, FORM), mask=at >= first, other=-1))


@pytest.mark.parametrize("form", ["box", "picked"])
def test_lanes_apart_do_not_race(form):
    y = np.zeros(64, np.int32)
    mimw.simulate(halves, (1, ), y, 32, form, races=True)
    assert (y[:32] == -1).all() and not y[32:].any()
    with pytest.raises(DataRace, match="'row'"):
        mimw.simulate(halves, (1, ), y, 31, form, races=True)


@mimw.jit
def beside_a_copy(x, y, read, FORM: tl.constexpr):
    """A copy fills the second half of a row; meanwhile the first `read` elements are loaded."""
    row = tle.gpu.alloc([2, 32], tl.float32)
    at, flat = tl.arange(0, 32), tl.arange(0, 64)
    tlx.local_store(row.slot(0), tl.load(x + at))
    tlx.async_load(x + 32 + at, row.slot(1))
    tlx.async_load_commit_group()
    pointers = tle.gpu.local_ptr(row, (flat // 32, flat % 32)) if FORM == "picked" else tl.reshape(tle.gpu.local_ptr(row), (64, ))
    early = tl.load(pointers, mask=flat < read, other=0)
    tlx.async_load_wait_group(0)
    tl.store(y + flat, early + tl.load(pointers))


@pytest.mark.parametrize("form", ["box", "picked"])
def test_data_on_their_way_are_not_read(form):
    x, y = np.arange(1, 65, dtype=np.float32), np.zeros(64, np.float32)
    mimw.simulate(beside_a_copy, (1, ), x, y, 32, form, races=True)
    assert (y == x * (1 + (np.arange(64) < 32))).all()
    with pytest.raises(CopyReadEarly):
        mimw.simulate(beside_a_copy, (1, ), x, y, 33, form)


@pytest.mark.parametrize("form, word, target", [("box", "local_load", "sm_90a"), ("picked", "local_gather", "sm_90a"),
                                                ("box", "local_load", "gfx950")])
def test_the_load_knows_its_mask(form, word, target):
    signature = {"x": "*fp32", "y": "*fp32", "written": "i32", "read": "i32"}
    compiled = to_ttgir(part_of_a_row, signature, {"FORM": form, "N": 64}, target, dump=True)
    program = next(text for stage, text in compiled.after.items() if stage.endswith("shared_pointers"))
    load, = (line for line in program.splitlines() if f"= {word} " in line)
    mask = next(line.split()[0] for line in program.splitlines() if "icmpSLT" in line and line.split()[0] in load)
    assert f"select {mask}" in program and f"ttg.{word}" in compiled.stage("ttgir")
