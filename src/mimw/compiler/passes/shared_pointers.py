"""Pointers into shared memory become offsets, and the accesses through them become reads and writes of buffers.

Input: a program. Output: the program without `local_ptr` and `remote_ptr`, or a `KernelError` for a use that cannot be
followed:

    %p = local_ptr %tile; %x = load %p       becomes       %x = local_load %tile

A `tle.gpu.local_ptr` is a pointer for the author and for Triton's semantics. Here each of them is followed to its
buffer: the value that is left is a 32-bit number, the element's row-major position in the buffer. A load or store whose
positions are a box of the buffer becomes one of a view of the buffer; any other one takes single elements
(`pointer_accesses`, `remote_accesses`).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...errors import KernelError
from ...ir import I32, Block, Builder, Op, Pointer, Program, Tensor, Type, Value, like
from ...ir.flow import all_carries
from ...ir.types import element_of
from ..analysis.pointers import Family, pointer_families
from ..analysis.uses import Uses, uses_of
from .pointer_accesses import ACCESSES, Accesses
from .remote_accesses import REMOTE, is_remote, ranked
from .slot_arrays import with_types


def shared_pointers(program: Program, masked_views: bool = True) -> Program:
    """The program without pointers into shared memory. Raises `KernelError` for operations that a pointer into shared memory
    cannot have. Without `masked_views` every masked store picks elements: the target has no other."""
    if not program.named("local_ptr"):
        return program
    uses = uses_of(program)
    families = pointer_families(program, uses, [(carry.source, carry.target) for carry in all_carries(program)])
    rewriter = _Rewriter(uses, families, program.cluster_size, masked_views)
    rewritten = replace(program, body=rewriter.block(program.body))
    odd = {array: replace(array.type, count=1 << (array.type.count - 1).bit_length()) for array in rewriter.accesses.odd
           if (made := uses.definition[array]) is not None and made.row.allocates == "buffer"}
    return shared_pointers(with_types(program, odd), masked_views) if odd else rewritten


class _Rewriter:
    """Rebuilds blocks. `writer.env` holds what each value of the old program is in the new one, where that differs."""

    def __init__(self, uses: Uses, families: dict[Value, Family], cluster_size: int, masked_views: bool):
        self.families, self.cluster_size = families, cluster_size
        self.writer = Builder()
        self.accesses = Accesses(self.writer, uses, families, masked_views)

    def block(self, block: Block) -> Block:
        args = tuple(self.defined(arg) for arg in block.args)
        outside = self.writer.open()
        for op in block.ops:
            self.op(op)
        return Block(args, self.writer.close(outside))

    def defined(self, value: Value) -> Value:
        """A block argument or result: an offset if it was a pointer."""
        if value not in self.families:
            return value
        offset = Value(_offset_type(value.type), value.name, value.number)
        self.writer.env[value] = offset
        return offset

    def op(self, op: Op) -> None:
        pointers = [value for value in op.operands if value in self.families]
        if op.name == "local_ptr":
            self.writer.env[op.result] = self.position(op)
        elif not pointers and not any(result in self.families for result in op.results) and not op.blocks:
            self.writer.copy(op, op.args)
        elif op.name == "addptr":
            pointer, step = self.writer.now(op.lhs), self.writer.cast_i32(self.writer.now(op.rhs), op.site)
            self.writer.env[op.result] = self.writer.emit("add", (pointer, step), op.site, label=op.result.name)
        elif op.name == "bitcast" and isinstance(element_of(op.result.type), Pointer):
            self.writer.env[op.result] = self.writer.now(op.value)
        elif ACCESSES.of(op) and op.pointer in self.families:
            (REMOTE if is_remote(self.accesses.uses, op.pointer) else ACCESSES).of(op)(self.accesses, op)
        elif op.name == "remote_ptr":
            self.writer.env[op.result] = ranked(self.accesses, op, self.cluster_size)
        elif pointers and not (op.row.elements_of or op.row.hands_over or op.blocks):
            raise KernelError(f"a pointer into shared memory cannot be used by {op.name}.", op.site,
                              hint="load, store and atomics take it; so do pointer arithmetic, shape operations and `where`.")
        else:
            self.follow(op)

    def follow(self, op: Op) -> None:
        """The same op on offsets; control flow around rewritten blocks."""
        touches = any(value in self.families for value in (*op.operands, *op.results))
        args = self.writer.now(_retyped(op.args) if touches else op.args)
        blocks = tuple(self.block(block) for block in op.blocks)
        results = tuple(self.defined(result) for result in op.results)
        self.writer.ops.append(replace(op, args=args, blocks=blocks, results=results))

    def position(self, op: Op) -> Value:
        """The row-major position that a `local_ptr` points to, in the buffer of its family."""
        indices, shape = op.indices, op.shape
        writer, site = self.writer, op.site
        if indices is None:
            position = writer.positions(shape, site)
        else:
            position = writer.constant(0, I32, site) if not indices else None
            for index, step in zip(indices, _steps(shape)):
                term = writer.scaled(writer.now(index), step, site)
                position = term if position is None else writer.emit("add", (position, term), site)
        for index, size in self.families[op.result].above[op]:
            term = writer.scaled(writer.now(index), size, site)
            if isinstance(position.type, Tensor):
                term = writer.emit("splat", (position.type, term), site)
            position = writer.emit("add", (position, term), site)
        return position


def _steps(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[dim + 1:]) for dim in range(len(shape))]


def _offset_type(type_: Type) -> Type:
    return like(type_, I32)


def _retyped(arg):
    """Arguments of an op on pointers: types of shared pointers become those of offsets."""
    if isinstance(arg, tuple):
        return tuple(_retyped(item) for item in arg)
    if isinstance(arg, Type) and isinstance(element_of(arg), Pointer) and element_of(arg).space in ("shared", "cluster"):
        return _offset_type(arg)
    return arg
