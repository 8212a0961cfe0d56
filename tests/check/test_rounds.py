"""Which smaller launches `check` tries by itself, what it says of them, and that sizes which do not suit a kernel are no alarm."""

import json

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.kernels.rings import stored
from tests.kernels.small_gemm import gemm_arguments
from tests.kernels.tma_pipeline import pipeline, pipeline_arguments

describe = mimw.TensorDescriptor.from_tensor


def tried(report) -> dict[str, str]:
    return {one.what: one.outcome for one in report.tried}


def test_the_rounds_at_which_a_ring_breaks():
    """0, 1, 2, and S - 1, S, S + 1 with S = 3; no more than the launch has."""
    grid, args, meta = pipeline_arguments(6, STAGES=3)
    report = mimw.check(pipeline, grid, *args, **meta)
    assert report.ok and tried(report) == {
        "0 rounds (K=0)": "ok", "1 round (K=64)": "ok", "2 rounds (K=128)": "ok", "3 rounds (K=192)": "ok",
        "4 rounds (K=256)": "ok"}
    assert "tried besides: 0 rounds (K=0); 1 round (K=64); " in str(report)
    grid, args, meta = pipeline_arguments(3, STAGES=3)
    assert list(tried(mimw.check(pipeline, grid, *args, **meta))) == ["0 rounds (K=0)", "1 round (K=64)", "2 rounds (K=128)"]


def test_the_report_as_data():
    grid, args, meta = pipeline_arguments(2)
    report = mimw.check(pipeline, grid, *args, **meta)
    first, second = json.loads(json.dumps(report.as_json()))["tried"]
    assert (first["what"], first["outcome"], first["sizes"], first["grid"]) == ("0 rounds (K=0)", "ok", {"K": 0}, [1])
    assert list(second["rounds"].values()) == [1, 1] and report.as_json()["untried"] == ""


def test_off():
    grid, args, meta = pipeline_arguments(4)
    report = mimw.check(pipeline, grid, *args, rounds=False, **meta)
    assert report.tried == () and "besides" not in str(report)


def test_not_where_the_launch_itself_shows_something():
    grid, args, meta = pipeline_arguments(6, RELEASE_FIRST=True)
    report = mimw.check(pipeline, grid, *args, **meta)
    assert not report.ok and not report.tried and report.untried == "something was found in the launch as given"


def test_two_tiles_a_program():
    """The library's GEMM is persistent: half the programs have two tiles each, with as many rounds as break rings."""
    from mimw.kernels import gemm
    grid, args, meta = gemm_arguments(m=256, n=512, k=256, programs=4, bm=128, bn=256, stages=2)
    report = mimw.check(gemm.kernel, grid, *args, **meta)
    assert report.ok, report
    assert "2 tiles a program, grid=(3,), K=64" in tried(report) and "1 round (K=64)" in tried(report)


def breaks(at, n=8):
    x, y = np.ones((n * 16, 32), np.float16), np.zeros((n * 16, 32), np.float16)
    return stored, 1, (describe(x, [16, 32]), y, n, 2, True, at), {}


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_mistake_at_some_number_of_rounds_is_found_there(at):
    kernel, grid, args, meta = breaks(at)
    report = mimw.check(kernel, grid, *args, **meta)
    assert {one.what for one in report.tried if one.outcome == "found"} == {f"{at} round{'s' if at > 1 else ''} (steps={at})"}
    assert report.findings and all(finding.sizes == {"steps": at} for finding in report.findings)
    assert f"steps={at}" in str(report)


def test_a_mistake_elsewhere_is_not():
    """Rounds that break no ring are not tried: with 5 of them it goes unseen."""
    kernel, grid, args, meta = breaks(5)
    assert mimw.check(kernel, grid, *args, **meta).ok


@mimw.jit
def demanding(x_desc, y_ptr, n, HOW: tl.constexpr):
    """A kernel that is not made for every n."""
    ring = tlx.local_alloc((16, 32), tl.float16, 2)
    full = tlx.alloc_barriers(2)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    if HOW == "assert":
        tl.device_assert(n % 4 == 0)
    if HOW == "assume":
        tl.assume(n >= 4)
    if HOW == "ahead":
        for first in tl.static_range(2):
            tlx.barrier_expect_bytes(full[first], 1024)
            tlx.async_descriptor_load(x_desc, ring[first], [first * 16, 0], full[first])
        for i in range(n):
            tlx.barrier_wait(full[i % 2], (i // 2) & 1)
            tl.store(y_ptr + i * 512 + at, tlx.local_load(ring[i % 2]))
            if i + 2 < n:
                tlx.barrier_expect_bytes(full[i % 2], 1024)
                tlx.async_descriptor_load(x_desc, ring[i % 2], [(i + 2) * 16, 0], full[i % 2])
    elif HOW == "peeled":
        tlx.barrier_expect_bytes(full[0], 1024)
        tlx.async_descriptor_load(x_desc, ring[0], [0, 0], full[0])
        tlx.barrier_wait(full[0], 0)
        total = tlx.local_load(ring[0])
        for i in range(1, n):
            tlx.barrier_expect_bytes(full[i % 2], 1024)
            tlx.async_descriptor_load(x_desc, ring[i % 2], [i * 16, 0], full[i % 2])
            tlx.barrier_wait(full[i % 2], (i // 2) & 1)
            total += tlx.local_load(ring[i % 2])
        tl.store(y_ptr + at, total)
    else:
        for i in range(n):
            tlx.barrier_expect_bytes(full[i % 2], 1024)
            tlx.async_descriptor_load(x_desc, ring[i % 2], [i * 16, 0], full[i % 2])
            tlx.barrier_wait(full[i % 2], (i // 2) & 1)
            tl.store(y_ptr + i * 512 + at, tlx.local_load(ring[i % 2]))
            if n < 4 and HOW == "bounds":
                tl.store(y_ptr - 1048576, 0.0)     # far from any array


def demands(how):
    x, y = np.ones((128, 32), np.float16), np.zeros((128, 32), np.float16)
    return demanding, 1, (describe(x, [16, 32]), y, 8, how), {}


@pytest.mark.parametrize("how, fitting, refused", [
    ("assert", ["0 rounds (n=0)"], ["1 round (n=1)", "2 rounds (n=2)", "3 rounds (n=3)"]),
    ("assume", [], ["0 rounds (n=0)", "1 round (n=1)", "2 rounds (n=2)", "3 rounds (n=3)"]),
    ("bounds", ["0 rounds (n=0)"], ["1 round (n=1)", "2 rounds (n=2)", "3 rounds (n=3)"]),
    ("ahead", ["2 rounds (n=2)", "3 rounds (n=3)"], []),
    ("peeled", ["1 round (n=2)", "2 rounds (n=3)", "3 rounds (n=4)"], []),
])
def test_sizes_that_a_kernel_is_not_made_for(how, fitting, refused):
    """An assertion, an assumption, an address, copies written out before the loop, a first round written out: no alarm."""
    kernel, grid, args, meta = demands(how)
    report = mimw.check(kernel, grid, *args, **meta)
    assert report.ok, report
    assert [what for what, outcome in tried(report).items() if outcome == "ok"] == fitting
    assert [what for what, outcome in tried(report).items() if outcome == "not applicable"] == refused
    assert all(f"not made for {what}: " in str(report) for what in refused)


@mimw.jit
def tied(x_desc, y_ptr, n, also_n):
    """The producer goes by one argument, the consumer by another that the host gives with it."""
    ring = tlx.local_alloc((16, 32), tl.float16, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for i in range(also_n):
                tlx.barrier_wait(full[i % 2], (i // 2) & 1)
                tl.store(y_ptr + i * 512 + at, tlx.local_load(ring[i % 2]))
                tlx.barrier_arrive(free[i % 2])
        with tlx.async_task(num_warps=1):
            for i in range(n):
                tlx.barrier_wait(free[i % 2], ((i // 2) & 1) ^ 1)
                tlx.barrier_expect_bytes(full[i % 2], 1024)
                tlx.async_descriptor_load(x_desc, ring[i % 2], [i * 16, 0], full[i % 2])


def test_arguments_that_belong_together():
    x, y = np.ones((96, 32), np.float16), np.zeros((96, 32), np.float16)
    report = mimw.check(tied, 1, describe(x, [16, 32]), y, 6, 6)
    assert report.ok and not report.tried
    assert "n=0" in report.untried and "also_n=0" in report.untried and "would not fit all loops" in report.untried


@mimw.jit
def loaded(x_desc, n_ptr, y_ptr):
    """Memory says how many rounds there are."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for i in range(tl.load(n_ptr)):
        tlx.barrier_expect_bytes(full[0], 1024)
        tlx.async_descriptor_load(x_desc, tile[0], [i * 16, 0], full[0])
        tlx.barrier_wait(full[0], i & 1)
        tl.store(y_ptr + i * 512 + at, tlx.local_load(tile[0]))


def test_what_cannot_be_tried_is_said():
    x, y = np.ones((64, 32), np.float16), np.zeros((64, 32), np.float16)
    report = mimw.check(loaded, 1, describe(x, [16, 32]), np.full(1, 4, np.int32), y)
    assert report.ok and not report.tried and "loaded values" in report.untried
    assert "no smaller launches tried: loaded values" in str(report)


def test_arrays_are_left_as_they_were():
    kernel, grid, args, meta = breaks(1)
    mimw.check(kernel, grid, *args, **meta)
    assert not args[1].any()
