"""Truth tables of block-scaled products of pairs of CTAs and of the copies that bring their scales: when is a program right? The
simulator agrees in all rows.

The chip is an sm_100a. Besides: each planted mistake is named, with its lines.
"""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import CopyReadEarly
from tests.kernels.pair_scaled_gemm import launch

from .tables import SWITCHES, found, lines_of, right, rows, states


@states("tcgen05_mma_pair_scaled", "tmem_copy")
def scaled_ring(place="copied", **switches):
    return launch(k=384, PLACE=place, **switches)[0]


@rows("wait_full", "wait_free")
def test_the_ring(wait_full, wait_free):
    """With more steps than slots it is right iff the even CTA waits for the bytes of both, and both wait for free slots."""
    assert right(scaled_ring(WAIT_FULL=wait_full, WAIT_FREE=wait_free), "random") == (wait_full and wait_free)


@pytest.mark.long(but=["True"], everywhere=True)
@pytest.mark.parametrize("guard", SWITCHES)
def test_who_calls_is_all_one(guard):
    """The even CTA copies and multiplies for both."""
    assert right(scaled_ring(GUARD=guard), "random")


@pytest.mark.parametrize("arrive", SWITCHES)
def test_ctas_that_meet_before_the_product(arrive):
    """Each waits for its own bytes; the even CTA multiplies when the odd one has said that its bytes are there."""
    assert right(scaled_ring(MEET=True, ARRIVE=arrive), "random") == arrive


@pytest.mark.long(but=["copied"], everywhere=True)
@pytest.mark.parametrize("place", ["smem", "copied"])
def test_the_odd_cta_has_scales_of_its_own(place):
    """Those of its rows, and those of all columns: nobody copies the even CTA's to the odd one."""
    one = found(scaled_ring(place, SCALES_OF_BOTH=False), "UnwrittenRead")
    assert "'sa'[0] of CTA (1, 0, 0)" in one.message and one.sites


def test_tables_that_nobody_filled_are_named():
    assert "'ta'[0]" in found(scaled_ring(COPY_FIRST=False), "UnwrittenRead").message


def test_an_accumulator_read_before_its_commit_is_named():
    assert "acc" in found(scaled_ring(WAIT_DONE=False), "CopyReadEarly", "UnwrittenRead").message


# ---- copies of what both CTAs store ---------------------------------------------------------------------------------------


@mimw.jit
def copied(source, target, FENCE: tl.constexpr, MEET: tl.constexpr, WAIT: tl.constexpr, ODD_WAITS: tl.constexpr,
           BOTH: tl.constexpr):
    """Each CTA stores scales and reads its table; the even one copies."""
    rank = tlx.cluster_cta_rank()
    scales = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)
    table = tlx.local_alloc((128, 4), tl.uint8, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    tlx.local_store(scales[0], tl.load(source + rank * 512 + tl.arange(0, 512)).reshape((1, 1, 32, 16)))
    if FENCE:
        tlx.fence("async_shared")
    if MEET:
        tlx.cluster_barrier()
    if BOTH or rank == 0:
        tlx.tmem_copy(scales[0], table[0])
        tlx.tcgen05_commit(done[0], two_ctas=True)
    if WAIT and (ODD_WAITS or rank == 0):
        tlx.barrier_wait(done[0], 0)
    at = tl.arange(0, 128)[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(target + rank * 512 + at, tlx.local_load(table[0]))


@states("tmem_copy", "fence")
def copied_by_both(fence=True, meet=True, wait=True, odd_waits=True, both=True):
    source = np.arange(1024, dtype=np.uint8)
    return copied, (2, ), (source, np.zeros(1024, np.uint8)), dict(
        FENCE=fence, MEET=meet, WAIT=wait, ODD_WAITS=odd_waits, BOTH=both, ctas_per_cga=(2, 1, 1), target="sm_100a")


def test_each_cta_copies_its_own():
    kernel, grid, (source, target), meta = copied_by_both()
    mimw.simulate(kernel, grid, source, target, races=True, **meta)
    blocks = source.reshape(2, 32, 4, 4).transpose(0, 2, 1, 3)      # 4 groups of 32 rows lie side by side
    np.testing.assert_array_equal(target.reshape(2, 4, 32, 4), blocks)


@rows("fence", "meet", "both")
def test_scales_that_both_ctas_store(fence, meet, both):
    """What the odd CTA stored has to be fenced there, and to be over."""
    assert right(copied_by_both(fence, meet, both=both), "random") == (fence and meet)


@rows("wait", "odd_waits")
def test_both_wait_for_the_commit_of_the_pair(wait, odd_waits):
    assert right(copied_by_both(wait=wait, odd_waits=odd_waits), "random") == (wait and odd_waits)


def test_a_table_read_before_its_copy_is_done_is_named():
    launched = copied_by_both(wait=False)
    assert len(lines_of(found(launched, "CopyReadEarly"))) >= 2
    kernel, grid, args, meta = launched
    with pytest.raises(CopyReadEarly, match="it lands by a tcgen05_commit behind it"):
        mimw.simulate(kernel, grid, *args, races=False, **meta)


def test_a_fence_that_is_missing_in_the_odd_cta_is_named():
    assert len(lines_of(found(copied_by_both(fence=False), "MissingFence"))) >= 2


def test_scales_that_the_odd_cta_has_not_stored_are_named():
    one = found(copied_by_both(meet=False), "UnwrittenRead", "DataRace", "SlotReusedEarly", "MissingFence")
    assert "CTA (1, 0, 0)" in one.message
