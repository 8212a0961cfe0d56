"""Products of the fifth generation of tensor cores, and their commits.

Input: a `tcgen05_mma` or `tcgen05_commit`. Output: Triton's product with the barriers of the commits right behind it, or a commit
by assembly:

    tcgen05_mma %a %b %acc; tcgen05_commit %done {of_dot}        ttng.tc_gen5_mma %a, %b, %acc, ..., %done[%true] {is_async}

A commit on its own is assembly: Triton's canonicaliser would fold its own op into a product before it. PTX ISA, tcgen05.commit: it
tracks what the executing thread has issued, so the thread that commits is the one that issues Triton's products: the lane that
`elect.sync` names in the first warp of the task. No `tcgen05.fence` stands at it: a commit implies the one before it
(`tcgen05.fence::before_thread_sync`), and the waits of mbarriers that Triton emits are followed by `tcgen05.ld` or by products,
which Triton's own kernels order by that wait alone.
"""

from __future__ import annotations

from ....ir import Op, Scalar
from ....ir.types import I32
from ..asm import own_address, ptx, thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from ..predicates import predicate
from .any_columns import exact
from .descriptors import memory_type


@emits("tcgen05_mma")
def tcgen05_mma(emitter: Emitter, op: Op):
    if op.attrs.get("exact"):
        exact(emitter, op)
        return
    a = left(emitter, op, op.b.type.element if op.acc.type.element == I32 else op.a.type.element)
    emitter.builder.create_tcgen05_mma(a, emitter.of(op.b), emitter.of(op.acc), *control(emitter, op), False, False)


def left(emitter: Emitter, op: Op, element: Scalar):
    """Operand A of these elements: bytes in tensor memory lie as 8-bit floats (`passes/tile_bytes.py`)."""
    type_, value = op.a.type, emitter.of(op.a)
    if type_.space != "tmem" or type_.element == element:
        return value
    return emitter.builder.create_memdesc_reinterpret(memory_type(emitter, element, type_.shape, emitter.placed[op.a]), value)


def control(emitter: Emitter, op: Op) -> tuple:
    """The operands of Triton's products behind the tiles: use_acc, the predicate, the barriers and the predicates of these."""
    builder = emitter.builder
    use_acc = builder.get_int1(op.use_acc) if isinstance(op.use_acc, bool) else emitter.of(op.use_acc)
    when = predicate(emitter, op.predicate)
    barriers = [emitter.of(commit.barrier) for commit in emitter.take(_of_dot)]
    predicates = [when] * len(barriers)
    if not barriers and not op.attrs.get("waits"):
        # Without a barrier Triton waits at once. This one is never arrived at.
        barriers, predicates = [emitter.allocate(emitter.types.barrier(0))], [builder.get_int1(False)]
    return use_acc, when, barriers, predicates


def _of_dot(op: Op) -> bool:
    return op.name == "tcgen05_commit" and op.attrs.get("of_dot", False)


# PTX ISA, tcgen05.commit: by one thread; the mbarrier gets one arrival.
_COMMIT = """{{
.reg .pred on, leader;
.reg .b32 lane;
setp.lt.u32 on, $0, 32;
{when}
@!on bra over;
elect.sync lane|leader, 0xffffffff;
@leader tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$1];
over:
}}"""
_WHEN = """setp.ne.and.s32 on, $2, 0, on;"""


@emits("tcgen05_commit")
def tcgen05_commit(emitter: Emitter, op: Op):
    operands = [thread_in_task(emitter), own_address(emitter, emitter.of(op.barrier))]
    when = ""
    if op.predicate is not None:
        operands.append(zero_or_one(emitter, emitter.of(op.predicate)))
        when = _WHEN
    ptx(emitter, _COMMIT.format(when=when), ["r"] * len(operands), operands)
