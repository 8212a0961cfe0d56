"""Truth tables of rows gathered and scattered by TMA, and what the simulator says of row numbers and columns that cannot be."""

import inspect
import itertools

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import DataRace, IllegalCopy

from .tables import SWITCHES, right, rows, states

describe = mimw.TensorDescriptor.from_tensor
LINES = np.array([3, 0, 7, 5, 9, 1, 2, 4], np.int32)


def line_of(kernel, text: str) -> int:
    """The only line of the kernel's source that holds `text`."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (line, ) = [first + index for index, line in enumerate(lines) if text in line]
    return line


@mimw.jit
def gathering(x_desc, y_ptr, from_ptr, EXPECT: tl.constexpr, WAIT: tl.constexpr, ARRIVE: tl.constexpr, FREE: tl.constexpr):
    """One task gathers twice into one slot, another reads it."""
    tile = tlx.local_alloc((8, 32), tl.float16, 1)
    full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # reader
            at = tl.arange(0, 8)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for step in tl.static_range(2):
                if WAIT:
                    tlx.barrier_wait(full[0], step)
                tl.store(y_ptr + step * 256 + at, tlx.local_load(tile[0]))
                if ARRIVE:
                    tlx.barrier_arrive(free[0])
        with tlx.async_task(num_warps=1):  # gatherer
            for step in tl.static_range(2):
                if FREE:
                    tlx.barrier_wait(free[0], step ^ 1)
                tlx.barrier_expect_bytes(full[0], EXPECT)
                tlx.async_descriptor_gather(x_desc, tile[0], tl.load(from_ptr + tl.arange(0, 8)), step * 32, full[0])


@states("tma_gather", "barrier_expect", "barrier_wait", "barrier_arrive")
def gathered(expect=512, wait=True, arrive=True, free=True):
    x, y = np.ones((10, 64), np.float16), np.zeros((2, 256), np.float16)
    return gathering, 1, (describe(x, [1, 32]), y, LINES, expect, wait, arrive, free), {}


@pytest.mark.parametrize("expect, wait, arrive, free", list(itertools.product((496, 512, 528), *[SWITCHES] * 3)))
def test_a_slot_that_is_gathered_into(expect, wait, arrive, free):
    """Right iff the bytes of all rows are expected and waited for, and the slot is given back and waited for."""
    assert right(gathered(expect, wait, arrive, free)) == (expect == 512 and wait and arrive and free)


@mimw.jit
def gathered_here(x_desc, y_ptr, from_ptr):
    """The task that gathers reads the rows without a wait."""
    tile = tlx.local_alloc((8, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 512)
    tlx.async_descriptor_gather(x_desc, tile[0], tl.load(from_ptr + tl.arange(0, 8)), 0, full[0])
    tl.store(y_ptr + tl.arange(0, 8)[:, None] * 32 + tl.arange(0, 32)[None, :], tlx.local_load(tile[0]))
    tlx.barrier_wait(full[0], 0)


def test_a_gather_in_flight_that_is_read_is_named():
    x = describe(np.ones((10, 64), np.float16), [1, 32])
    (finding, ) = mimw.check(gathered_here, 1, x, np.zeros((8, 32), np.float16), LINES, seeds=2, shrink=False).findings
    assert finding.kind == "CopyReadEarly"
    assert {line_of(gathered_here, "tlx.local_load("), line_of(gathered_here, "async_descriptor_gather(")} <= {
        site.line for site in finding.sites}


@mimw.jit
def scattering(y_desc, to_ptr, FENCE: tl.constexpr, WAIT: tl.constexpr, FINISH: tl.constexpr):
    """Two tiles in turn through one buffer."""
    tile = tlx.local_alloc((8, 32), tl.float16, 1)
    for step in tl.static_range(2):
        tlx.local_store(tile[0], tl.full((8, 32), step, tl.float16))
        if FENCE:
            tlx.fence("async_shared")
        tlx.async_descriptor_scatter(y_desc, tile[0], tl.load(to_ptr + tl.arange(0, 8)) + step * 10, 0)
        if WAIT and step == 0:
            tlx.async_descriptor_store_wait(0)
        if FINISH and step == 1:
            tlx.async_descriptor_store_wait(0)


@states("tma_scatter", "tma_store_wait", "fence")
def scattered(fence=True, wait=True, finish=True):
    return scattering, 1, (describe(np.zeros((20, 32), np.float16), [1, 32]), LINES, fence, wait, finish), {}


@rows("fence", "wait", "finish")
def test_tiles_that_are_scattered(fence, wait, finish):
    """Right iff each scatter is fenced from the writes before it, and waited for before its source goes."""
    assert right(scattered(fence, wait, finish)) == (fence and wait and finish)


def test_a_source_that_is_overwritten_is_named():
    kernel, grid, args, meta = scattered(wait=False)
    (finding, ) = mimw.check(kernel, grid, *args, seeds=2, shrink=False, **meta).findings
    assert finding.kind == "SourceOverwritten"
    assert {line_of(scattering, "tlx.local_store("), line_of(scattering, "async_descriptor_scatter(")} <= {
        site.line for site in finding.sites}


@mimw.jit
def through_global(x_desc, y_desc, out_desc, lines_ptr, FENCE: tl.constexpr, WAIT: tl.constexpr):
    """What is scattered is gathered again by the same task."""
    tile = tlx.local_alloc((8, 32), tl.float16, 2)
    full = tlx.alloc_barriers(2)
    lines = tl.load(lines_ptr + tl.arange(0, 8))
    tlx.local_store(tile[0], tl.full((8, 32), 3, tl.float16))
    if FENCE:
        tlx.fence("async_shared")
    tlx.async_descriptor_scatter(y_desc, tile[0], lines, 0)
    if WAIT:
        tlx.async_descriptor_store_wait(0)
    tlx.barrier_expect_bytes(full[0], 512)
    tlx.async_descriptor_gather(y_desc, tile[1], lines, 0, full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_scatter(out_desc, tile[1], lines, 0)
    tlx.async_descriptor_store_wait(0)


@rows("fence", "wait")
def test_rows_that_go_through_global_memory(fence, wait):
    """Right iff the scatter is complete before the gather of the same rows."""
    arrays = [describe(np.zeros((10, 32), np.float16), [1, 32]) for _ in range(3)]
    assert right((through_global, 1, (*arrays, LINES, fence, wait), {})) == (fence and wait)


@mimw.jit
def two_programs(y_desc, to_ptr):
    tile = tlx.local_alloc((8, 32), tl.float16, 1)
    tlx.local_store(tile[0], tl.full((8, 32), 1, tl.float16))
    tlx.fence("async_shared")
    tlx.async_descriptor_scatter(y_desc, tile[0], tl.load(to_ptr + tl.program_id(0) * 8 + tl.arange(0, 8)), 0)
    tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("second", [8, 7, 16])
def test_rows_of_two_programs(second):
    """Right iff no row inside the tensor is in both."""
    to = np.concatenate([np.arange(8), np.arange(second, second + 8)]).astype(np.int32)
    assert right((two_programs, 2, (describe(np.zeros((20, 32), np.float16), [1, 32]), to), {}), "random") == (second >= 8)


# ---- numbers that cannot be -----------------------------------------------------------------------------------------------

@mimw.jit
def anything(x_desc, y_desc, from_ptr, to_ptr, first, column):
    tile = tlx.local_alloc((8, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 512)
    tlx.async_descriptor_gather(x_desc, tile[0], tl.load(from_ptr + tl.arange(0, 8)), first, full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_scatter(y_desc, tile[0], tl.load(to_ptr + tl.arange(0, 8)), column)
    tlx.async_descriptor_store_wait(0)


def run(source=LINES, target=LINES, first=0, column=0):
    x, y = np.arange(10 * 64).reshape(10, 64).astype(np.float16), np.zeros((10, 64), np.float16)
    mimw.simulate(anything, 1, describe(x, [1, 32]), describe(y, [1, 32]), source, target, first, column)
    return x, y


@pytest.mark.parametrize("given, complaint", [
    ({"first": 12}, "12 elements x 2 bytes = 24 bytes, and TMA copies from multiples of 16 bytes"),
    ({"column": 4}, "4 elements x 2 bytes = 8 bytes")])
def test_a_column_that_is_no_multiple_of_16_bytes(given, complaint):
    with pytest.raises(IllegalCopy, match=complaint) as error:
        run(**given)
    word = "gather(" if "first" in given else "scatter("
    assert error.value.sites[0].line == line_of(anything, word)


@mimw.jit
def constant_column(x_desc, from_ptr, COLUMN: tl.constexpr):
    tile = tlx.local_alloc((8, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 512)
    tlx.async_descriptor_gather(x_desc, tile[0], tl.load(from_ptr + tl.arange(0, 8)), COLUMN + 8, full[0])
    tlx.barrier_wait(full[0], 0)


@pytest.mark.parametrize("column", [0, 3])
def test_a_known_column_is_refused_before_any_run(column):
    x = describe(np.zeros((10, 64), np.float16), [1, 32])
    if column % 8 == 0:
        mimw.simulate(constant_column, 1, x, LINES, column)
        return
    with pytest.raises(IllegalCopy, match="begins at element 11 of a row: 11 elements x 2 bytes = 22 bytes"):
        mimw.simulate(constant_column, 1, x, LINES, column)


@pytest.mark.parametrize("given, complaint", [
    ({"target": np.array([3, 0, 7, -5, 9, 1, 2, 4], np.int32)},
     r"row 3 of the tile: its block at \(-5, 0\) of a tensor of shape \(10, 64\) begins at -5 along dimension 0"),
    ({"column": -8}, r"its block at \(0, -8\) .* begins at -8 along dimension 1, and TMA writes no block whose corner is neg")])
def test_nothing_is_scattered_to_negative_places(given, complaint):
    with pytest.raises(IllegalCopy, match=complaint) as error:
        run(**given)
    assert error.value.sites[0].line == line_of(anything, "scatter(")


def test_two_rows_for_one_place():
    """A race unless both hold the same bytes, or the place is outside."""
    twice = np.array([3, 0, 3, 5, 9, 1, 2, 4], np.int32)
    with pytest.raises(DataRace, match="sends rows 0 and 2 of the tile, which differ, to row 3 of the tensor") as error:
        run(target=twice)
    assert error.value.sites[0].line == line_of(anything, "scatter(")
    same = np.array([6, 1, 6, 5, 9, 1, 2, 4], np.int32)
    x, y = run(source=same, target=twice)
    assert (y[3, :32] == x[6, :32]).all()
    run(target=np.array([10, 10, 3, 5, 9, 1, 2, 4], np.int32))


def test_check_reports_it_at_its_line():
    y = describe(np.zeros((10, 32), np.float16), [1, 32])
    x = describe(np.arange(320).reshape(10, 32).astype(np.float16), [1, 32])
    report = mimw.check(anything, 1, x, y, LINES, LINES // 2, 0, 0, seeds=2)
    assert [finding.kind for finding in report.findings] == ["DataRace"]
    assert report.findings[0].sites[0].line == line_of(anything, "scatter(")


# ---- pipes ----------------------------------------------------------------------------------------------------------------

@triton.jit
def load(writer, x_desc, from_ptr, COMMIT: tl.constexpr):
    for step in range(4):
        slot = writer.acquire(step)
        tle.gpu.copy(x_desc, slot.a, [8, 32], [tl.load(from_ptr + step * 8 + tl.arange(0, 8)), 0])
        if COMMIT:
            writer.commit(step)


@triton.jit
def store(reader, y_desc, RELEASE: tl.constexpr, WAIT: tl.constexpr):
    for step in range(4):
        if WAIT:
            reader.wait(step)
        tle.gpu.copy(reader.fields["a"].slot(step % 2), y_desc, [8, 32], [step * 8, 0])
        if RELEASE:
            reader.release(step)


@mimw.jit
def piped(x_desc, y_desc, from_ptr, COMMIT: tl.constexpr, RELEASE: tl.constexpr, WAIT: tl.constexpr):
    p = tle.pipe(capacity=2, a=tle.gpu.alloc([2, 8, 32], tl.float16))
    tle.gpu.warp_specialize([(store, (p.reader(), y_desc, RELEASE, WAIT)), (load, (p.writer(), x_desc, from_ptr, COMMIT))], [1],
                            [24])


@rows("commit", "release", "wait")
def test_rows_through_a_pipe(commit, release, wait):
    """Right iff each chunk is committed, waited for and released; then the rows are those that were picked."""
    x, y = np.arange(640).reshape(20, 32).astype(np.float16), np.zeros((32, 32), np.float16)
    lines = np.random.default_rng(0).integers(-3, 23, 32).astype(np.int32)
    launch = piped, 1, (describe(x, [1, 32]), describe(y, [8, 32]), lines, commit, release, wait), {}
    assert right(launch, "random") == (commit and release and wait)
    if commit and release and wait:
        mimw.simulate(piped, 1, *launch[2])
        inside = (lines >= 0) & (lines < 20)
        assert (y == np.where(inside[:, None], x[np.where(inside, lines, 0)], 0)).all()
