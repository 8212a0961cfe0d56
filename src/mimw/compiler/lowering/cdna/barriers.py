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
_GFX9_SCOPES, _GFX12_SCOPES = {"gpu": "sc1", "sys": "sc0 sc1"}, {"gpu": "SCOPE_DEV", "sys": "SCOPE_SYS"}
_GFX9 = "buffer_wbl2 {0}\ns_waitcnt vmcnt(0) lgkmcnt(0)\nbuffer_inv {0}"
WRITE_BACK = "s_wait_storecnt 0x0\nglobal_wb scope:{0}\ns_wait_storecnt 0x0\ns_wait_loadcnt 0x0\ns_wait_dscnt 0x0"     # gfx12's
_GFX12 = WRITE_BACK + "\nglobal_inv scope:{0}\ns_wait_loadcnt 0x0"

# On gfx1250 LLVM has waves run in a mode in which only this keeps a memory instruction from reading a register that the vector unit
# is still to write, and the unit from writing one that such an instruction is still to read. LLVM does not know what assembly does.
SETTLED = "s_wait_alu depctr_va_vdst(0) depctr_vm_vsrc(0)"


@emits("named_barrier_wait", "named_barrier_arrive", assembly="gfx9")
@emits("named_barrier_wait", "named_barrier_arrive", assembly="gfx12")
def named_barrier(emitter: Emitter, op: Op):
    """Each wave comes for itself, as a warp does on NVIDIA."""
    settled(emitter)
    numbers = op.barrier, op.threads // THREADS, int(op.name == "named_barrier_wait")
    call(emitter, "named", [emitter.builder.get_int32(number) for number in numbers])


@emits("fence", assembly="gfx9")
@emits("fence", assembly="gfx12")
def fence_of_author(emitter: Emitter, op: Op):
    if op.scope not in _PROXIES:
        fence(emitter, op.scope)


def fence(emitter: Emitter, scope: str) -> None:
    """A fence of the whole task: it is each wave's own, and a signal behind it one thread's."""
    assembly, scopes = (_GFX9, _GFX9_SCOPES) if emitter.target.assembly == "gfx9" else (_GFX12, _GFX12_SCOPES)
    sync(emitter)
    emitter.builder.create_threadwise_inline_asm(assembly.format(scopes[scope]), "~{memory}", [], [], False)
    sync(emitter)
