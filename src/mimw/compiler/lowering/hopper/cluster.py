"""Ranks, cluster-wide barriers and arrivals on other CTAs' barriers.

Triton's own ops for these want one program over several CTAs; ours are programs of one CTA each, so they are PTX.

Input: an op on ranks, or with one. Output: PTX:

    cluster_barrier        barrier.cluster.arrive.release.aligned;  barrier.cluster.wait.acquire.aligned;
"""

from __future__ import annotations

from ....ir import Op
from ..asm import ptx, sync, thread_in_task, zero_or_one
from ..emitter import Emitter, emits


@emits("cluster_cta_rank")
def cluster_cta_rank(emitter: Emitter, op: Op):
    if emitter.program.cluster_size == 1:
        return emitter.builder.get_int32(0)
    return ptx(emitter, "mov.u32 $0, %cluster_ctarank;", ["=r"], [], emitter.builder.get_int32_ty())


@emits("cluster_size_1d")
def cluster_size_1d(emitter: Emitter, op: Op):
    """A kernel is compiled for one shape of cluster."""
    return emitter.builder.get_int32(emitter.program.cluster_size)


@emits("cluster_barrier")
def cluster_barrier(emitter: Emitter, op: Op):
    """`aligned` wants whole warps, which lane-divergent code before may have split."""
    ptx(emitter, "bar.warp.sync 0xffffffff;\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;",
        [], [])


@emits("fence_mbarrier_init")
def fence_mbarrier_init(emitter: Emitter, op: Op):
    """Fence by the thread that makes the barriers, or after it: the sync brings the barriers of other threads before the
    fence."""
    sync(emitter)
    ptx(emitter, "{\n.reg .pred first;\nsetp.eq.s32 first, $0, 0;\n@first fence.mbarrier_init.release.cluster;\n}", ["r"],
        [thread_in_task(emitter)])


@emits("remote_view")
def remote_view(emitter: Emitter, op: Op):
    """Return the barrier, for control flow that carries a view: no word reads through a view."""
    return emitter.of(op.barrier)


# mapa gives the address at which this CTA reaches the other's barrier (PTX ISA, "mapa").
_ARRIVE = """{{
.reg .pred on;
.reg .b32 there;
setp.eq.s32 on, $0, 0;{condition}
@on mapa.shared::cluster.u32 there, $1, $2;
@on mbarrier.arrive.release.{scope}.shared::cluster.b64 _, [there], {count};
}}"""


@emits("remote_arrive")
def remote_arrive(emitter: Emitter, op: Op):
    """Arrive after a sync, which brings the earlier work of all threads of the task before the one arrival that releases it.
    On a per-thread barrier each thread releases its own work."""
    everybody = op.barrier.type.per_thread
    chosen = emitter.builder.get_int32(0) if everybody else thread_in_task(emitter)
    operands = [chosen, emitter.of(op.barrier), emitter.of(op.rank)]
    condition, scope = "", op.attrs.get("scope", "cluster")
    if op.predicate is not None:
        condition = "\nsetp.ne.and.s32 on, $3, 0, on;"
        operands.append(zero_or_one(emitter, emitter.of(op.predicate)))
    if not everybody:
        sync(emitter)
    ptx(emitter, _ARRIVE.format(condition=condition, count=op.count, scope=scope), ["r"] * len(operands), operands)
