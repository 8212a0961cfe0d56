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


@mimw.jit
def through_global(x_ptr, y_ptr, z_ptr, trips, STORED: tl.constexpr, LOADED: tl.constexpr, TURNED: tl.constexpr,
                   BUFFERED: tl.constexpr, STEP: tl.constexpr):
    """A tile goes through global memory from one stage to a later one, which takes it element by element, or from the other end."""
    at = tl.arange(0, 512)
    back_at = 511 - at if TURNED else at
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            values = tl.load(x_ptr + i * 512 + at)
            if STORED == 0:
                if BUFFERED:
                    tlx.buffer_store(values, y_ptr, i * STEP + at)
                else:
                    tl.store(y_ptr + i * STEP + at, values)
            if LOADED == 0:
                back = tl.load(y_ptr + i * STEP + back_at)
        with tlx.warp_pipeline_stage():
            if STORED == 1:
                tl.store(y_ptr + i * STEP + at, values)
            if LOADED == 1:
                back = tl.load(y_ptr + i * STEP + back_at)
        with tlx.warp_pipeline_stage():
            if LOADED == 2:
                if BUFFERED:
                    back = tlx.buffer_load(y_ptr, i * STEP + back_at)
                else:
                    back = tl.load(y_ptr + i * STEP + back_at)
        with tlx.warp_pipeline_stage():
            if LOADED == 3:
                back = tl.load(y_ptr + i * STEP + back_at)
            tl.store(z_ptr + i * 512 + at, back)


def far(stored=0, loaded=2, turned=True, buffered=False, step=0, trips=3):
    x, y, z = (np.arange(4 * N, dtype=np.float32) for _ in range(3))
    return through_global, 1, (x, y, z, trips, stored, loaded, turned, buffered, step), HALVES


@pytest.mark.parametrize("stored, loaded, buffered", [(0, 0, False), (0, 1, False), (0, 2, True), (0, 3, False), (1, 3, False)])
@pytest.mark.parametrize("turned", [True, False])
def test_global_memory_is_ordered_by_no_border(stored, loaded, buffered, turned):
    """Right iff each element stays with its wave, however many stages lie between: no half waits for its stores at a border."""
    assert right(far(stored, loaded, turned, buffered)) == (not turned)


def test_of_the_trips_before_too():
    """What a trip loads the next trip stores: with one trip there is no such store. With places of their own nothing meets."""
    assert right(far(0, 2, turned=False, trips=1)) and right(far(0, 2, turned=False, step=512))
    finding = found(far(0, 2), "DataRace")
    assert all(said in finding.message for said in ("same loop of stages", "'y_ptr'", "do not wait for their accesses"))


@mimw.jit
def around_the_loop(x_ptr, y_ptr, trips, WHERE: tl.constexpr):
    """A tile is stored before the loop, in it or behind it, and loaded in the loop or behind it, from the other end."""
    at = tl.arange(0, 512)
    if WHERE == "before":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            values = tl.load(x_ptr + i * 512 + at)
            if WHERE == "in":
                tl.store(y_ptr + i * 512 + at, values)
        with tlx.warp_pipeline_stage():
            values *= 2
        with tlx.warp_pipeline_stage():
            if WHERE == "before":
                values += tl.load(y_ptr + 511 - at)
            tl.store(x_ptr + i * 512 + at, values)
    if WHERE == "in":
        tl.store(x_ptr + at, tl.load(y_ptr + 511 - at))


@pytest.mark.parametrize("where", ["before", "in"])
def test_all_waves_meet_before_and_behind_the_loop(where):
    x, y = np.arange(4 * N, dtype=np.float32), np.zeros(4 * N, np.float32)
    assert right((around_the_loop, 1, (x, y, 3, where), HALVES))


@mimw.jit
def counted(x_ptr, y_ptr, n_ptr, trips, FIRST: tl.constexpr, SECOND: tl.constexpr):
    """Two stages touch one number, or numbers of a tile that lie the other way round: by atomic ops, or not."""
    at = tl.arange(0, 512)
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            if FIRST == "atomic":
                tl.atomic_add(n_ptr + at, 1.0, sem="relaxed")
            if FIRST == "one":
                tl.store(n_ptr, 1.0)
            if FIRST == "copy":
                tlx.buffer_store(tl.load(x_ptr + at), n_ptr, at)
        with tlx.warp_pipeline_stage():
            values = tl.load(x_ptr + at)
        with tlx.warp_pipeline_stage():
            if SECOND == "atomic":
                tlx.buffer_atomic_add(n_ptr, 511 - at, values, sem="relaxed")
            if SECOND == "plain":
                values = tl.load(n_ptr + 511 - at)
            if SECOND == "one":
                tl.store(n_ptr, 2.0)
            if SECOND == "number":
                values += tl.load(n_ptr)
            tl.store(y_ptr + at, values)


def numbers(first, second):
    x, y, n = (np.arange(N, dtype=np.float32) for _ in range(3))
    return counted, 1, (x, y, n, 3, first, second), HALVES


@pytest.mark.parametrize("first, second, is_right", [("atomic", "atomic", True), ("atomic", "plain", False), ("one", "one", True),
                                                     ("one", "number", False), ("copy", "atomic", False)])
def test_atomic_ops_do_not_race_with_each_other(first, second, is_right):
    """One number is stored by one thread, and loaded by all."""
    assert right(numbers(first, second)) == is_right


@mimw.jit
def copied_in(x_ptr, y_ptr, trips, PLACE: tl.constexpr):
    """Copies into shared memory read what another stage stores: at other elements than those of the tile that it stores."""
    tiles, at = tlx.local_alloc((512, ), tl.float32, 2), tl.arange(0, 512)
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            tlx.buffer_load_to_local(tiles[i % 2], x_ptr + PLACE, at)
            tlx.async_load_commit_group()
        tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage():
            tl.store(y_ptr + at, at.to(tl.float32))
        with tlx.warp_pipeline_stage():
            values = tlx.local_load(tiles[i % 2])
        with tlx.warp_pipeline_stage():
            tl.store(x_ptr + at, values)


@pytest.mark.parametrize("place, is_right", [(0, True), (4, False), (512, True)])
def test_copies_read_global_memory(place, is_right):
    x, y = np.arange(2 * N, dtype=np.float32), np.zeros(N, np.float32)
    assert right((copied_in, 1, (x, y, 3, place), HALVES)) == is_right


@mimw.jit
def blocks(x_ptr, y_ptr, trips, SHIFT: tl.constexpr):
    """A block is stored by a descriptor, and loaded as it was, or its rows a little further."""
    x_desc = tl.make_tensor_descriptor(x_ptr, [128, 32], [32, 1], [16, 32])
    y_desc = tl.make_tensor_descriptor(y_ptr, [17, 32], [32, 1], [16, 32])
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            y_desc.store([0, 0], x_desc.load([0, 0]))
        with tlx.warp_pipeline_stage():
            row = i * 16 + 16
        with tlx.warp_pipeline_stage():
            back = y_desc.load([SHIFT, 0])
        with tlx.warp_pipeline_stage():
            x_desc.store([row, 0], back)


@pytest.mark.parametrize("shift", [0, 1])
def test_blocks_of_descriptors_count_by_their_places(shift):
    x, y = np.ones((128, 32), np.float32), np.zeros((17, 32), np.float32)
    assert right((blocks, 1, (x, y, 2, shift), HALVES)) == (shift == 0)
