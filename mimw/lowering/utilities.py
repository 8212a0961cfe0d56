"""Hardware registers that no op of Triton reads."""

from __future__ import annotations

from ..ir import I32, Op, Tensor
from .asm import ptx, registers_of
from .barriers import flag
from .emitter import Emitter, emits


def _read(emitter: Emitter, assembly: str, constraint: str, type_):
    """One volatile read per thread."""
    return ptx(emitter, assembly, [constraint], [], type_)


@emits("thread_id")
def thread_id(emitter: Emitter, op: Op):
    # PTX ISA, special registers %tid.
    return _read(emitter, f"mov.u32 $0, %tid.{'xyz'[op.args[0]]};", "=r", emitter.builder.get_int32_ty())


@emits("clock64")
def clock64(emitter: Emitter, op: Op):
    # PTX ISA, special registers %clock64.
    return _read(emitter, "mov.u64 $0, %clock64;", "=l", emitter.builder.get_int64_ty())


@emits("vote_ballot")
def vote_ballot(emitter: Emitter, op: Op):
    """PTX ISA, vote.sync: a thread's vote for a tile is the OR of its registers, and each of them gets the ballot."""
    lanes, predicate = op.args
    if not isinstance(predicate.type, Tensor):
        return ptx(emitter, _ballot(1, lanes), ["=r", "r"], [flag(emitter, emitter.values[predicate])],
                   emitter.builder.get_int32_ty())
    type_ = emitter.types.tensor(Tensor(I32, predicate.type.shape), emitter.layouts.wanted(op, 0))
    votes = emitter.builder.create_int_cast(emitter.operand(op, predicate), type_, False)
    held = registers_of(emitter, votes)
    return ptx(emitter, _ballot(held, lanes), ["=&r"] * held + ["r"] * held, [votes], type_)


def _ballot(held: int, lanes: int) -> str:
    either = [f"or.b32 any, any, ${held + i};" for i in range(1, held)]
    copies = [f"mov.b32 ${i}, $0;" for i in range(1, held)]
    return "\n".join(["{", ".reg .b32 any;", ".reg .pred yes;", f"mov.b32 any, ${held};", *either, "setp.ne.s32 yes, any, 0;",
                      f"vote.sync.ballot.b32 $0, yes, {lanes:#x};", *copies, "}"])
