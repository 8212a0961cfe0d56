"""Threads that leave memory, and threads that meet in it, against a count register by register."""

from itertools import product

import numpy as np
import pytest

from mimw.compiler.ttgir.layouts import tile_map
from mimw.compiler.ttgir.thread_accesses import Access, meetings, overwritten, strays

SHAPE = (16, 64)
ROWS = tile_map("#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>", SHAPE)
COLUMNS = tile_map("#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]}>", SHAPE)
# 16 elements over four warps of 32 lanes: each is in two lanes of every warp.
FEW = tile_map("#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>", (16, ))
PAIR = tile_map("#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [2], order = [0], CGALayout = [[1]]}>",
                (128, ))
START = 4096


def access(tile, writes, mask=None, size=2, step=None):
    """A tile at consecutive addresses."""
    number = np.arange(np.prod(tile.shape)).reshape(tile.shape)
    return Access(tile, START + number * (step or size), mask, size, writes)


def test_a_store_beyond_the_end_is_told_by_its_threads():
    """A tile of 16 x 64 of an array of 13 rows."""
    found = strays(access(ROWS, True), [(START, START + 13 * 64 * 2)])
    assert found.count == 3 * 64 and len(found.touches) == 8
    assert found.lines()[0] == "warp 2, lane 16, register 4: element (13, 0)"
    assert found.lines()[-2:] == ["warp 2, lane 17, register 7: element (13, 7)", "and 184 more"]
    assert {touch.address for touch in found.touches} == {START + 2 * (13 * 64 + column) for column in range(8)}


def test_a_mask_keeps_it_inside():
    mask = np.arange(16)[:, None] < np.full(64, 13)
    spans = [(START, START + 13 * 64 * 2)]
    assert strays(access(ROWS, True, mask), spans).lines() == []
    mask[14, 63] = True
    (line, ) = strays(access(ROWS, True, mask), spans).lines()
    assert line == "warp 3, lane 15, register 7: element (14, 63)"


def test_an_element_that_begins_inside_may_end_outside():
    (line, ) = strays(access(FEW, False, size=4), [(START, START + 63)]).lines()
    assert line == "warp 0, lane 15, register 0: element (15)"
    assert strays(access(FEW, False, size=4), [(START, START + 32), (START + 32, START + 64)]).count == 0
    assert strays(access(FEW, False, size=4), [(START, START + 30), (START + 30, START + 64)]).count == 1     # across two arrays


def test_the_cta_of_a_cluster_is_named():
    (line, ) = strays(access(PAIR, True), [(START, START + 254)]).lines()
    assert line == "CTA 1, warp 1, lane 31, register 0: element (127)"


def by_hand(tile):
    """(warp, lane, register, element) of every thread's register, in order."""
    held = tile.elements()
    return [(*at[1:], int(held[at])) for at in np.ndindex(held.shape)]


def executed(one):
    """(warp, element) of each access of a thread, with its bytes: stores by the first that holds an element, loads by all."""
    seen, found = set(), []
    for warp, _, _, element in by_hand(one.tile):
        if one.taken.reshape(-1)[element] and not (one.writes and element in seen):
            start = int(one.addresses.reshape(-1)[element])
            found += [(warp, byte) for byte in range(start, start + one.size)]
        seen.add(element)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_meetings_as_counted_by_hand(seed):
    random = np.random.default_rng(seed)
    pairs = [(ROWS, COLUMNS), (FEW, ROWS), (COLUMNS, COLUMNS), (FEW, FEW)]
    first, second = pairs[seed % len(pairs)]
    places = 4 * np.prod(first.shape)
    both = [Access(tile, START + random.integers(0, places, tile.shape) * 2, random.random(tile.shape) < 0.5, size, bool(writes))
            for tile, size, writes in ((first, 2, 1), (second, 4 if seed % 2 else 2, seed % 3))]
    writers: dict[int, set[int]] = {}
    for warp, byte in executed(both[0]):
        writers.setdefault(byte, set()).add(warp)
    expected = {byte // 2 for warp, byte in executed(both[1]) if writers.get(byte, set()) - {warp}}
    found = meetings(*both, limit=10**6)
    assert {meeting.address // 2 for meeting in found.shown} == expected and found.count == len(expected) > 0
    for meeting in found.shown:
        assert meeting.one.warp != meeting.other.warp
        for touch, one in ((meeting.one, both[0]), (meeting.other, both[1])):
            assert one.tile.elements()[0, touch.warp, touch.lane, touch.register] == np.ravel_multi_index(
                touch.element, one.tile.shape)
            assert touch.address <= meeting.address < touch.address + one.size and one.taken[touch.element]


def test_the_same_threads_need_no_barrier():
    store, load = access(ROWS, True), access(ROWS, False)
    assert meetings(store, load).count == 0 and meetings(load, load).count == 0
    found = meetings(store, access(COLUMNS, False))
    assert found.count == 16 * 64 * 3 // 4      # each warp has a quarter of the rows of one, a quarter of the columns of the other
    assert found.lines()[0] == ("address 0x1010: warp 0, lane 2, register 0 writes element (0, 8), "
                                "warp 1, lane 0, register 0 reads element (0, 8)")


def test_who_replicates_reads_by_all_and_writes_by_one():
    store, load = access(FEW, True), access(FEW, False)
    assert overwritten(store).count == 0 and meetings(store, store).count == 0
    assert meetings(store, load).count == 16        # warps 1 to 3 read what warp 0 has written
    assert meetings(load, store).count == 16        # an update in place: if anybody needs what they read
    assert meetings(load, store, replicas=False).count == 0


def test_different_elements_at_one_address():
    """Rows of a histogram that go to one counter each: elements of other lanes, and of other warps."""
    rows = np.broadcast_to(START + 4 * np.arange(16)[:, None], (16, 64))
    values = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    store = Access(ROWS, rows, None, 4, True)
    assert overwritten(store).count == overwritten(store, values).count == 16
    assert overwritten(store, values // 64).count == 0      # each row stores one value
    assert overwritten(store, values // 64 % 3 + (values == 70)).lines() == [
        "address 0x1004: warp 0, lane 16, register 0 writes element (1, 0), warp 0, lane 17, register 2 writes element (1, 6)"]
    ends = values.copy()
    ends[:] = 0.0
    ends[3, 9] = -0.0       # other bits
    assert overwritten(store, ends).count == 1


def test_elements_that_overlap_halfway_are_different():
    found = overwritten(access(FEW, True, size=4, step=2), np.zeros(16, np.float32))
    assert found.count == 15        # each half of the inner ones, by two elements


def test_arrays_of_another_shape_are_refused():
    for addresses, mask in product((np.zeros((16, 1), int), np.zeros((16, 64), int)), (np.ones(64, bool), None)):
        if addresses.shape != ROWS.shape or mask is not None:
            with pytest.raises(ValueError, match="broadcast them first"):
                Access(ROWS, addresses, mask, 2, True)
