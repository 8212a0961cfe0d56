"""Hardware registers that no op of Triton reads, and votes of a warp.

Input: an op. Output: PTX that every thread runs:

    thread_id 0        mov.u32 $0, %tid.x;
"""

from __future__ import annotations

from ....ir import I32, Op, Tensor
from ..asm import ptx, registers_of, zero_or_one
from ..emitter import Emitter, emits


@emits("thread_id", assembly="ptx")
def thread_id(emitter: Emitter, op: Op):
    """PTX ISA, special registers %tid."""
    return ptx(emitter, f"mov.u32 $0, %tid.{'xyz'[op.axis]};", ["=r"], [], emitter.builder.get_int32_ty())


@emits("clock64", assembly="ptx")
def clock64(emitter: Emitter, op: Op):
    """PTX ISA, special registers %clock64."""
    return ptx(emitter, "mov.u64 $0, %clock64;", ["=l"], [], emitter.builder.get_int64_ty())


@emits("vote_ballot")
def vote_ballot(emitter: Emitter, op: Op):
    """PTX ISA, vote.sync: a thread's vote for a tile is the OR of its registers, and each of them gets the ballot."""
    if not isinstance(op.predicate.type, Tensor):
        return ptx(emitter, _ballot(1, op.mask), ["=r", "r"], [zero_or_one(emitter, emitter.of(op.predicate))],
                   emitter.builder.get_int32_ty())
    type_ = emitter.types.tensor(Tensor(I32, op.predicate.type.shape), emitter.wanted(op, "predicate"))
    votes = emitter.builder.create_int_cast(emitter.operand(op, "predicate"), type_, False)
    held = registers_of(emitter, votes)
    return ptx(emitter, _ballot(held, op.mask), ["=&r"] * held + ["r"] * held, [votes], type_)


def _ballot(held: int, lanes: int) -> str:
    either = [f"or.b32 any, any, ${held + i};" for i in range(1, held)]
    copies = [f"mov.b32 ${i}, $0;" for i in range(1, held)]
    return "\n".join(["{", ".reg .b32 any;", ".reg .pred yes;", f"mov.b32 any, ${held};", *either, "setp.ne.s32 yes, any, 0;",
                      f"vote.sync.ballot.b32 $0, yes, {lanes:#x};", *copies, "}"])
