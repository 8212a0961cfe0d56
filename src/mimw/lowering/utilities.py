"""Hardware registers that no op of Triton reads."""

from __future__ import annotations

from ..ir import I32, Op, Tensor
from ..ir.layouts import Blocked
from .asm import flag, ptx, registers_of
from .emitter import Emitter, emits


def _read(emitter: Emitter, assembly: str, constraint: str, type_, operands=()):
    """One volatile read per thread."""
    return emitter.builder.create_threadwise_inline_asm(assembly, f"{constraint},~{{memory}}", list(operands), [type_],
                                                        False).get_result(0)


@emits("thread_id")
def thread_id(emitter: Emitter, op: Op):
    (axis, ) = op.args
    type_ = emitter.builder.get_int32_ty()
    if emitter.target.backend == "cuda":  # PTX ISA, special registers %tid
        return _read(emitter, f"mov.u32 $0, %tid.{'xyz'[axis]};", "=r", type_)
    if axis:  # Triton launches AMD work-groups along x alone
        return emitter.builder.get_int32(0)
    return _read(emitter, "v_mov_b32 $0, $1", "=v,v", type_, [_thread_numbers(emitter)])


def _thread_numbers(emitter: Emitter):
    """A tile that holds in each thread its number in the CTA: no assembly names the register of the work-item's id."""
    warp_size, num_warps = emitter.target.warp_size, emitter.num_warps
    layout = emitter.types.attribute(Blocked((1, ), (warp_size, ), (num_warps, ), (0, )))
    builder = emitter.builder
    type_ = builder.get_distributed_ty(builder.get_int32_ty(), [warp_size * num_warps], layout)
    return builder.create_make_range(type_, 0, warp_size * num_warps)


@emits("clock64")
def clock64(emitter: Emitter, op: Op):
    type_ = emitter.builder.get_int64_ty()
    if emitter.target.backend == "cuda":  # PTX ISA, special registers %clock64
        return _read(emitter, "mov.u64 $0, %clock64;", "=l", type_)
    if emitter.target.arch == "gfx1250":  # s_memtime left the ISA with gfx12
        return _read(emitter, "s_get_shader_cycles_u64 $0", "=s", type_)
    # CDNA3 ISA, S_MEMTIME: a scalar memory read, so its result is there when lgkmcnt has reached 0.
    return _read(emitter, "s_memtime $0\ns_waitcnt lgkmcnt(0)", "=s", type_)


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
