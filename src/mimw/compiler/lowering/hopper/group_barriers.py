"""Barriers among some CTAs of a cluster, and among all CTAs of a grid.

Input: a `group_barrier` or `grid_barrier`. Output: PTX of arrivals and the wait for them:

    group_barrier %barrier {ranks: (0, 1)}        mbarrier.arrive... on the barrier of each CTA;  mbarrier.try_wait... on this CTA's
"""

from __future__ import annotations

from ....ir import Op
from ..asm import ptx, sync, thread_in_task
from ..emitter import Emitter, emits

# An operand is an offset in the CTA's own window. Waits want the barrier's place in the cluster's, as arrivals elsewhere do.

# The parity of the phase in which the barrier is (PTX ISA, "mbarrier.test_wait"): this CTA has yet to arrive, so it stays.
_PARITY = """{
.reg .pred odd;
.reg .b32 me, here;
mov.u32 me, %cluster_ctarank;
mapa.shared::cluster.u32 here, $1, me;
mbarrier.test_wait.parity.shared::cta.b64 odd, [here], 0;
selp.b32 $0, 1, 0, odd;
}"""

# Threads 0, 1, ... of a member arrive on the barriers of members 0, 1, ...; `ranks` are four bits each.
_MEET = """{{
.reg .pred on, done;
.reg .b32 me, here, there, rank;
.reg .b64 ranks;
mov.u32 me, %cluster_ctarank;
mapa.shared::cluster.u32 here, $1, me;
shr.b32 me, {members}, me;
and.b32 me, me, 1;
setp.eq.u32 on, me, 0;
@on bra away;
setp.lt.u32 on, $0, {count};
shl.b32 rank, $0, 2;
mov.b64 ranks, {ranks};
shr.b64 ranks, ranks, rank;
cvt.u32.u64 rank, ranks;
and.b32 rank, rank, 15;
@on mapa.shared::cluster.u32 there, $1, rank;
@on mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];
wait:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [here], $2;
@!done bra wait;
away:
}}"""

# As CUDA's own grid barrier: the driver gives each cooperative launch a word at envreg1:envreg2 + 4, whose highest bit turns
# when all CTAs have added to it; the first one adds what is missing to 2^31.
_GRID = """{
.reg .pred on, first;
.reg .b32 low, high, x, y, z, all, old, now, mine;
.reg .b64 word;
setp.ne.u32 on, $0, 0;
@on bra met;
mov.u32 high, %envreg1;
mov.u32 low, %envreg2;
mov.b64 word, {low, high};
mov.u32 x, %nctaid.x;
mov.u32 y, %nctaid.y;
mov.u32 z, %nctaid.z;
mul.lo.u32 all, x, y;
mul.lo.u32 all, all, z;
mov.u32 x, %ctaid.x;
mov.u32 y, %ctaid.y;
mov.u32 z, %ctaid.z;
or.b32 x, x, y;
or.b32 x, x, z;
setp.eq.u32 first, x, 0;
sub.u32 mine, 0x80000001, all;
selp.u32 mine, mine, 1, first;
atom.add.release.gpu.global.u32 old, [word+4], mine;
again:
ld.acquire.gpu.global.u32 now, [word+4];
xor.b32 now, now, old;
setp.ge.s32 on, now, 0;
@on bra again;
met:
}"""


@emits("barrier_phase")
def barrier_phase(emitter: Emitter, op: Op):
    """The sync stands between every thread's look and the arrival that is still to come."""
    parity = ptx(emitter, _PARITY, ["=r", "r"], [emitter.of(op.barrier)], emitter.builder.get_int32_ty())
    sync(emitter)
    return parity


@emits("group_barrier")
def group_barrier(emitter: Emitter, op: Op):
    """The sync stands between every thread's look at the phase and this CTA's arrivals, and brings before these what all its
    threads did. Each thread acquires for itself."""
    ranks, barrier = op.attrs["ranks"], emitter.of(op.barrier)
    parity = ptx(emitter, _PARITY, ["=r", "r"], [barrier], emitter.builder.get_int32_ty())
    sync(emitter)
    assembly = _MEET.format(members=sum(1 << rank for rank in ranks), count=len(ranks),
                            ranks=sum(rank << 4 * place for place, rank in enumerate(ranks)))
    ptx(emitter, assembly, ["r", "r", "r"], [thread_in_task(emitter), barrier, parity])


@emits("grid_barrier")
def grid_barrier(emitter: Emitter, op: Op):
    """The syncs bring what all threads did before the one that releases it, and hold them until it has acquired."""
    sync(emitter)
    ptx(emitter, _GRID, ["r"], [thread_in_task(emitter)])
    sync(emitter)
