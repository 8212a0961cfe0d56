"""Hardware registers that no op of Triton reads.

Input: an op. Output: assembly that reads the register in each thread:

    clock64        s_memtime $0; s_waitcnt lgkmcnt(0)
"""

from __future__ import annotations

from ....ir import Op
from ..asm import thread_in_task
from ..emitter import Emitter, emits
from .barriers import SETTLED


@emits("thread_id", assembly="gfx9")
@emits("thread_id", assembly="gfx12")
def thread_id(emitter: Emitter, op: Op):
    """Read the thread's number from a tile that holds in each thread its number in the CTA: no assembly names the register of
    the work-item's id."""
    if op.axis:  # Triton launches AMD work-groups along x alone
        return emitter.builder.get_int32(0)
    settled = f"\n{SETTLED}" if emitter.target.assembly == "gfx12" else ""
    return _read(emitter, f"v_mov_b32 $0, $1{settled}", "=v,v", emitter.builder.get_int32_ty(), [thread_in_task(emitter)])


@emits("clock64", assembly="gfx9")
def clock_gfx9(emitter: Emitter, op: Op):
    """CDNA3 ISA, S_MEMTIME: a scalar memory read, so its result is there when lgkmcnt has reached 0."""
    return _read(emitter, "s_memtime $0\ns_waitcnt lgkmcnt(0)", "=s", emitter.builder.get_int64_ty())


@emits("clock64", assembly="gfx12")
def clock_gfx12(emitter: Emitter, op: Op):
    """s_memtime left the ISA with gfx12."""
    return _read(emitter, "s_get_shader_cycles_u64 $0", "=s", emitter.builder.get_int64_ty())


def _read(emitter: Emitter, assembly: str, constraint: str, type_, operands=()):
    """One volatile read per thread."""
    return emitter.builder.create_threadwise_inline_asm(assembly, f"{constraint},~{{memory}}", list(operands), [type_],
                                                        False).get_result(0)
