"""Calls of functions of ours in LLVM IR (`triton_port.amd_functions`), and the waits of a wave for its own accesses.

Input: a function's name and MLIR values. Output: assembly that names the function; the stage that makes LLVM IR puts a call in its
place. A barrier is one operand, its address in LDS; a tile of as many elements as threads is one number in each thread:

    call(emitter, "wait", [barrier, phase])        mimw.wait, "v,v,~{memory}"
"""

from __future__ import annotations

from ..asm import sync
from ..emitter import Emitter

THREADS = 32  # that a wave counts for, whatever its lanes: a kernel gives the same numbers on every chip
_ALL_MAY_CROSS = 0x7ff  # every kind of instruction may be scheduled across: the op is there for being convergent
_SETTLED = {"gfx9": "s_waitcnt vmcnt(0) lgkmcnt(0)", "gfx12": "s_wait_loadcnt 0x0\ns_wait_storecnt 0x0\ns_wait_dscnt 0x0"}
_OF_LDS = {"gfx9": "s_waitcnt lgkmcnt(0)", "gfx12": "s_wait_dscnt 0x0"}


def call(emitter: Emitter, name: str, operands: list, result=None):
    """Call the function of that name in each thread; the value of its result, if it has one.

    LLVM takes assembly for something that each lane does for itself, and may copy it into both branches of an `if` before it,
    where a wave would count twice. What is convergent it may not copy, nor the block that it stands in.
    """
    emitter.builder.create_amd_sched_barrier(_ALL_MAY_CROSS)
    constraints = ",".join([*["=v"] * (result is not None), *["v"] * len(operands), "~{memory}"])
    results = [] if result is None else [result]
    made = emitter.builder.create_threadwise_inline_asm(f"mimw.{name}", constraints, operands, results, False)
    return None if result is None else made.get_result(0)


def settled(emitter: Emitter) -> None:
    """Let each wave wait until its loads, stores and copies into LDS are done. Nobody else's: that takes a sync behind it."""
    emitter.builder.create_threadwise_inline_asm(_SETTLED[emitter.target.assembly], "~{memory}", [], [], False)


def all_settled(emitter: Emitter, in_flight: bool = False) -> None:
    """Hold every wave of the task until the accesses of all of them are done; with `in_flight` until those of LDS are, which leaves
    out copies into it."""
    if in_flight:
        emitter.builder.create_threadwise_inline_asm(_OF_LDS[emitter.target.assembly], "~{memory}", [], [], False)
    else:
        settled(emitter)
    sync(emitter)
