"""Tiles of any extents become tiles of powers of two: Triton's tensors have no others.

Input: a program after all other passes. Output: the program that layouts are chosen for, in which each tile has its extents
rounded up, and the elements beyond the author's are idle: whatever is computed of them, nothing that can be seen depends on it.
For example, with `within` for the elements that are the author's:

    %x = masked_load %p, %m : fp32[176]             %x = masked_load %p, (%m and within) : fp32[256]
    %s = reduce %x by fadd                          %s = reduce (select within, %x, -0.0) by fadd

Arithmetic is element by element, so it needs nothing (docs/ARCHITECTURE.md, "How one tile of 176 columns travels through", has
the argument). Accesses to memory, reductions and products do: `pad_ends` has a rewriting for each of them. An op that mixes
elements and has none is refused with its line. The simulator and the checks run the program as it was before: what they find is
about the author's elements.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from types import MappingProxyType
from typing import Any

from ...ir import Block, Builder, Op, Program, Type, Value
from ...ir.extents import is_odd_tile, odd_tiles, padded_type
from . import pad_copies, pad_prints, pad_reductions, pad_reshapes, pad_scaled_dots  # noqa: F401
from .pad_buffers import is_odd_buffer, odd_arrays
from .pad_ends import ENDS, Padding, refusal


def pad_tiles(program: Program) -> Program:
    """The program with tiles of powers of two; the same object where it has no others. KernelError for an op that cannot be
    padded."""
    if not odd_tiles(program) and not odd_arrays(program):
        return program
    return replace(program, body=_Padder(program).block(program.body))


class _Padder:
    """Rebuilds blocks. `writer.env` holds what each value of the old program is in the new one, where that differs."""

    def __init__(self, program: Program):
        self.writer = Builder()
        self.padding = Padding(self.writer, program)

    def block(self, block: Block) -> Block:
        args = tuple(map(self.defined, block.args))
        outside = self.writer.open()
        for op in block.ops:
            self.rewrite(op)
        return Block(args, self.writer.close(outside))

    def defined(self, value: Value) -> Value:
        """The value that stands for a block's argument or an op's result."""
        if not is_odd_tile(value.type):
            return value
        self.writer.env[value] = new = Value(padded_type(value.type), value.name, value.number)
        return new

    def rewrite(self, op: Op) -> None:
        self.writer.site = op.site
        if not any(self.is_odd(value) for value in (*op.operands, *op.results)):
            self.as_it_is(op)
        elif op.name in ENDS:
            ENDS[op.name](self.padding, op)
        elif "mask" in op.row.places and "pointer" in op.row.places and not op.row.copy:
            self.padding.masked(op)
        elif op.row.hands_over and any(map(self.padding.in_pieces, op.operands)):
            raise self.padding.handed_on(op)
        elif op.row.hands_over or is_elementwise(op):
            self.as_it_is(op)
        elif "assembly" in op.row.traits:
            raise refusal(op, "which may do more than give its results,", "is_pure=True, if that is all it does.")
        else:
            raise refusal(op)

    def is_odd(self, value: Value) -> bool:
        """True of a tile or a buffer with odd extents, and of a buffer that consists of pieces all the same."""
        padding = self.padding
        pieces = value in padding.arrays or value in padding.picked or padding.in_pieces(value)
        return pieces or is_odd_tile(value.type) or is_odd_buffer(value.type)

    def as_it_is(self, op: Op) -> None:
        """The op on the padded tiles."""
        attrs = MappingProxyType({name: _padded(given) for name, given in op.attrs.items()})
        args = self.writer.now(tuple(map(_padded, op.args)))
        blocks = op.with_blocks(self.block).blocks
        self.writer.ops.append(Op(op.name, args, tuple(map(self.defined, op.results)), blocks, attrs, op.site))


def is_elementwise(op: Op) -> bool:
    """True if each element of a result comes from the elements at the same place of the operands, and nothing else happens."""
    row = op.row
    pure = "pure" in row.effects or bool(getattr(op, "is_pure", False))
    return pure and row.layout in ("same", "free") and "collective" not in row.traits


def _padded(arg: Any) -> Any:
    """An argument that is a type, or has types in it, as of padded tiles."""
    if isinstance(arg, tuple):
        items = tuple(map(_padded, arg))
        return arg if all(map(is_, items, arg)) else items
    return padded_type(arg) if isinstance(arg, Type) else arg

