"""Operand A of a product of wgmma in registers: how assembly packs and names them.

Input: an `async_dot` whose A is a tile. Output: that tile as integers, and assembly that makes 32-bit words of its registers:

    bf16[64, 256] %p of 176 columns     i16 registers $129 to $256;  mov.b32 w0, {$129, $130};  ..  mov.b32 w43, {$215, $216};

PTX ISA, "Register Fragments for wgmma.mma_async": a thread has four words for 256 bits of K of 64 rows, each of neighbours along K.
The registers behind those of the author's columns are idle.

The assembly of the product packs, not an elementwise one in front of it: Triton's passes know that elements of elementwise assembly
may change places, and move conversions of layouts across it. Neighbours in another layout are no neighbours along K.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir import Op, Scalar, Tensor
from ..emitter import Emitter

_WORDS = 4      # of A in one instruction


@dataclass(frozen=True)
class Fragments:
    """Registers of A, elements of `bits` bits: the assembly's operand `first` is the first of them, those of the next 64 rows come
    `block` behind."""

    first: int
    bits: int
    block: int

    @property
    def constraint(self) -> str:
        """LLVM's inline assembly constraint of one register. There is none for 8 bits: those come in 16, of which the upper half
        is anything."""
        return "r" if self.bits == 32 else "h"

    def packed(self, block: int, number: int) -> list[str]:
        """The lines that make the words of step `number` along K of 64 rows."""
        if self.bits == 32:
            return []
        each, lines = 32 // self.bits, []
        for word in range(_WORDS):
            of = self._first(block, number) + word * each
            names = [f"${of + place}" for place in range(each)]
            if each == 2:
                lines.append(f"mov.b32 {_word(block, number, word)}, {{{', '.join(names)}}};")
            else:
                lines += [f"mov.b32 low, {{{names[0]}, {names[1]}}};", f"mov.b32 high, {{{names[2]}, {names[3]}}};",
                          f"prmt.b32 {_word(block, number, word)}, low, high, 0x6420;"]
        return lines

    def declared(self, blocks: int, depth: int) -> list[str]:
        """The declarations of the words of so many blocks of 64 rows and steps along K."""
        if self.bits == 32:
            return []
        names = [_word(block, number, word) for block in range(blocks) for number in range(depth) for word in range(_WORDS)]
        return [f".reg .b32 {', '.join(names)}{', low, high' if self.bits == 8 else ''};"]

    def at(self, block: int, number: int) -> str:
        """The words of step `number` along K of 64 rows."""
        if self.bits == 32:
            return "{" + ", ".join(f"${self._first(block, number) + word}" for word in range(_WORDS)) + "}"
        return "{" + ", ".join(_word(block, number, word) for word in range(_WORDS)) + "}"

    def _first(self, block: int, number: int) -> int:
        return self.first + block * self.block + _WORDS * number * (32 // self.bits)


def _word(block: int, number: int, word: int) -> str:
    return f"w{block}_{number}_{word}"


def fragments(emitter: Emitter, op: Op, first: int):
    """(the registers of A from the assembly's operand `first` on, the tile that holds them, how many registers that is)."""
    layout, type_ = emitter.wanted(op, "a"), op.a.type
    whole = Tensor(Scalar(f"i{type_.element.bits}"), type_.shape)
    tile = emitter.builder.create_bitcast(emitter.operand(op, "a"), emitter.types.tensor(whole, layout))
    count = emitter.builder.get_total_elems_per_thread(tile.get_type())
    rows = type_.shape[0] // (16 * layout.parent.warps[0])      # blocks of 64 rows that a thread holds
    return Fragments(first, type_.element.bits, count // rows), tile, count
