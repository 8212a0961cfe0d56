"""Hardware registers that no op of Triton reads, and votes of a warp of 32 lanes.

Input: an op. Output: assembly that reads the register in each thread:

    clock64            s_memtime $0; s_waitcnt lgkmcnt(0)
    vote_ballot %p     v_cmp_ne_u32 vcc_lo, 0, $1; v_mov_b32 $0, vcc_lo
"""

from __future__ import annotations

from ....ir import I32, Op, Tensor
from ..asm import registers_of, thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from .barriers import SETTLED


@emits("thread_id", assembly="gfx9")
@emits("thread_id", assembly="gfx12")
def thread_id(emitter: Emitter, op: Op):
    """Read the thread's number from a tile that holds in each thread its number in the CTA: no assembly names the register of
    the work-item's id."""
    if op.axis:  # Triton launches AMD work-groups along x alone
        return emitter.builder.get_int32(0)
    around = [SETTLED] if emitter.target.assembly == "gfx12" else []
    assembly = "\n".join([*around, "v_mov_b32 $0, $1", *around])
    return _read(emitter, assembly, "=v,v", emitter.builder.get_int32_ty(), [thread_in_task(emitter)])


@emits("clock64", assembly="gfx9")
def clock_gfx9(emitter: Emitter, op: Op):
    """CDNA3 ISA, S_MEMTIME: a scalar memory read, so its result is there when lgkmcnt has reached 0."""
    return _read(emitter, "s_memtime $0\ns_waitcnt lgkmcnt(0)", "=s", emitter.builder.get_int64_ty())


@emits("clock64", assembly="gfx12")
def clock_gfx12(emitter: Emitter, op: Op):
    """s_memtime left the ISA with gfx12."""
    return _read(emitter, "s_get_shader_cycles_u64 $0", "=s", emitter.builder.get_int64_ty())


@emits("vote_ballot", assembly="gfx12")
def vote_ballot(emitter: Emitter, op: Op):
    """A thread's vote for a tile is the OR of its registers, and each of them gets the ballot."""
    if not isinstance(op.predicate.type, Tensor):
        type_ = emitter.builder.get_int32_ty()
        return _read(emitter, _ballot(1, op.mask), "=&v,v,~{vcc},~{scc}", type_, [zero_or_one(emitter, emitter.of(op.predicate))])
    type_ = emitter.types.tensor(Tensor(I32, op.predicate.type.shape), emitter.wanted(op, "predicate"))
    votes = emitter.builder.create_int_cast(emitter.operand(op, "predicate"), type_, False)
    held = registers_of(emitter, votes)
    constraints = ",".join(["=&v"] * held + ["v"] * held + ["~{vcc}", "~{scc}"])
    return _read(emitter, _ballot(held, op.mask), constraints, type_, [votes])


def _ballot(held: int, lanes: int) -> str:
    either = [f"v_or_b32 $0, $0, ${held + i}" for i in range(1, held)]
    copies = [f"v_mov_b32 ${i}, vcc_lo" for i in range(held)]
    vote = "v_cmp_ne_u32 vcc_lo, 0, $0", f"s_and_b32 vcc_lo, vcc_lo, {lanes:#x}"
    return "\n".join([SETTLED, f"v_mov_b32 $0, ${held}", *either, *vote, *copies, SETTLED])


def _read(emitter: Emitter, assembly: str, constraint: str, type_, operands=()):
    """One volatile read per thread."""
    return emitter.builder.create_threadwise_inline_asm(assembly, f"{constraint},~{{memory}}", list(operands), [type_],
                                                        False).get_result(0)
