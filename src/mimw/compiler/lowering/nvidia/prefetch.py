"""Cache hints at pointers (PTX ISA, prefetch).

Input: a `prefetch`. Output: one instruction for each pointer that a thread holds:

    prefetch %pointers None "L2"        prefetch.global.L2 [$0];
"""

from __future__ import annotations

from ....ir import I32, Op, Tensor
from ..asm import ptx, registers_of, thread_in_task, zero_or_one
from ..emitter import Emitter, emits


@emits("prefetch")
def prefetch(emitter: Emitter, op: Op):
    """Each thread prefetches what its elements point at; of a single pointer only the first thread."""
    address, level = emitter.operand(op, "pointer"), op.level
    if not isinstance(op.pointer.type, Tensor):
        operands, also = [address, thread_in_task(emitter)], ""
        if op.mask:
            operands.append(zero_or_one(emitter, emitter.of(op.mask)))
            also = "setp.ne.and.s32 on, $2, 0, on;\n"
        ptx(emitter, f"{{\n.reg .pred on;\nsetp.eq.s32 on, $1, 0;\n{also}@on prefetch.global.{level} [$0];\n}}",
            ["l"] + ["r"] * (len(operands) - 1), operands)
        return
    held = registers_of(emitter, address)
    if op.mask is None:
        ptx(emitter, "\n".join(f"prefetch.global.{level} [${i}];" for i in range(held)), ["l"] * held, [address])
        return
    wanted = emitter.operand(op, "mask")
    numbers = emitter.types.tensor(Tensor(I32, op.mask.type.shape), emitter.wanted(op, "mask"))
    lines = [f"setp.ne.s32 on, ${held + i}, 0;\n@on prefetch.global.{level} [${i}];" for i in range(held)]
    ptx(emitter, "\n".join(["{", ".reg .pred on;", *lines, "}"]), ["l"] * held + ["r"] * held,
        [address, emitter.builder.create_int_cast(wanted, numbers, False)])
