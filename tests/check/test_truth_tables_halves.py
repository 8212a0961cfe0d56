"""Truth tables of stages that two halves of the waves run one stage apart: what is too close, and which wait comes too late."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .tables import found, right, states

HALVES = dict(num_warps=8, target="gfx950")
N = 512


@mimw.jit
def ring(x_ptr, y_ptr, trips, AWAITED_BEHIND: tl.constexpr, FULL: tl.constexpr):
    """Each trip reads one of two slots while the other one is filled for the next trip."""
    tiles = tlx.local_alloc((512, ), tl.float32, 2)
    at = tl.arange(0, 512)
    tlx.async_load(x_ptr + at, tiles[0])
    tlx.async_load_commit_group()
    if FULL:
        tlx.async_load_wait_group(0)
    for i in range(trips):
        if AWAITED_BEHIND == 0:
            tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("read"):
            values = tlx.local_load(tiles[i % 2])
            tlx.async_load(x_ptr + (i + 1) * 512 + at, tiles[(i + 1) % 2])
            tlx.async_load_commit_group()
        if AWAITED_BEHIND == 1:
            tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("multiply", priority=1):
            doubled = values * 2
        if AWAITED_BEHIND == 2:
            tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("write"):
            tl.store(y_ptr + i * 512 + at, doubled)
        if AWAITED_BEHIND == 3:
            tlx.async_load_wait_group(0)
    tlx.async_load_wait_group(0)


@states("stage_start", "stage_end", "async_load", "async_commit", "async_wait")
def awaited(behind=1, full=True):
    x, y = np.arange(5 * N, dtype=np.float32), np.zeros(4 * N, np.float32)
    return ring, 1, (x, y, 4, behind, full), HALVES


@pytest.mark.parametrize("behind", [0, 1, 2, 3])
def test_a_copy_is_awaited_two_stages_ahead(behind):
    """Right iff a whole stage lies between the wait for a copy and the stage that reads it, since the other half waits, too."""
    assert right(awaited(behind)) == (behind in (1, 2))


def test_a_copy_from_before_the_loop_is_awaited_before_the_loop():
    assert right(awaited(1)) and not right(awaited(0)) and not right(awaited(1, full=False))


def test_the_late_wait_is_named():
    finding = found(awaited(3), "CopyReadEarly")
    assert "waited for behind the stage before" in finding.message and "one stage apart" in finding.message


@mimw.jit
def handed_on(x_ptr, y_ptr, trips, STORED: tl.constexpr, LOADED: tl.constexpr, SLOTS: tl.constexpr):
    """A tile goes through shared memory from one stage to another one."""
    tiles = tlx.local_alloc((512, ), tl.float32, SLOTS)
    at = tl.arange(0, 512)
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            values = tl.load(x_ptr + i * 512 + at)
            if STORED == 0:
                tlx.local_store(tiles[i % SLOTS], values)
            if LOADED == 0:
                back = tlx.local_load(tiles[i % SLOTS])
        with tlx.warp_pipeline_stage():
            if STORED == 1:
                tlx.local_store(tiles[i % SLOTS], values)
            if LOADED == 1:
                back = tlx.local_load(tiles[i % SLOTS])
        with tlx.warp_pipeline_stage():
            if LOADED == 2:
                back = tlx.local_load(tiles[i % SLOTS])
        with tlx.warp_pipeline_stage():
            if LOADED == 3:
                back = tlx.local_load(tiles[i % SLOTS])
            tl.store(y_ptr + i * 512 + at, back)


@states("stage_start", "stage_end", "local_store", "local_load")
def handed(stored=0, loaded=2, slots=1):
    x, y = np.arange(4 * N, dtype=np.float32), np.zeros(4 * N, np.float32)
    return handed_on, 1, (x, y, 4, stored, loaded, slots), HALVES


@pytest.mark.parametrize("stored", [0, 1])
@pytest.mark.parametrize("loaded", [0, 1, 2, 3])
@pytest.mark.parametrize("slots", [1, 2])
def test_a_tile_that_goes_from_stage_to_stage(stored, loaded, slots):
    """Right iff two stages lie between the store and the load, and from there to the next trip's store into that slot."""
    if loaded < stored:
        return
    assert right(handed(stored, loaded, slots)) == (loaded - stored >= 2 and stored + 4 * slots - loaded >= 2)


def test_each_kind_has_its_class():
    assert "in that stage, too" in found(handed(0, 0), "DataRace").message
    assert "in the stage before" in found(handed(0, 1), "DataRace").message
    assert found(handed(0, 3), "SlotReusedEarly")


@mimw.jit
def parts(x_ptr, y_ptr, trips, SAME: tl.constexpr):
    """One stage writes a half of a tile, the next one reads that half or the other one."""
    tiles = tlx.local_alloc((2, 512), tl.float32, 1)
    at = tl.arange(0, 512)[None, :]
    whole = tl.arange(0, 2)[:, None] * 512 + at
    tlx.local_store(tiles[0], tl.load(x_ptr + whole))
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            tlx.local_store(tlx.local_slice(tiles[0], [0, 0], [1, 512]), tl.load(x_ptr + at))
        with tlx.warp_pipeline_stage():
            back = tlx.local_load(tlx.local_slice(tiles[0], [0 if SAME else 1, 0], [1, 512]))
        with tlx.warp_pipeline_stage():
            tl.store(y_ptr + i * 512 + at, back)


@pytest.mark.parametrize("same", [True, False])
def test_only_bytes_that_both_touch_count(same):
    x, y = np.arange(2 * N, dtype=np.float32), np.zeros(3 * N, np.float32)
    assert right((parts, 1, (x, y, 3, same), HALVES)) == (not same)


@mimw.jit
def picked(x_ptr, y_ptr, from_ptr, trips):
    """One stage scatters into some rows of a tile, the next one gathers from rows."""
    tile = tlx.local_alloc((8, 64), tl.float32, 1)
    line, row = tl.arange(0, 64)[None, :], tl.arange(0, 2)[:, None]
    tlx.local_store(tile[0], tl.load(x_ptr + tl.arange(0, 8)[:, None] * 64 + line))
    into, out = (row + line * 0), tl.load(from_ptr + row + line * 0)
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            tlx.local_scatter(tile[0], (row * 64 + line).to(tl.float32), into, axis=0)
        with tlx.warp_pipeline_stage():
            back = tlx.local_gather(tile[0], out, axis=0)
        with tlx.warp_pipeline_stage():
            tl.store(y_ptr + i * 128 + row * 64 + line, back)


@pytest.mark.parametrize("first, is_right", [(0, False), (1, False), (2, True)])
def test_picked_elements_count_one_by_one(first, is_right):
    x, y = np.arange(512, dtype=np.float32), np.zeros(3 * 128, np.float32)
    assert right((picked, 1, (x, y, np.array([first, first + 1], np.int32), 3), HALVES)) == is_right
