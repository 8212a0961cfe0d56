"""Inline PTX: run once per thread, ordered with everything else that touches memory.

Input: the text of assembly, constraints and MLIR values. Output: one `tt.elementwise_inline_asm` like op of Triton's, which runs
once in each thread. An example:

    ptx(emitter, "mov.u32 $0, %cluster_ctarank;", ["=r"], [], i32)

Triton's barrier insertion does not see what assembly does with shared memory: emissions that touch it sync around it
themselves (`sync`). A shared buffer or barrier is one operand, its 32-bit address; a tile is one operand for each element
that a thread holds.
"""

from __future__ import annotations

from ...ir import I32, Tensor
from ...ir.layouts import Blocked
from .emitter import Emitter

_MEMORY = "~{memory}"


def ptx(emitter: Emitter, assembly: str, constraints: list[str], operands: list, result=None):
    """Emit volatile assembly; the value of its result, if it has one. `constraints` lists results first."""
    results = [] if result is None else [result]
    op = emitter.builder.create_threadwise_inline_asm(assembly, ",".join([*constraints, _MEMORY]), operands, results, False)
    return None if result is None else op.get_result(0)


def ptx_value(emitter: Emitter, assembly: str, constraints: list[str], operands: list, result):
    """The value of assembly that reads nothing that changes and does nothing else, so that it may be computed once for a loop."""
    op = emitter.builder.create_threadwise_inline_asm(assembly, ",".join(constraints), operands, [result], True)
    return op.get_result(0)


def own_address(emitter: Emitter, shared):
    """The address of a shared buffer or barrier as an operand of accesses by this CTA.

    Triton hands assembly the offset in the CTA's own window, which in a cluster is an address of CTA 0: in any other CTA
    `.shared::cta` accesses at that offset are illegal instructions. Only mapa, and copies that take the same offset in several
    CTAs, want the offset.
    """
    if emitter.program.cluster_size == 1:
        return shared
    assembly = "{\n.reg .b32 me;\nmov.u32 me, %cluster_ctarank;\nmapa.shared::cluster.u32 $0, $1, me;\n}"
    return ptx(emitter, assembly, ["=r", "r"], [shared], emitter.builder.get_int32_ty())


def sync(emitter: Emitter) -> None:
    """Hold every warp of the task until all warps have come; their shared memory accesses are then ordered."""
    emitter.builder.create_barrier()


def thread_in_task(emitter: Emitter):
    """An i32 operand that is each thread's number within its task; %tid counts the whole CTA."""
    layout = Blocked((1, ), (emitter.target.warp_size, ), (emitter.num_warps, ), (0, ))
    type_ = emitter.types.tensor(Tensor(I32, (emitter.threads, )), layout)
    return emitter.builder.create_make_range(type_, 0, emitter.threads)


def registers_of(emitter: Emitter, value) -> int:
    """The number of registers that a thread holds of an MLIR value."""
    return emitter.builder.get_total_elems_per_thread(value.get_type())


def zero_or_one(emitter: Emitter, predicate):
    """An i1 as an i32 of 0 or 1, the form in which assembly takes it."""
    return emitter.builder.create_int_cast(predicate, emitter.builder.get_int32_ty(), False)
