"""Numbered barriers, and fences.

Input: an op. Output: a counter in LDS that waves add to, and wait for; of a fence, assembly that writes caches back as far as the
scope's other readers need, waits, and invalidates what may be stale (LLVM's AMDGPU guide, memory models of gfx942, which gfx950
shares, and of gfx12):

    named_barrier_wait 9 256        mimw.named 9, 8 waves: each adds one to the counter, and looks until as many have
    fence "gpu"                     s_barrier; buffer_wbl2 sc1; s_waitcnt vmcnt(0) lgkmcnt(0); buffer_inv sc1; s_barrier
"""

from __future__ import annotations

from ....ir import Op
from ..asm import sync
from ..emitter import Emitter, emits
from .functions import THREADS, call, settled

_PROXIES = ("async_shared", "delivery", "handover")  # of NVIDIA's asynchronous copies; here every access goes one way
_GFX9 = "buffer_wbl2 {0}\ns_waitcnt vmcnt(0) lgkmcnt(0)\nbuffer_inv {0}"
_GFX12 = ("global_wb scope:{0}\ns_wait_storecnt 0x0\ns_wait_loadcnt 0x0\ns_wait_dscnt 0x0\n"
          "global_inv scope:{0}\ns_wait_loadcnt 0x0")


@emits("named_barrier_wait", "named_barrier_arrive", assembly="gfx9")
@emits("named_barrier_wait", "named_barrier_arrive", assembly="gfx12")
def named_barrier(emitter: Emitter, op: Op):
    """Each wave comes for itself, as a warp does on NVIDIA."""
    settled(emitter)
    numbers = op.barrier, op.threads // THREADS, int(op.name == "named_barrier_wait")
    call(emitter, "named", [emitter.builder.get_int32(number) for number in numbers])


@emits("fence", assembly="gfx9")
def fence_gfx9(emitter: Emitter, op: Op):
    _fence(emitter, op, _GFX9.format({"gpu": "sc1", "sys": "sc0 sc1"}.get(op.scope)))


@emits("fence", assembly="gfx12")
def fence_gfx12(emitter: Emitter, op: Op):
    _fence(emitter, op, _GFX12.format({"gpu": "SCOPE_DEV", "sys": "SCOPE_SYS"}.get(op.scope)))


def _fence(emitter: Emitter, op: Op, assembly: str) -> None:
    if op.scope in _PROXIES:
        return
    sync(emitter)       # a fence is each wave's own, and a signal behind it one thread's
    emitter.builder.create_threadwise_inline_asm(assembly, "~{memory}", [], [], False)
    sync(emitter)
