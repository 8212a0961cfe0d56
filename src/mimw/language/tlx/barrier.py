"""Barriers in shared memory (mbarriers, on AMD words in LDS), and fences between memory views.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/barriers.py`, and `remote_arrive`. For example:

    bars = tlx.alloc_barriers(2, 1)              %bars = alloc_barriers count=2, arrive_count=1 : barrier<x 2>
    tlx.barrier_expect_bytes(bars[1], 8192)      barrier_expect %full, bytes=8192, where %full = barrier_index %bars, %1
    tlx.fence("gpu")                             fence scope='gpu'
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ...ir import Barrier
from ...target import NVIDIA_WARP
from ..core import capability, word
from ..numbers import whole
from ..refuse import refuse
from .arguments import (
    ONE_GROUP,
    index_handle,
    is_amd,
    is_int,
    needs_hopper,
    positive_int,
    predicate_handle,
    single_barrier,
)
from .types import mbarrier, mbarrier_type, storage_kind

__all__ = [
    "alloc_barriers", "alloc_warp_barrier", "barrier_arrive", "barrier_expect_bytes", "barrier_try_wait", "barrier_wait",
    "fence", "fence_async_shared",
]

WARP = NVIDIA_WARP


@word
def alloc_barriers(num_barriers: tl.constexpr, arrive_count: tl.constexpr = 1, _semantic=None) -> mbarrier:
    """Reserve and initialise `num_barriers` mbarriers; each is in phase 0, incomplete.

    args:      num_barriers - how many
               arrive_count - arrive operations that complete a phase: every barrier_arrive, barrier_expect_bytes and commit
                              is one, whatever its number of warps
    orders:    the initialisation -> every later use by any thread of the CTA
    errors:    ValueError unless both are ints > 0; KernelError for more than 2^20 - 1 arrivals
    lowers to: ttng.init_barrier, by one thread; on gfx942 and gfx950 two integers in LDS, on gfx1250 amdg.init_barrier
    example:   full = tlx.alloc_barriers(STAGES)
               free = tlx.alloc_barriers(STAGES, arrive_count=2)     # two consumers
    """
    positive_int("alloc_barriers: num_barriers", num_barriers)
    positive_int("alloc_barriers: arrive_count", arrive_count)
    _countable("alloc_barriers", arrive_count)
    handle = _semantic.builder.record("alloc_barriers", num_barriers, arrive_count).results[0]
    return mbarrier_type(num_barriers, None, storage_kind.smem).value(handle)


@word
def alloc_warp_barrier(num_barriers: tl.constexpr, num_warps: tl.constexpr = 1, num_arrivals: tl.constexpr = 1,
                       _semantic=None) -> mbarrier:
    """Reserve and initialise `num_barriers` mbarriers on which every thread arrives for itself.

    args:      num_barriers - how many
               num_warps    - warps of the task that arrives
               num_arrivals - arrive operations that complete a phase; each brings 32 * num_warps arrivals, also where a warp
                              has 64 lanes
    orders:    the initialisation -> every later use by any thread of the CTA
    errors:    ValueError unless all are ints > 0; KernelError for more than 2^20 - 1 arrivals; TargetError below sm_90,
               NotImplementedError on chips that are no GPUs
    not:       an arrive on it does not make the task's warps wait for each other
    lowers to: ttng.init_barrier, by one thread; on AMD as alloc_barriers, each wave arriving for its lanes
    example:   done = tlx.alloc_warp_barrier(1, num_warps=4)
    """
    for name, value in (("num_barriers", num_barriers), ("num_warps", num_warps), ("num_arrivals", num_arrivals)):
        positive_int(f"alloc_warp_barrier: {name}", value)
    if not is_amd(_semantic):
        needs_hopper("alloc_warp_barrier", _semantic)
    arrive_count = WARP * num_warps * num_arrivals
    _countable("alloc_warp_barrier", arrive_count)
    handle = _semantic.builder.record("alloc_barriers", num_barriers, arrive_count, per_thread=True).results[0]
    return mbarrier_type(num_barriers, None, storage_kind.smem, is_warp_barrier=True).value(handle)


@word
def barrier_expect_bytes(bar, size: tl.constexpr, pred=None, _semantic=None) -> None:
    """Arrive once, and make the current phase also wait for `size` bytes of asynchronous copies.

    args:      bar  - one mbarrier of this CTA
               size - bytes of all copies that complete on it in this phase, 0 to 2^20 - 1
               pred - (opt) scalar; nothing happens when false
    orders:    all that the task's threads did before -> what a waiter does after (task-wide sync, then one arrival)
    errors:    KernelError for a `bar` that is not one mbarrier, a size above 2^20 - 1, or a `pred` that is no scalar;
               AssertionError for a remote view; ValueError for a size that is no constexpr int >= 0
    lowers to: ttng.barrier_expect
    example:   tlx.barrier_expect_bytes(full[slot], BM * BK * tlx.size_of(tl.float16))
    """
    _refuse_remote("barrier_expect_bytes", bar)
    handle = single_barrier("barrier_expect_bytes", bar, _semantic)
    if not is_int(size) or size < 0:
        refuse(ValueError, f"barrier_expect_bytes: size must be a constexpr number of bytes, got {size!r}")
    if size > Barrier.MOST_BYTES:
        refuse(KernelError, f"barrier_expect_bytes: {size} bytes are more than the {Barrier.MOST_BYTES} that a phase can count",
                            mend="split the copies over several barriers")
    _semantic.builder.record("barrier_expect", handle, size, predicate_handle("barrier_expect_bytes", pred, _semantic))


@word
def barrier_wait(bar, phase, pred=None, _semantic=None) -> None:
    """Hold this task until `bar` has completed the phase of parity `phase`.

    args:      bar   - one mbarrier of this CTA; a remote view is refused
               phase - 0 or 1, or an integer scalar of such a value; a fresh barrier counts as having completed phase 1
               pred  - (opt) scalar; the wait is skipped when false
    orders:    what each arriving side did before its arrive -> what this task does after the wait
    errors:    KernelError for a `bar` that is not one mbarrier, an int other than 0 and 1, or a `pred` that is no
               scalar; TypeError for a phase that is no integer; AssertionError for a remote view
    not:       generic stores against a later TMA read; that takes fence("async_shared")
    lowers to: ttng.wait_barrier; on gfx942 and gfx950 reads of the barrier's state with s_sleep between, on gfx1250
               amdg.wait_barrier
    example:   tlx.barrier_wait(full[i % STAGES], (i // STAGES) & 1)
    """
    _refuse_remote("barrier_wait", bar)
    handle = single_barrier("barrier_wait", bar, _semantic)
    _semantic.builder.record("barrier_wait", handle, _phase("barrier_wait", phase, _semantic),
                             predicate_handle("barrier_wait", pred, _semantic))


@word
def barrier_try_wait(bar, phase, _semantic=None) -> tl.tensor:
    """Test, without waiting, if `bar` has completed the phase of parity `phase`: an i1 scalar, the same in all threads of the
    task.

    args:      bar   - one mbarrier of this CTA; a remote view is refused
               phase - 0 or 1, or an integer scalar of such a value; a fresh barrier counts as having completed phase 1
    orders:    where it is true, as barrier_wait; where it is false, nothing
    errors:    KernelError, TypeError and AssertionError as for barrier_wait
    lowers to: PTX mbarrier.test_wait.parity in each thread, on AMD a read of the barrier's state in each wave, and a reduction
               over the task's threads
    example:   if tlx.barrier_try_wait(full[0], phase): ...
    """
    _refuse_remote("barrier_try_wait", bar)
    handle = single_barrier("barrier_try_wait", bar, _semantic)
    parity = _phase("barrier_try_wait", phase, _semantic)
    return tl.tensor(_semantic.builder.record("barrier_test", handle, parity).results[0], tl.int1)


def _phase(name: str, phase, semantic):
    """The parity as an i32 handle."""
    if isinstance(phase, int):
        if phase not in (0, 1):
            refuse(KernelError, f"{name}: `phase` must be 0 or 1, got {phase}", mend="keep the parity: `phase & 1`")
        return semantic.builder.get_int32(int(phase))
    if not isinstance(phase, tl.tensor) or phase.type.is_block() or not phase.dtype.is_int():
        refuse(TypeError, f"{name}: `phase` must be an int or an integer scalar, got {phase}", mend=whole(phase))
    if phase.dtype == tl.int1:
        return semantic.builder.create_int_cast(phase.handle, tl.int32.to_ir(semantic.builder), False)
    return semantic.cast(phase, tl.int32).handle


@word
def barrier_arrive(bar, arrive_count: tl.constexpr = 1, remote_cta_rank=None, pred=None, _semantic=None) -> None:
    """Arrive on `bar`: task-wide sync, then one thread arrives; on a warp barrier each thread arrives at once, for itself.

    args:      bar             - one mbarrier of this CTA; a remote view is refused
               arrive_count    - arrivals to count, on a warp barrier of each thread
               remote_cta_rank - (opt) arrive on the same barrier of that CTA of the cluster, which may be this one: an int or
                                 an i32 scalar. Needs a launch with ctas_per_cga, where it may run.
               pred            - (opt) scalar; nothing happens when false
    orders:    all that the task's threads (on a warp barrier: that thread) did before -> what a waiter does after
    errors:    KernelError for a `bar` that is not one mbarrier, a rank that is no integer, or a `pred` that is no
               scalar, and for more than 2^20 - 1 arrivals; ValueError for an `arrive_count` that is no int > 0; AssertionError
               for a remote view, and for an `arrive_count` other than 1 on AMD; with a rank TargetError below sm_90,
               NotImplementedError on AMD
    lowers to: ttng.arrive_barrier; on a warp barrier PTX mbarrier.arrive.release.cta; with a rank mapa and
               mbarrier.arrive.release.cluster, or .cta where the kernel writes nothing that another CTA could read. On AMD each
               wave waits for its loads, stores and copies, the task's waves synchronise, and one lane counts: ds_sub_rtn_u32, on
               gfx1250 ds_atomic_barrier_arrive_rtn_b64
    example:   tlx.barrier_arrive(free[slot])
    """
    if _is_remote(bar):
        refuse(AssertionError, "barrier_arrive takes the local mbarrier; pass remote_cta_rank instead of a remote view")
    handle = single_barrier("barrier_arrive", bar, _semantic)
    positive_int("barrier_arrive: arrive_count", arrive_count)
    _countable("barrier_arrive", arrive_count)
    if capability(_semantic) is None and arrive_count != 1:
        refuse(AssertionError, "barrier_arrive: arrive_count must be 1 on AMD")
    predicate = predicate_handle("barrier_arrive", pred, _semantic)
    if remote_cta_rank is None:
        _semantic.builder.record("barrier_arrive", handle, arrive_count, predicate)
    else:
        needs_hopper("barrier_arrive(remote_cta_rank=...)", _semantic, instead=ONE_GROUP)
        rank = index_handle("barrier_arrive: `remote_cta_rank`", remote_cta_rank, _semantic)
        _semantic.builder.record("remote_arrive", handle, arrive_count, rank, predicate)


def _countable(name: str, arrivals: int) -> None:
    if arrivals > Barrier.MOST_ARRIVALS:
        refuse(KernelError, f"{name}: {arrivals} arrivals are more than the {Barrier.MOST_ARRIVALS} that a phase can count",
                            mend="let one thread or task arrive for several")


def _is_remote(bar) -> bool:
    return isinstance(bar, mbarrier) and bar.type.storage is storage_kind.smemCluster


def _refuse_remote(name: str, bar) -> None:
    if _is_remote(bar):
        refuse(AssertionError, f"{name} does not support remote_view of mbarrier")


@word
def fence(scope: tl.constexpr, _semantic=None) -> None:
    """Order this task's memory accesses; executed by all its threads.

    args:      scope - "async_shared": generic writes to shared memory -> later TMA, bulk copy and MMA reads of it;
                       "gpu", "sys": acquire and release at that scope; also generic writes to global memory -> later TMA and
                       bulk reads of it; other: ValueError
    lowers to: ttng.fence_async_shared; PTX fence.acq_rel.gpu, fence.acq_rel.sys between two barriers of the task's threads, with
               fence.proxy.async.global in a kernel that both writes global memory and has copies read it
    example:   tlx.fence("async_shared")     # before a TMA store of what local_store wrote
    """
    if scope not in ("async_shared", "gpu", "sys"):
        refuse(ValueError, f"fence: scope must be 'gpu', 'sys' or 'async_shared', got {scope!r}")
    _semantic.builder.record("fence", scope)


@word
def fence_async_shared(_semantic=None) -> None:
    """The older spelling of `fence("async_shared")`.

    orders:    generic writes to shared memory -> later TMA, bulk copy and MMA reads of it
    lowers to: ttng.fence_async_shared
    example:   tlx.fence_async_shared()
    """
    fence("async_shared", _semantic=_semantic)
