"""Copies of consecutive bytes by the bulk copy engine; one thread of the task starts each (PTX ISA, cp.async.bulk).

Input: a `bulk_load` or `bulk_store`. Output: PTX between a sync of the task and what comes behind:

    bulk_load %pointer %full %tile 4096        @first cp.async.bulk.shared::cluster.global... [to], [$4], $2, [bar];
"""

from __future__ import annotations

from ....ir import Op, Tensor
from ..asm import ptx, registers_of, sync, thread_in_task
from ..emitter import Emitter, emits
from .descriptor_address import HINTED, eviction

# Thread 0 holds the first element of every tile, so of a block of pointers it is the one that knows the base.
# The engine works in the cluster's window, where an operand, an offset in the CTA's own, needs this CTA's rank.
_LOAD = """{{
.reg .pred first;
.reg .b32 me, to, bar;
setp.eq.s32 first, $0, 0;
mov.u32 me, %cluster_ctarank;
mapa.shared::cluster.u32 to, $1, me;
mapa.shared::cluster.u32 bar, $3, me;
{policy}@first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{hint} [to], [${pointer}], $2, [bar]{last};
}}"""

# The thread that Triton's own TMA stores elect, so that all bulk groups of a task are one thread's. All threads commit, as
# they do there: the wait counts groups in each.
_STORE = """{{
.reg .pred warp, leader;
.reg .b32 me, from;
mov.u32 me, %cluster_ctarank;
mapa.shared::cluster.u32 from, $1, me;
setp.lt.s32 warp, $0, 32;
elect.sync _|leader, 0xffffffff;
and.pred leader, leader, warp;
{policy}@leader cp.async.bulk.global.shared::cta.bulk_group{hint} [$2], [from], $3{last};
cp.async.bulk.commit_group;
}}"""


def _hinted(policy) -> dict[str, str]:
    """The parts that a cache hint adds to the text of a copy; empty strings without a hint."""
    if eviction(policy) not in HINTED:
        return dict(policy="", hint="", last="")
    made = f".reg .b64 hint;\ncreatepolicy.fractional.L2::{eviction(policy)}.b64 hint, 1.0;\n"
    return dict(policy=made, hint=".L2::cache_hint", last=", hint")


def _bytes(emitter: Emitter, size):
    return emitter.builder.get_int32(size) if isinstance(size, int) else emitter.of(size)


@emits("bulk_load")
def bulk_load(emitter: Emitter, op: Op):
    """The sync keeps the copy behind the task's earlier accesses of the buffer."""
    source = emitter.operand(op, "pointer")
    held = registers_of(emitter, source) if isinstance(op.pointer.type, Tensor) else 1
    sync(emitter)
    ptx(emitter, _LOAD.format(pointer=4, **_hinted(op.cache_policy)), ["r", "r", "r", "r", *["l"] * held],
        [thread_in_task(emitter), emitter.of(op.buffer), _bytes(emitter, op.bytes), emitter.of(op.barrier), source])
    return []


@emits("bulk_store")
def bulk_store(emitter: Emitter, op: Op):
    """The sync brings the buffer's last writes, which the author has fenced, before the copy."""
    sync(emitter)
    ptx(emitter, _STORE.format(**_hinted(op.cache_policy)), ["r", "r", "l", "r"],
        [thread_in_task(emitter), emitter.of(op.buffer), emitter.of(op.pointer), _bytes(emitter, op.bytes)])
