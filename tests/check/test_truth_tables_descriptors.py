"""Truth tables of descriptors that a kernel makes: when may the next one be made in the place of the last one?

The simulator agrees in all rows. A copy reads its descriptor until the copy is over. Besides: each planted mistake is named, with
both lines.
"""

from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .tables import SWITCHES, found, lines_of, right, rows, states

ROUNDS = 4


@mimw.jit
def stores(x_ptr, y_ptr, N, SLOTS: tl.constexpr, PENDING: tl.constexpr, HOW: tl.constexpr):
    """Each round stores by a descriptor of its own."""
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    slots = tlx.allocate_tensor_descriptor(SLOTS)
    tiles = tlx.local_alloc((16, 16), tl.float16, 4)
    for i in range(N):
        if HOW == "slot":
            desc = tlx.make_tensor_descriptor(slots[i % SLOTS], y_ptr + i * 256, [16, 16], [16, 1], [16, 16])     # made
        elif HOW == "place":
            desc = tlx.make_tensor_descriptor(None, y_ptr + i * 256, [16, 16], [16, 1], [16, 16])                 # made
        else:
            desc = tl.make_tensor_descriptor(y_ptr + i * 256, [16, 16], [16, 1], [16, 16])                        # made
        tlx.local_store(tiles[i], tl.load(x_ptr + at))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(desc, tiles[i], [0, 0])                                                         # stored
        tlx.async_descriptor_store_wait(PENDING)
    tlx.async_descriptor_store_wait(0)


@states("fill_descriptor_slot", "tma_store_wait")
def descriptors_under_stores(slots=1, pending=0, how="slot"):
    x, y = np.ones((16, 16), np.float16), np.zeros((16 * ROUNDS, 16), np.float16)
    return stores, (1, ), (x, y, ROUNDS), dict(SLOTS=slots, PENDING=pending, HOW=how)


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("pending", [0, 1, 2])
def test_a_ring_of_slots_under_stores(slots, pending):
    """Right iff fewer stores may be in flight than there are slots."""
    assert right(descriptors_under_stores(slots, pending), "random") == (pending < slots)


@pytest.mark.parametrize("how", ["place", "tl"])
@pytest.mark.parametrize("pending", [0, 1])
def test_a_descriptor_in_no_slot_has_one_place(how, pending):
    """A call site writes the same memory in each round."""
    assert right(descriptors_under_stores(pending=pending, how=how), "random") == (pending == 0)


@pytest.mark.parametrize("how", ["slot", "place", "tl"])
def test_a_place_that_is_written_under_a_store_is_named(how):
    one = found(descriptors_under_stores(pending=1, how=how), "SourceOverwritten")
    text = Path(__file__).read_text().split("\n")
    assert ["# stored" in text[line - 1] or "# made" in text[line - 1] for line in lines_of(one)] == [True, True]
    assert ("slot 0 of 'slots'" if how == "slot" else "the descriptor of line ") in one.message
    assert "async_descriptor_store_wait" in str(one)


@mimw.jit
def by_two(x_ptr, y_ptr, N, STORED: tl.constexpr, READY: tl.constexpr, FREE: tl.constexpr):
    """One task makes the descriptors, another one stores by them."""
    slots = tlx.allocate_tensor_descriptor(1)
    tile = tlx.local_alloc((16, 16), tl.float16, 1)
    ready, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
            for i in range(N):
                tlx.local_store(tile[0], tl.load(x_ptr + at))
                tlx.fence("async_shared")
                if READY:
                    tlx.barrier_wait(ready[0], i & 1)
                desc = tlx.reinterpret_tensor_descriptor(slots[0], [16, 16], tl.float16)                           # looked at
                tlx.async_descriptor_store(desc, tile[0], [0, 0])                                                  # stored
                if STORED:
                    tlx.async_descriptor_store_wait(0)
                tlx.barrier_arrive(free[0])
                tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1):
            for i in range(N):
                if FREE:
                    tlx.barrier_wait(free[0], i & 1 ^ 1)
                tlx.make_tensor_descriptor(slots[0], y_ptr + i * 256, [16, 16], [16, 1], [16, 16])                 # made
                tlx.barrier_arrive(ready[0])


@states("fill_descriptor_slot", "view_descriptor_slot")
def descriptors_of_another_task(stored=True, ready=True, free=True):
    x, y = np.ones((16, 16), np.float16), np.zeros((16 * ROUNDS, 16), np.float16)
    return by_two, (1, ), (x, y, ROUNDS), dict(STORED=stored, READY=ready, FREE=free)


@rows("stored", "ready", "free")
def test_one_makes_and_another_stores(stored, ready, free):
    """Right iff the one waits for the descriptor, and the other until the store by it is over."""
    assert right(descriptors_of_another_task(stored, ready, free), "random") == (stored and ready and free)


def test_a_slot_that_is_given_back_too_early_is_named():
    one = found(descriptors_of_another_task(stored=False), "SourceOverwritten")
    assert "slot 0 of 'slots'" in one.message and "in flight after the op" in one.message and len(lines_of(one)) >= 2


@mimw.jit
def loads(x_ptr, y_ptr, N, LANDED: tl.constexpr):
    """Each round loads by a descriptor of its own, made in one slot."""
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    slots = tlx.allocate_tensor_descriptor(1)
    tiles, full = tlx.local_alloc((16, 16), tl.float16, 4), tlx.alloc_barriers(4)
    for i in range(N):
        desc = tlx.make_tensor_descriptor(slots[0], x_ptr + i * 256, [16, 16], [16, 1], [16, 16])                  # made
        tlx.barrier_expect_bytes(full[i], 512)
        tlx.async_descriptor_load(desc, tiles[i], [0, 0], full[i])                                                 # loaded
        if LANDED:
            tlx.barrier_wait(full[i], 0)
    for i in range(N):
        tlx.barrier_wait(full[i], 0)
        tl.store(y_ptr + i * 256 + at, tlx.local_load(tiles[i]))


@states("fill_descriptor_slot", "barrier_wait")
def descriptors_under_loads(landed=True):
    x, y = np.ones((16 * ROUNDS, 16), np.float16), np.zeros((16 * ROUNDS, 16), np.float16)
    return loads, (1, ), (x, y, ROUNDS), dict(LANDED=landed)


@pytest.mark.parametrize("landed", SWITCHES)
def test_a_slot_under_loads(landed):
    """Right iff each load has landed before the next descriptor is made."""
    assert right(descriptors_under_loads(landed), "random") == landed
    if not landed:
        assert len(lines_of(found(descriptors_under_loads(landed), "SlotReusedEarly"))) == 2
