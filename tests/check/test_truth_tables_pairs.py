"""Truth tables of pairs of CTAs: when is a program right whose products, commits and loads work on two CTAs? The simulator agrees
in all rows.

The chip is an sm_100a. Besides: each planted mistake is named, with both lines.
"""

import re
import warnings

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError
from tests.compiling import to_assembly
from tests.kernels import pair_multicast_gemm
from tests.kernels.lines import line_of
from tests.kernels.pair_gemm import launch

from .tables import SWITCHES, found, lines_of, right, rows, states


@states("tcgen05_mma_pair", "tcgen05_commit_pair", "tma_load_pair")
def pair_ring(steps=3, **switches):
    return launch(m=128, bm=64, n=32, bn=32, k=16 * steps, **switches)[0]


@rows("wait_full", "wait_free", "release")
def test_the_ring(wait_full, wait_free, release):
    """With more steps than slots it is right iff the even CTA waits for the bytes of both, both wait for free slots, and commits
    release these in both."""
    assert right(pair_ring(WAIT_FULL=wait_full, WAIT_FREE=wait_free, RELEASE=release), "random") == (
        wait_full and wait_free and release)


@rows("guard", "commit_both", "wait_done")
def test_the_epilogue(guard, commit_both, wait_done):
    """Both CTAs may read their rows iff the last commit is waited for, in both, where it arrives whether its call says so or not;
    who calls the products is all one."""
    launched = pair_ring(GUARD=guard, COMMIT_BOTH=commit_both, WAIT_DONE=wait_done)
    assert right(launched, "random") == wait_done


@pytest.mark.parametrize("both", SWITCHES)
def test_the_bytes_of_both_complete_on_the_even_cta(both):
    assert right(pair_ring(BYTES_OF_BOTH=both), "random") == both
    if not both:
        one = found(pair_ring(BYTES_OF_BOTH=both), "BytesNotExpected")
        assert "= 5120 bytes are copied" in one.message and len(lines_of(one)) >= 3


def test_an_accumulator_read_before_its_commit_is_named():
    assert "acc" in found(pair_ring(WAIT_DONE=False), "CopyReadEarly", "UnwrittenRead").message


def test_a_slot_that_is_filled_too_early_is_named():
    one = found(pair_ring(WAIT_FREE=False), "OperandOverwritten", "PhaseMissed", "CopyReadEarly", "DataRace")
    assert "'a'[0]" in one.message and one.sites


# ---- loads for several pairs --------------------------------------------------------------------------------------------


@states("tma_load_pair_multicast")
def pairs_that_share(**switches):
    return pair_multicast_gemm.launch(**switches)[0]


@rows("bytes_of_all", "wait_full", "both_pairs")
def test_b_of_two_pairs(bytes_of_all, wait_full, both_pairs):
    """Right iff each pair gets B, its even CTA counts what lands in both, and waits for it."""
    launched = pairs_that_share(BYTES_OF_ALL=bytes_of_all, WAIT_FULL=wait_full, BOTH_PAIRS=both_pairs)
    assert right(launched, "random") == (bytes_of_all and wait_full and both_pairs)


def test_bytes_that_never_come_to_the_second_pair_are_named():
    one = found(pairs_that_share(BOTH_PAIRS=False), "BytesNeverSent")
    assert "'full' of CTA 2 of each cluster" in one.message and "5120 bytes are expected" in one.message and len(lines_of(one)) >= 2


# ---- operands from registers, and CTAs that leave -----------------------------------------------------------------------


@mimw.jit
def stored(a_ptr, c_ptr, FENCE: tl.constexpr, MEET: tl.constexpr, WAIT: tl.constexpr, ODD_WAITS: tl.constexpr, ENDING: tl.constexpr,
           BOTH: tl.constexpr, TWICE: tl.constexpr, SYNC: tl.constexpr):
    """One product of operands that both CTAs store."""
    rank = tlx.cluster_cta_rank()
    tile, half = tlx.local_alloc((64, 16), tl.float16, 1), tlx.local_alloc((16, 16), tl.float16, 1)
    acc = tlx.local_alloc((64, 32), tl.float32, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    small = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    with tlx.async_tasks(no_ending_cluster_sync=not ENDING):
        with tlx.async_task("default"):
            tlx.local_store(tile[0], tl.load(a_ptr + at))
            tlx.local_store(half[0], tl.load(a_ptr + small))
            if FENCE:
                tlx.fence("async_shared")
            if MEET:
                tlx.cluster_barrier()
            if BOTH or rank == 0:
                if SYNC:
                    tlx.async_dot(tile[0], half[0], acc[0], use_acc=False, two_ctas=True)
                else:
                    tlx.async_dot(tile[0], half[0], acc[0], use_acc=False, mBarriers=[done[0]], two_ctas=True)
            if TWICE:
                tlx.tcgen05_commit(done[0], two_ctas=True)
            if WAIT and (ODD_WAITS or rank == 0):
                if not SYNC:
                    tlx.barrier_wait(done[0], 0)
                out = tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
                tl.store(c_ptr + rank * 64 * 32 + out, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=4):
            if MEET:
                tlx.cluster_barrier()


@states("tcgen05_mma_pair", "fence")
def operands_of_both(fence=True, meet=True, wait=True, odd_waits=True, ending=True, both=True, twice=False, sync=False):
    return stored, (2, ), (np.ones((64, 16), np.float16), np.zeros((128, 32), np.float32)), dict(
        FENCE=fence, MEET=meet, WAIT=wait, ODD_WAITS=odd_waits, ENDING=ending, BOTH=both, TWICE=twice, SYNC=sync,
        ctas_per_cga=(2, 1, 1), target="sm_100a")


@rows("fence", "meet", "both")
def test_operands_that_both_ctas_store(fence, meet, both):
    """What the odd CTA stored has to be fenced there, and to be over."""
    assert right(operands_of_both(fence, meet, both=both), "random") == (fence and meet)


@mimw.jit
def committed(a_ptr, c_ptr, TWO: tl.constexpr, WAIT: tl.constexpr, COMMIT: tl.constexpr):
    """A product of a pair, and a commit behind it that both CTAs, or the even one, come by."""
    rank = tlx.cluster_cta_rank()
    tile, half = tlx.local_alloc((64, 16), tl.float16, 1), tlx.local_alloc((16, 16), tl.float16, 1)
    acc = tlx.local_alloc((64, 32), tl.float32, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    small = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tlx.local_store(tile[0], tl.load(a_ptr + at))
    tlx.local_store(half[0], tl.load(a_ptr + small))
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    tlx.async_dot(tile[0], half[0], acc[0], use_acc=False, force_async=True, two_ctas=True)
    if COMMIT == "both":
        tlx.tcgen05_commit(done[0], two_ctas=TWO)
    elif COMMIT == "even":
        if rank == 0:
            tlx.tcgen05_commit(done[0], two_ctas=TWO)
    if WAIT:
        tlx.barrier_wait(done[0], 0)
    out = tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(c_ptr + rank * 64 * 32 + out, tlx.local_load(acc[0]))


@states("tcgen05_commit")
def commit_of_a_pair(two=False, wait=True, commit="both"):
    return committed, (2, ), (np.ones((64, 16), np.float16), np.zeros((128, 32), np.float32)), dict(
        TWO=two, WAIT=wait, COMMIT=commit, ctas_per_cga=(2, 1, 1), target="sm_100a")


@rows("two", "wait")
def test_a_commit_is_the_pairs(two, wait):
    """Said or not, it is the even CTA's, and arrives in both: it may be waited for in both, and has to be."""
    for commit in ("both", "even"):
        assert right(commit_of_a_pair(two, wait, commit), "random") == wait
        if wait:
            kernel, grid, args, meta = commit_of_a_pair(two, wait, commit)
            mimw.simulate(kernel, grid, *args, **meta)
            assert (args[1] == 16).all()


@pytest.mark.long(but=["both"], everywhere=True)
@pytest.mark.parametrize("commit", ["both", "even"])
def test_a_commit_of_a_pair_compiles(commit):
    """To the same instruction, said or not: the even CTA's, for both."""
    names = dict(a_ptr="*fp16", c_ptr="*fp32")
    made = [to_assembly(committed, names, dict(TWO=two, WAIT=True, COMMIT=commit), target="sm_100a",
                        options=dict(ctas_per_cga=(2, 1, 1))).stage("ptx") for two in SWITCHES]
    lines = [re.findall(r"@leader tcgen05\.commit\S+", ptx) for ptx in made]
    assert lines[0] == lines[1] == ["@leader tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                                    ".multicast::cluster.b64"]


@mimw.jit
def freed(a_ptr, c_ptr, ENDING: tl.constexpr, LAST: tl.constexpr):
    """A product of a pair, whose sum is read behind one commit; another commit frees the operands, for nobody."""
    rank = tlx.cluster_cta_rank()
    tile, half = tlx.local_alloc((64, 16), tl.float16, 1), tlx.local_alloc((16, 16), tl.float16, 1)
    acc = tlx.local_alloc((64, 32), tl.float32, 1, tlx.storage_kind.tmem)
    done, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    small = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tlx.local_store(tile[0], tl.load(a_ptr + at))
    tlx.local_store(half[0], tl.load(a_ptr + small))
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    with tlx.async_tasks(no_ending_cluster_sync=not ENDING):
        with tlx.async_task("default"):
            tlx.barrier_wait(done[0], 0)
            out = tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tl.store(c_ptr + rank * 64 * 32 + out, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=1):
            if LAST == "free":
                tlx.async_dot(tile[0], half[0], acc[0], use_acc=False, mBarriers=[done[0]], two_ctas=True)
                tlx.tcgen05_commit(free[0], two_ctas=True)      # late
            else:
                tlx.async_dot(tile[0], half[0], acc[0], use_acc=False, mBarriers=[free[0]], two_ctas=True)
                tlx.tcgen05_commit(done[0], two_ctas=True)


@states("tcgen05_commit_pair")
def freed_at_the_end(ending=True, last="done"):
    return freed, (2, ), (np.ones((64, 16), np.float16), np.zeros((128, 32), np.float32)), dict(
        ENDING=ending, LAST=last, ctas_per_cga=(2, 1, 1), target="sm_100a")


@pytest.mark.parametrize("ending", SWITCHES)
@pytest.mark.parametrize("last", ["free", "done"])
def test_a_commit_for_which_nobody_waits(ending, last):
    """It may arrive when the other CTA has ended. Where the compiler ends the kernel it waits, and remarks on the line; where the
    author does, the CTA's memory may be gone."""
    launched = freed_at_the_end(ending, last)
    assert right(launched, "random") == (ending or last == "done")
    if not ending and last == "free":
        assert "the tcgen05_commit that it issued arrives in CTA (1, 0, 0)" in found(launched, "PeerExited").message
    kernel, grid, args, meta = launched
    remarks = mimw.check(kernel, grid, *args, seeds=1, **meta).remarks
    assert [one.site.line for one in remarks] == ([line_of(freed, "# late")] if ending and last == "free" else [])


@pytest.mark.long(but=["done"], everywhere=True)
@pytest.mark.parametrize("last", ["free", "done"])
def test_the_end_behind_the_last_commit_compiles(last):
    """One more commit, for both, and a wait behind it."""
    names, ptx = dict(a_ptr="*fp16", c_ptr="*fp32"), []
    for ending in SWITCHES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ptx.append(to_assembly(freed, names, dict(ENDING=ending, LAST=last), target="sm_100a",
                                   options=dict(ctas_per_cga=(2, 1, 1))).stage("ptx"))
    commits, waits = ([text.count(what) for text in ptx] for what in ("@leader tcgen05.commit.cta_group::2", "mbarrier.try_wait"))
    more = last == "free"
    assert commits == [2, 2 + more] and waits[1] == waits[0] + more


def test_an_odd_cta_that_is_not_ready_is_named():
    one = found(operands_of_both(meet=False), "UnwrittenRead", "DataRace", "SlotReusedEarly", "MissingFence")
    assert "CTA (1, 0, 0)" in one.message and len(lines_of(one)) >= 1


def test_a_fence_that_is_missing_in_the_odd_cta_is_named():
    assert len(lines_of(found(operands_of_both(fence=False), "MissingFence"))) >= 2


@rows("ending", "odd_waits")
def test_the_odd_cta_stays(ending, odd_waits):
    """Until the product is done: it waits for that itself, or the cluster meets at the end, behind the wait of the even CTA."""
    assert right(operands_of_both(ending=ending, odd_waits=odd_waits), "random") == (ending or odd_waits)


def test_an_odd_cta_that_has_left_is_named():
    one = found(operands_of_both(ending=False, odd_waits=False), "PeerExited")
    assert "CTA (1, 0, 0)" in one.message and "async_dot" in one.message + str(one)


@rows("wait", "ending")
def test_a_product_that_nobody_waits_for(wait, ending):
    """The compiler has the pair wait for its commit at the end, unless the end is the author's."""
    assert right(operands_of_both(wait=wait, ending=ending), "random") == (wait or ending)


@rows("both", "odd_waits")
def test_a_product_that_its_word_waits_for(both, odd_waits):
    """Who has called it may read; the odd CTA may not read what it has not waited for."""
    assert right(operands_of_both(sync=True, both=both, odd_waits=odd_waits), "random") == (both or not odd_waits)


@pytest.mark.parametrize("twice", SWITCHES)
def test_one_barrier_for_a_product_and_a_commit(twice):
    """Each brings an arrival: a phase of one arrival is then over twice."""
    assert right(operands_of_both(twice=twice), "random") == (not twice)
    if twice:
        assert len(lines_of(found(operands_of_both(twice=twice), "PhaseMissed", "TooManyArrivals", "DeadlockError"))) >= 2


@mimw.jit
def read_as_operand(a_ptr, READ_EARLY: tl.constexpr):
    """A product of the pair whose sums another task multiplies again, as A, perhaps before they are there."""
    tile, half = tlx.local_alloc((128, 16), tl.float16, 1), tlx.local_alloc((16, 16), tl.float16, 1)
    spec = tlx.storage_alias_spec(tlx.storage_kind.tmem)
    sums = tlx.local_alloc((128, 32), tl.float32, 1, tlx.storage_kind.tmem, reuse=spec)
    again = tlx.local_alloc((128, 16), tl.float16, 1, tlx.storage_kind.tmem, reuse=spec)
    last = tlx.local_alloc((128, 32), tl.float32, 1, tlx.storage_kind.tmem)
    done, started = tlx.alloc_barriers(2), tlx.alloc_barriers(1)
    tlx.local_store(tile[0], tl.load(a_ptr + tl.arange(0, 128)[:, None] * 16 + tl.arange(0, 16)[None, :]))
    tlx.local_store(half[0], tl.load(a_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]))
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(done[1], 0)
        with tlx.async_task(num_warps=1):
            tlx.async_dot(tile[0], half[0], sums[0], use_acc=False, mBarriers=[done[0]], two_ctas=True)     # first
            tlx.barrier_arrive(started[0])
        with tlx.async_task(num_warps=1):
            tlx.barrier_wait(started[0], 0)
            if not READ_EARLY:
                tlx.barrier_wait(done[0], 0)
            tlx.async_dot(again[0], half[0], last[0], use_acc=False, mBarriers=[done[1]], two_ctas=True)    # second


@pytest.mark.parametrize("early", SWITCHES)
def test_an_operand_that_another_product_still_writes(early):
    """Named with both lines, and with what to wait for."""
    launched = read_as_operand, (2, ), (np.ones((128, 16), np.float16), ), dict(READ_EARLY=early, ctas_per_cga=(2, 1, 1),
                                                                               target="sm_100a")
    assert right(launched, "random") != early
    if early:
        one = found(launched, "CopyReadEarly")
        assert "'again'[0]" in one.message and len(lines_of(one)) >= 2


def test_products_of_one_cta_beside_those_of_a_pair():
    @mimw.jit
    def mixed(p):
        a, b = tlx.local_alloc((64, 16), tl.float16, 1), tlx.local_alloc((16, 16), tl.float16, 1)
        acc, own = (tlx.local_alloc((64, 32), tl.float32, 1, tlx.storage_kind.tmem),
                    tlx.local_alloc((64, 16), tl.float32, 1, tlx.storage_kind.tmem))
        tlx.async_dot(a[0], b[0], acc[0], two_ctas=True, force_async=True)
        tlx.async_dot(a[0], b[0], own[0], force_async=True)

    with pytest.raises(KernelError, match="2cta together or 1cta together") as refused:
        mimw.simulate(mixed, (2, ), np.zeros(4, np.float32), ctas_per_cga=(2, 1, 1), target="sm_100a")
    assert len({site.line for site in refused.value.sites}) == 2
