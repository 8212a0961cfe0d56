"""Hardware registers that no op of Triton reads."""

from __future__ import annotations

from ..ir import Op
from .emitter import Emitter, emits


def _read(emitter: Emitter, assembly: str, constraint: str, type_):
    """One volatile read per thread."""
    return emitter.builder.create_threadwise_inline_asm(assembly, constraint, [], [type_], False).get_result(0)


@emits("thread_id")
def thread_id(emitter: Emitter, op: Op):
    # PTX ISA, special registers %tid.
    return _read(emitter, f"mov.u32 $0, %tid.{'xyz'[op.args[0]]};", "=r", emitter.builder.get_int32_ty())


@emits("clock64")
def clock64(emitter: Emitter, op: Op):
    # PTX ISA, special registers %clock64.
    return _read(emitter, "mov.u64 $0, %clock64;", "=l", emitter.builder.get_int64_ty())
