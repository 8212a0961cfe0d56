"""Products in tensor memory of as many columns as the author has them, and as deep: one instruction for 32 bytes of K.

Input: a `tcgen05_mma` with the attribute `exact`, whose accumulator is a buffer of a power of two of columns. Output: assembly that
names the author's columns:

    fp32[128, 256] %acc of 176 columns      @leader tcgen05.mma.cta_group::1.kind::f16 [acc], a, b, 137101328, adds;

PTX ISA, "tcgen05.mma", table of matrix shapes: N is a multiple of 16 up to 256 where M is 128. Column j of the sums is column j of
the accumulator, so those behind the author's are never written. Its commits are assembly as well (`mma.py`), by the same thread.
"""

from __future__ import annotations

from ....ir import Op
from ....ir.types import I32
from ..emitter import Emitter
from ..hopper.descriptor_address import Inputs
from .matrices import instruction, kind
from .pairs import multiply


def exact(emitter: Emitter, op: Op) -> None:
    a_type, b_type, acc = op.attrs["exact"]
    b = b_type.element
    a = b if acc.element == I32 else a_type.element     # where bytes lie as 8-bit floats, `passes/tile_bytes.py`

    def instructions(left: bool, right: bool, steps: int) -> list[str]:
        return [str(instruction(a, b, left, right, *acc.shape))] * steps

    multiply(emitter, op, Inputs(), kind(a), instructions, 1, (a_type.shape, b_type.shape))
