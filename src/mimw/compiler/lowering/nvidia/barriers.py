"""The hardware's numbered barriers, and fences.

Input: an op. Output: PTX:

    named_barrier_wait 9 256        barrier.sync 9, 256;
    fence "gpu"                     bar.sync; fence.acq_rel.gpu; bar.sync
"""

from __future__ import annotations

from ....ir import Op
from ..asm import ptx, sync
from ..emitter import Emitter, emits


@emits("named_barrier_wait", "named_barrier_arrive")
def named_barrier(emitter: Emitter, op: Op):
    """Join the warp after lane-divergent code, then use the barrier. The form that is not `aligned` stays right if LLVM
    duplicates it."""
    kind = "sync" if op.name == "named_barrier_wait" else "arrive"
    ptx(emitter, f"bar.warp.sync 0xffffffff;\nbarrier.{kind} {op.barrier}, {op.threads};", [], [])


@emits("fence", assembly="ptx")
def fence(emitter: Emitter, op: Op):
    """Acquire and release at the scope, of the task (PTX ISA, membar / fence; Release and acquire patterns).

    A fence orders what its own thread has done or seen, and a signal behind it is one thread's. So all accesses come before
    the fence of each, and the other way round behind a wait: a barrier of the threads stands on either side.
    """
    if op.scope in ("async_shared", "delivery", "handover"):
        emitter.builder.create_fence_async_shared(op.attrs.get("cluster", False))
        return
    proxies = "\nfence.proxy.async.global;" if op.attrs.get("proxy") else ""
    sync(emitter)
    ptx(emitter, f"fence.acq_rel.{op.scope};{proxies}", [], [])
    sync(emitter)
