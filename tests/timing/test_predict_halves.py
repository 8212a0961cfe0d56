"""Predictions for loops in stages, which two halves of the waves run one apart: by hand out of the figures of the cost model."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.ir.trace import Trace
from mimw.simulator.costs import model

COSTS = model("gfx950")
BARRIER, LATENCY, SCALAR = COSTS["barrier.named"], COSTS["shared.latency"], COSTS["issue.scalar"]
INSTRUCTION = COSTS["mfma.f16_32x32x16"]        # cycles
CORES, WAVES = 4, 8
WIDE = COSTS["shared.wide_read_bytes"]


@mimw.jit
def read_and_multiply(y, TRIPS, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGED: tl.constexpr):
    """Each trip reads both operands from LDS, and multiplies them."""
    a, b = tlx.local_alloc((BM, BK), tl.float16, 1), tlx.local_alloc((BK, BN), tl.float16, 1)
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(TRIPS):
        if STAGED:
            with tlx.warp_pipeline_stage("read"):
                left, right = tlx.local_load(a[0]), tlx.local_load(b[0])
            with tlx.warp_pipeline_stage("multiply", priority=1):
                acc = tl.dot(left, right, acc)
        else:
            acc = tl.dot(tlx.local_load(a[0]), tlx.local_load(b[0]), acc)
    tl.store(y + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc)


def predicted(kernel, *args, warps=WAVES, **meta):
    return mimw.predict(kernel, (1, ), *args, num_warps=warps, target="gfx950", **meta)


def a_trip(tile, staged=True, warps=WAVES, trips=20):
    """Cycles of a trip in the middle of the loop."""
    y = np.empty(tile[:2], np.float32)
    short, long = (predicted(read_and_multiply, y, n, *tile, staged, warps=warps).cycles for n in (trips, 2 * trips))
    return (long - short) / trips


def product_of_a_half(m, n, k):
    return m * n * k / (32 * 32 * 16) / WAVES * INSTRUCTION


def test_stages_that_balance_cost_the_longer_one_and_not_the_sum():
    """128 x 128 x 64 of fp16: half of the waves multiply for 8 instructions of 32 cycles each, 256 in all. Waves lie four by two,
    so the eight read A twice and B four times, 96 KiB; half of that takes 192 cycles at 256 bytes, and is there 64 later: 256, too.
    The one half does this while the other does that, and in a trip they change places twice, at a barrier."""
    multiply = product_of_a_half(128, 128, 64)
    read = (2 + 4) * 128 * 64 * 2 / 2 / WIDE + LATENCY
    assert multiply == read == 256
    assert a_trip((128, 128, 64)) == pytest.approx(2 * (max(read, multiply) + BARRIER), rel=0.02)
    assert a_trip((128, 128, 64)) < 0.65 * 2 * (read + multiply)


def test_stages_that_do_not_balance_cost_the_longer_one():
    """256 x 256 x 64: 1024 cycles to multiply, 384 + 64 to read. The next product begins behind the barrier, to which the half
    comes when its last instruction, and so all but 32 cycles of its product, has been issued."""
    multiply, read = product_of_a_half(256, 256, 64), (2 + 4) * 256 * 64 * 2 / 2 / WIDE + LATENCY
    assert (multiply, read) == (1024, 448)
    assert a_trip((256, 256, 64)) == pytest.approx(2 * (multiply - INSTRUCTION + BARRIER), rel=0.01)
    found = predicted(read_and_multiply, np.empty((256, 256), np.float32), 40, 256, 256, 64, True)
    assert found.bound.startswith("matrix cores, busy")


def test_four_waves_have_no_halves():
    """All of a product takes the four cores 512 cycles; its reads, which go on beside it, take fewer."""
    assert a_trip((128, 128, 64), staged=False, warps=4) == pytest.approx(2 * product_of_a_half(128, 128, 64))


def lanes(trace: Trace) -> dict:
    found = {}
    for event in trace.events:
        found.setdefault(event.lane, []).append(event)
    return found


def test_the_timeline_shows_both_halves(tmp_path):
    """They never multiply at the same time, one reads while the other multiplies, and nothing overlaps in a lane."""
    found = predicted(read_and_multiply, np.empty((256, 256), np.float32), 6, 256, 256, 64, True)
    halves, clock = lanes(found.trace), found.megahertz
    assert {"first half", "second half", "default", "tensor core"} <= set(halves)
    labels = [event.label for event in sorted(halves["tensor core"], key=lambda event: event.start)]
    assert labels == [f"256 x 256 x 64, {half} half" for half in ("first", "second")] * 6
    for lane in halves.values():
        lane.sort(key=lambda event: event.start)
        assert all(before.end <= after.start + 1e-9 for before, after in zip(lane, lane[1:]))
    waits = [event for event in halves["first half"] if event.label == "the second half"]
    assert len(waits) >= 5 and all((event.end - event.start) * clock < 1024 for event in waits)
    assert "first half" in str(found) and "second half" in str(found)
    found.write(tmp_path / "halves.html")
    assert "second half" in (tmp_path / "halves.html").read_text()


@mimw.jit
def eight_waves(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGED: tl.constexpr):
    """C = A B^T of one tile a program: copies of the next step beside the product of this one."""
    a, b = tlx.local_alloc((BM, BK), tl.float16, 2), tlx.local_alloc((BN, BK), tl.float16, 2)
    a_at = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] * K + tl.arange(0, BK)[None, :]
    b_at = (tl.program_id(1) * BN + tl.arange(0, BN))[:, None] * K + tl.arange(0, BK)[None, :]
    tlx.buffer_load_to_local(a[0], a_ptr, a_at)
    tlx.buffer_load_to_local(b[0], b_ptr, b_at)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(K // BK - 1):
        if STAGED:
            with tlx.warp_pipeline_stage("memory", priority=0):
                x, y = tlx.local_load(a[k % 2]), tlx.local_load(tlx.local_trans(b[k % 2]))
                tlx.buffer_load_to_local(a[(k + 1) % 2], a_ptr + (k + 1) * BK, a_at)
                tlx.buffer_load_to_local(b[(k + 1) % 2], b_ptr + (k + 1) * BK, b_at)
                tlx.async_load_commit_group()
            tlx.async_load_wait_group(0)
            with tlx.warp_pipeline_stage("compute", priority=1):
                acc = tl.dot(x, y, acc)
        else:
            x, y = tlx.local_load(a[k % 2]), tlx.local_load(tlx.local_trans(b[k % 2]))
            tlx.buffer_load_to_local(a[(k + 1) % 2], a_ptr + (k + 1) * BK, a_at)
            tlx.buffer_load_to_local(b[(k + 1) % 2], b_ptr + (k + 1) * BK, b_at)
            tlx.async_load_commit_group()
            tlx.async_load_wait_group(0)
            acc = tl.dot(x, y, acc)
    tl.store(c_ptr + (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] * tl.num_programs(1) * BN
             + tl.program_id(1) * BN + tl.arange(0, BN)[None, :], acc)


def ping_pong(staged):
    """(the prediction, cycles from product to product in the middle of the loop)"""
    x, c = np.empty((1024, 512), np.float16), np.empty((1024, 1024), np.float32)
    found = mimw.predict(eight_waves, (4, 4), x, x, c, 512, 256, 256, 64, staged, num_warps=WAVES, target="gfx950")
    begun = sorted(event.start for event in lanes(found.trace)["tensor core"] if "second" not in event.label)
    return found, np.median(np.diff(begun)) * found.megahertz


def test_ping_pong_is_nearer_to_the_matrix_cores_peak_than_the_same_without_stages():
    """256 x 256 x 64 of fp16. Without stages all waves wait for the copies at the same time, and nobody multiplies. In stages a
    trip is twice as long as the copies of one half take, which are waited for in the stage that starts them."""
    (found, apart), (_, together) = ping_pong(True), ping_pong(False)
    peak = 256 * 256 * 64 / COSTS["tensor.macs_16"]
    assert peak == 2 * product_of_a_half(256, 256, 64) == 2048
    assert peak / apart > 1.15 * peak / together
    assert "for all cp.async groups" in found.bound


@mimw.jit
def two_products(y, TRIPS, FIRST: tl.constexpr, SECOND: tl.constexpr):
    """Each stage multiplies, so both halves ask for the matrix cores at the same time: 16 instructions of either half in each."""
    a, b = tlx.local_alloc((128, 128), tl.float16, 1), tlx.local_alloc((128, 128), tl.float16, 1)
    left, right = tlx.local_load(a[0]), tlx.local_load(b[0])
    one, other = tl.zeros((128, 128), tl.float32), tl.zeros((128, 128), tl.float32)
    for _ in range(TRIPS):
        with tlx.warp_pipeline_stage("one", priority=FIRST):
            one = tl.dot(left, right, one)
        with tlx.warp_pipeline_stage("other", priority=SECOND):
            other = tl.dot(right, left, other)
    tl.store(y + tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :], one + other)


def stretches(first, second):
    """Of the lane of the matrix cores: (line of the product, instructions in a row)."""
    found = predicted(two_products, np.empty((128, 128), np.float32), 8, first, second)
    events = sorted(lanes(found.trace)["tensor core"], key=lambda event: event.start)
    lines = sorted({event.site.line for event in events})
    return found.cycles, [(lines.index(event.site.line), round((event.end - event.start) * found.megahertz / INSTRUCTION))
                          for event in events]


def test_the_higher_priority_has_the_matrix_cores_first():
    """Of equal priorities the halves take turns, instruction by instruction. The one with more goes on until its stage is issued.
    All instructions are the same in number, so the loop takes as long."""
    equal, other, one = stretches(0, 0), stretches(0, 3), stretches(2, 1)
    assert equal[0] == pytest.approx(other[0], rel=0.02) == pytest.approx(one[0], rel=0.02)
    assert sum(count for _, count in equal[1]) == sum(count for _, count in other[1]) == 2 * 2 * 8 * 16
    assert [count for _, count in equal[1]].count(1) > 0.9 * len(equal[1])
    middle = slice(4, -4)
    for favoured, (_, found) in ((1, other), (0, one)):
        assert all(count >= 15 for line, count in found[middle] if line == favoured), found


@mimw.jit
def waits_in_front(x, y, TRIPS):
    """The wait in front of the first stage is at the barrier behind the last one; one stage has a branch."""
    tiles, at = tlx.local_alloc((4096, ), tl.float32, 2), tl.arange(0, 4096)
    tlx.async_load(x + at, tiles[0])
    tlx.async_load_commit_group()
    tlx.async_load(x + 4096 + at, tiles[1])
    tlx.async_load_commit_group()
    total = tl.zeros((4096, ), tl.float32)
    for i in range(TRIPS):
        tlx.async_load_wait_group(1)
        with tlx.warp_pipeline_stage():
            if i % 2 == 1:
                total += 1.0
        with tlx.warp_pipeline_stage():
            total += tlx.local_load(tiles[i % 2])
        with tlx.warp_pipeline_stage():
            total *= 2.0
        with tlx.warp_pipeline_stage():
            tlx.async_load(x + (i + 2) * 4096 + at, tiles[i % 2])
            tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(y + at, total)


@pytest.mark.parametrize("trips", [0, 1, 2, 9])
def test_any_number_of_trips_ends(trips):
    """Copies from before the loop are waited for by both halves; the bytes that go in are those of the copies alone."""
    found = predicted(waits_in_front, np.empty(12 * 4096, np.float32), np.empty(4096, np.float32), trips)
    copied = sum(event.bytes for event in lanes(found.trace)["cp.async"])
    assert copied == (2 + trips) * 4096 * 4
    assert found.units["inbound"] * found.cycles == pytest.approx(copied / (COSTS["memory.sm_gb_per_s"] * 1e3 / found.megahertz))
