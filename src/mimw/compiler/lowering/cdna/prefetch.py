"""Cache hints at pointers on gfx1250.

Input: a `prefetch`. Output: one instruction for each pointer that a thread holds:

    prefetch %pointers None "L2"        global_prefetch_b8 $0, off scope:SCOPE_SE

The scope says how far from the wave the line is to come: none, to the caches of its own unit; that of a shader engine, to L2, as
Triton has it in its prefetches of tiles. Such a prefetch is speculative: one of a page that the hardware does not know is dropped.
"""

from __future__ import annotations

from ....ir import I32, Op, Tensor
from ..asm import registers_of, thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from .barriers import SETTLED

_SCOPES = {"L1": "", "L2": " scope:SCOPE_SE"}
_ON = """v_cmp_{test}_u32 vcc_lo, 0, {flag}
s_and_b32 exec_lo, exec_lo, vcc_lo"""


@emits("prefetch", assembly="gfx12")
def prefetch(emitter: Emitter, op: Op):
    """Each thread prefetches what its elements point at; of a single pointer only the first thread."""
    address, masks = emitter.operand(op, "pointer"), []
    if isinstance(op.pointer.type, Tensor):
        held, tests = registers_of(emitter, address), ["ne"]
        if op.mask is not None:
            numbers = emitter.types.tensor(Tensor(I32, op.mask.type.shape), emitter.wanted(op, "mask"))
            masks = [emitter.builder.create_int_cast(emitter.operand(op, "mask"), numbers, False)]
    else:
        held, tests, masks = 1, ["eq", "ne"], [thread_in_task(emitter)]
        if op.mask is not None:
            masks.append(zero_or_one(emitter, emitter.of(op.mask)))
    lines, flags = [SETTLED, "s_mov_b32 s20, exec_lo"], held * len(masks)
    for place in range(held):
        lines += [_ON.format(test=test, flag=f"${held + place + number * held}") for test, number in zip(tests, range(len(masks)))]
        lines.append(f"global_prefetch_b8 ${place}, off{_SCOPES[op.level]}")
        lines += ["s_mov_b32 exec_lo, s20"] * bool(masks)
    constraints = ",".join(["v"] * (held + flags) + ["~{vcc}", "~{scc}", "~{s20}", "~{memory}"])
    emitter.builder.create_threadwise_inline_asm("\n".join([*lines, SETTLED]), constraints, [address, *masks], [], False)
