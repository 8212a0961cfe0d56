"""What the simulator finds in programs that use pointers into shared memory wrongly; and what is right."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import DataRace, OutOfBounds, UnwrittenRead


@mimw.jit
def touch(pointers, KIND: tl.constexpr, at):
    """One access to the tile of pointers."""
    if KIND == "load":
        tl.device_assert(tl.max(tl.load(pointers)) >= 0)
    elif KIND == "store":
        tl.store(pointers, at)
    elif KIND == "masked store":
        tl.store(pointers, at, mask=at < 8)
    elif KIND == "add":
        tl.atomic_add(pointers, at)
    elif KIND == "swap":
        tl.atomic_cas(pointers, at, at + 1)


@mimw.jit
def together(y, ONE: tl.constexpr, OTHER: tl.constexpr, APART: tl.constexpr, ORDERED: tl.constexpr):
    """Two tasks touch one buffer, or one half of it each; with ORDERED one after the other."""
    buffer = tle.gpu.alloc([64], tl.int32, init_value=tl.zeros([64], tl.int32))
    done = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 32)
            touch(tle.gpu.local_ptr(buffer, (31 - at, )), ONE, at)
            tlx.barrier_arrive(done[0])
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, 32)
            if ORDERED:
                tlx.barrier_wait(done[0], 0)
            touch(tle.gpu.local_ptr(buffer, (31 - at, )) + APART, OTHER, at)
    tl.store(y + tl.arange(0, 64), tl.load(tle.gpu.local_ptr(buffer)))


RIGHT = [("load", "load", 0, False), ("add", "add", 0, False), ("add", "swap", 0, False), ("store", "store", 32, False),
         ("store", "masked store", 32, False), ("store", "load", 0, True), ("add", "store", 0, True), ("swap", "load", 0, True)]
WRONG = [("store", "load", 0), ("store", "store", 0), ("store", "load", 16), ("add", "load", 0), ("add", "store", 0),
         ("masked store", "load", 0), ("masked store", "add", 0), ("swap", "masked store", 0)]


@pytest.mark.parametrize("one, other, apart, ordered", RIGHT)
def test_no_race(one, other, apart, ordered):
    mimw.simulate(together, (1, ), np.zeros(64, np.int32), one, other, apart, ordered, races=True)


@pytest.mark.parametrize("one, other, apart", WRONG)
def test_race(one, other, apart):
    with pytest.raises(DataRace, match="'buffer'"):
        mimw.simulate(together, (1, ), np.zeros(64, np.int32), one, other, apart, False, races=True)


@mimw.jit
def out_of_range(y, at, KIND: tl.constexpr):
    buffer = tle.gpu.alloc([64], tl.int32, init_value=tl.zeros([64], tl.int32))
    touch(tle.gpu.local_ptr(buffer, (tl.arange(0, 32), )) + at, KIND, tl.arange(0, 32))
    tl.store(y + tl.arange(0, 64), tl.load(tle.gpu.local_ptr(buffer)))


@pytest.mark.parametrize("kind", ["load", "store", "add", "swap"])
@pytest.mark.parametrize("at", [-1, 33])
def test_out_of_range(kind, at):
    mimw.simulate(out_of_range, (1, ), np.zeros(64, np.int32), 32, kind)
    with pytest.raises(OutOfBounds, match="outside the 64 elements of 'buffer'"):
        mimw.simulate(out_of_range, (1, ), np.zeros(64, np.int32), at, kind)


def test_a_masked_store_does_not_look_where_the_mask_is_false():
    mimw.simulate(out_of_range, (1, ), np.zeros(64, np.int32), 56, "masked store")
    with pytest.raises(OutOfBounds):
        mimw.simulate(out_of_range, (1, ), np.zeros(64, np.int32), 57, "masked store")


@pytest.mark.parametrize("kind", ["load", "add", "swap"])
def test_nobody_has_written_there(kind):

    @mimw.jit
    def unwritten(KIND: tl.constexpr):
        buffer = tle.gpu.alloc([64], tl.int32)
        tl.store(tle.gpu.local_ptr(buffer, (tl.arange(0, 32), )), 1)
        touch(tle.gpu.local_ptr(buffer, (tl.arange(0, 32), )) + 16, KIND, tl.arange(0, 32))

    with pytest.raises(UnwrittenRead, match="which nobody has written"):
        mimw.simulate(unwritten, (1, ), kind)
