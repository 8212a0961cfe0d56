"""Operand A of a product of wgmma in registers: how assembly names them.

Input: an `async_dot` whose A is a tile. Output: that tile as one of 32-bit words, and which of its registers an instruction takes:

    bf16[64, 256] %p of 176 columns     words 0 to 3 for the first 16 of K, .., 40 to 43 for the last; 44 to 63 are idle

PTX ISA, "Register Fragments for wgmma.mma_async": a thread has four words for 256 bits of K of 64 rows, each of neighbours along K.
A word has the place of the first of its elements in the tile of words, and what lies at the places of the others is not looked at:
Triton's tiles keep their number of elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir import I32, Op, Tensor
from ..emitter import Emitter

_WORDS = 4      # of A in one instruction


@dataclass(frozen=True)
class Fragments:
    """Registers of A: the assembly's operand `first` is the first of them, those of the next 64 rows come `block` behind, and each
    `step`th is a word."""

    first: int
    step: int
    block: int

    def at(self, block: int, number: int) -> str:
        """The words of step `number` along K of 64 rows."""
        begin = self.first + block * self.block + _WORDS * number * self.step
        return "{" + ", ".join(f"${begin + word * self.step}" for word in range(_WORDS)) + "}"


def fragments(emitter: Emitter, op: Op, first: int):
    """(the registers of A from the assembly's operand `first` on, the tile that holds them, how many registers that is)."""
    tile, layout, type_ = emitter.operand(op, "a"), emitter.wanted(op, "a"), op.a.type
    step = 32 // type_.element.bits
    words = emitter.types.tensor(Tensor(I32, type_.shape), layout)
    constraints = ",".join([*["=r"] * step, "r"])
    assembly = " ".join(f"mov.b32 ${number}, ${step};" for number in range(step))
    packed = emitter.builder.create_inline_asm(assembly, constraints, [tile], [words], True, step).get_result(0)
    count = emitter.builder.get_total_elems_per_thread(packed.get_type())
    rows = type_.shape[0] // (16 * layout.parent.warps[0])      # blocks of 64 rows that a thread holds
    return Fragments(first, step, count // rows), packed, count
