"""Hints for the compiler behind Triton.

Input: a hint. Output: Triton's op, or one that Triton does not merge with another one:

    sched_barrier 8        rocdl.sched.barrier mfma_wmma
"""

from __future__ import annotations

from ....ir import Op
from ..emitter import Emitter, emits


@emits("sched_barrier")
def sched_barrier(emitter: Emitter, op: Op):
    emitter.builder.create_amd_sched_barrier(op.mask)


@emits("uniform")
def uniform(emitter: Emitter, op: Op):
    """Give the value itself, where lanes have no registers in common."""
    return emitter.of(op.value)


@emits("distinct_range")
def distinct_range(emitter: Emitter, op: Op):
    return distinct(emitter, op)


def distinct(emitter: Emitter, op: Op):
    """A range that MLIR takes for another one than those of other identities: it compares attributes."""
    builder = emitter.builder
    made = builder.create_make_range(emitter.mlir_type(op.result), op.start, op.end)
    made.set_attr("mimw.identity", builder.get_string_attr(op.identity))
    return made
