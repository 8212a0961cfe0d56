"""The registers of matrix cores on chips that have one kind of registers: a tile is where it is. Slices are an op of Triton's.

Input: an op on such registers. Output: the value itself, or Triton's op:

    %part = extract_slice %tile (32, 32) (0, 32)       amdg.extract_slice %tile [0, 32]
"""

from __future__ import annotations

from ....ir import Op
from ..emitter import Emitter, emits


@emits("keep_in_registers", "commit_products")
def as_it_is(emitter: Emitter, op: Op):
    return emitter.operand(op, "value")


@emits("extract_slice")
def extract_slice(emitter: Emitter, op: Op):
    return emitter.builder.create_extract_slice(emitter.mlir_type(op.result), emitter.operand(op, "value"), list(op.offsets))
