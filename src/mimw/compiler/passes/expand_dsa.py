"""Local memories of `tle.dsa` on a GPU: registers where that will do, else shared memory.

Input: a program with buffers in UB, L1, L0A, L0B or L0C, and a target. Output: the same program where the target has these; for a
GPU one with `local_alloc`, `load`, `store` and arithmetic on tiles. For example:

    %a = local_alloc buffer<fp32[50] in ub>         %a = local_alloc buffer<fp32[64]>
    dsa_load %p, %a, [50]                           %v = masked_load %p, ..;    local_store %a, %v

A buffer's extents become powers of two, and the elements beyond the author's are padding. A buffer whose accesses all stand in
one block, whole, is a tile in registers (`dsa_tiles`): then no memory is made for it. L1 and the L0 memories are shared memory, so
a `dot` of what lies there is one that the tensor core reads where it lies (`shared_operands`).
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import KernelError
from ...ir import Block, Buffer, Builder, Op, Program, Tensor, Type, Value
from ...ir.extents import padded
from ...target import Target
from ..analysis.uses import uses_of
from .dsa_places import Places
from .dsa_slices import extracted_element, extracted_slice, inserted_slice
from .dsa_tiles import combined, covers, in_registers

SPACES = ("ub", "l1", "l0a", "l0b", "l0c")
_NO_HINT = ("cache", "none", "evict_normal")


def is_local(type_: Type) -> bool:
    """True of buffers in memories that software manages."""
    return isinstance(type_, Buffer) and type_.space in SPACES


def uses_local_memories(program: Program) -> bool:
    """True if a program has ops or buffers of `tle.dsa`."""
    found = program.where(lambda row: "dsa" in row.traits or row.allocates == "buffer")
    return any("dsa" in op.row.traits or is_local(op.result.type) for op in found)


def expand_dsa(program: Program, target: Target, masked_views: bool = True) -> Program:
    """The program without local memories on a target that has shared memory instead; the same object on any other, and for a
    program that has none. KernelError for a subview that control flow hands on."""
    if not target.shared_bytes or not uses_local_memories(program):
        return program
    expander = _Expander(program, masked_views)
    return replace(program, body=expander.block(program.body))


class _Expander:
    """Rebuilds blocks. `writer.env` holds what each value of the old program is in the new one, where that differs; `tiles` the
    tile that a buffer in registers is now."""

    def __init__(self, program: Program, masked_views: bool):
        self.writer = Builder()
        self.places = Places(self.writer, masked_views)
        self.uses = uses_of(program)
        self.registers = in_registers(self.uses, is_local)
        self.tiles: dict[Value, Value] = {}

    def block(self, block: Block) -> Block:
        args = tuple(self.defined(arg) for arg in block.args)
        outside = self.writer.open()
        for op in block.ops:
            if "dsa" in op.row.traits:
                getattr(self, op.name)(op)
            elif op.name == "local_alloc" and is_local(op.result.type):
                self.local_alloc(op)
            elif op.name == "local_ptr" and is_local(op.buffer.type):
                self.local_ptr(op)
            else:
                self.other(op)
        return Block(args, self.writer.close(outside))

    def defined(self, value: Value) -> Value:
        """A block argument or result: a buffer in shared memory, if it was one in a local memory."""
        if not is_local(value.type):
            return value
        self.writer.env[value] = made = Value(_in_shared_memory(value.type), value.name, value.number)
        return made

    def other(self, op: Op) -> None:
        """An op that knows no local memory, but may hand a buffer on."""
        for operand in op.operands:
            if operand in self.places.views:
                raise KernelError(f"a subview cannot be passed on by {op.name}.", op.site, self.uses.definition[operand].site,
                                  hint="pass on the buffer and the offsets, and take the subview where it is used.")
        if op.name == "buffer_index" and is_local(op.buffer.type):
            self.writer.env[op.result] = self.writer.emit(op.name, self.writer.now(op.args), op.site, label=op.result.name)
        elif not op.blocks and not any(is_local(result.type) for result in op.results):
            self.writer.copy(op, op.args)
        else:
            args = _retyped(self.writer.now(op.args))
            blocks = tuple(self.block(block) for block in op.blocks)
            self.writer.ops.append(replace(op, args=args, blocks=blocks, results=tuple(map(self.defined, op.results))))

    def local_alloc(self, op: Op) -> None:
        if op.result not in self.registers:
            type_ = _in_shared_memory(op.result.type)
            self.writer.env[op.result] = self.writer.emit("local_alloc", (type_, None), op.site, layout=None, label=op.result.name)

    def local_ptr(self, op: Op) -> None:
        """Rewrite pointers into a subview as pointers into the buffer behind it."""
        place = self.places.of(op.buffer)
        if place.is_whole:
            self.writer.copy(op, op.args)
            return
        indices = self.writer.now(op.indices) if op.indices is not None else self.places.grid(place.shape, op.site)
        there = self.places.inside(place, indices, op.site)
        args = self.writer.now(place.root), there, place.root.type.shape, op.pointee
        self.writer.env[op.result] = self.writer.emit("local_ptr", args, op.site, label=op.result.name)

    # ---- values -----------------------------------------------------------------------------------------------------

    def read(self, buffer: Value, op: Op) -> Value:
        """A tile of the buffer's extents rounded up; elements beyond the buffer's own are undefined."""
        if buffer in self.registers:
            if buffer not in self.tiles and not self.uses.definition[buffer].row.allocates:     # a slot that a copy has filled
                self.tiles[buffer] = self.places.read(self.places.of(buffer), op.site)
            elif buffer not in self.tiles:
                self.tiles[buffer] = self.nothing(Tensor(buffer.type.element, padded(buffer.type.shape)), op)
            return self.tiles[buffer]
        return self.places.read(self.places.of(buffer), op.site)

    def write(self, buffer: Value, tile: Value, op: Op, mask: Value | None = None) -> None:
        if buffer in self.registers:
            if mask is not None:
                tile = self.writer.emit("select", (mask, tile, self.read(buffer, op)), op.site)
            self.tiles[buffer] = tile
        else:
            self.places.write(self.places.of(buffer), tile, mask, op.site)

    def nothing(self, type_: Tensor, op: Op) -> Value:
        return self.writer.constant(0.0 if type_.element.is_float else 0, type_, op.site)

    # ---- copies -----------------------------------------------------------------------------------------------------

    def pointers(self, op: Op, rank: int) -> Value:
        return self.writer.reshaped(self.writer.now(op.pointer), getattr(op.pointer.type, "shape", (1, ) * rank), op.site)

    def mask(self, op: Op, extents: tuple, shape: tuple[int, ...], room: tuple[int, ...]) -> Value | None:
        """A mask of the elements of a tile of `shape` in the leading box, whose extents are at most `room`'s; None if the box
        is all of it."""
        return self.places.leading(self.writer.now(extents), shape, room, op.site)

    def loaded(self, op: Op, pointers: Value, mask: Value | None) -> Value:
        if mask is None:
            return self.writer.emit("load", (pointers, _NO_HINT, False), op.site)
        fill = self.nothing(Tensor(pointers.type.element.pointee, pointers.type.shape), op)
        return self.writer.emit("masked_load", (pointers, mask, fill, _NO_HINT, False), op.site)

    def dsa_load(self, op: Op) -> None:
        room = op.buffer.type.shape
        pointers = self.pointers(op, len(room))
        shape = pointers.type.shape
        mask = self.mask(op, op.extents, shape, room)
        value = self.loaded(op, pointers, mask)
        if shape != padded(room):
            self.places.scatter(self.places.of(op.buffer), value, mask, op.site)
        else:
            keeps = not covers(op) and (op.buffer not in self.registers or op.buffer in self.tiles)
            self.write(op.buffer, value, op, mask if keeps else None)

    def dsa_fetch(self, op: Op) -> None:
        room = op.buffer.type.shape
        pointers = self.pointers(op, len(room))
        mask = self.mask(op, op.extents, pointers.type.shape, room)
        if op.predicate is not None:
            wanted = self.writer.now(op.predicate)
            wanted = self.writer.emit("splat", (Tensor(wanted.type, pointers.type.shape), wanted), op.site)
            mask = wanted if mask is None else self.writer.emit("and", (mask, wanted), op.site)
        args = pointers, self.writer.now(op.buffer), mask, None, _NO_HINT, False
        self.writer.env[op.result] = self.writer.emit("async_load", args, op.site)

    def dsa_store(self, op: Op) -> None:
        room = op.buffer.type.shape
        pointers = self.pointers(op, len(room))
        shape = pointers.type.shape
        mask = self.mask(op, op.extents, shape, room)
        if shape == padded(room):
            value = self.read(op.buffer, op)
        else:
            value = self.places.gather(self.places.of(op.buffer), shape, mask, op.site)
        if mask is None:
            self.writer.emit("store", (pointers, value, _NO_HINT), op.site)
        else:
            self.writer.emit("masked_store", (pointers, value, mask, _NO_HINT), op.site)

    def dsa_move(self, op: Op) -> None:
        room = op.buffer.type.shape
        self.write(op.buffer, self.read(op.source, op), op, None if covers(op) else self.mask(op, op.extents, padded(room), room))

    # ---- tensors ----------------------------------------------------------------------------------------------------

    def dsa_to_tensor(self, op: Op) -> None:
        self.writer.env[op.result] = self.read(op.buffer, op)

    def dsa_to_buffer(self, op: Op) -> None:
        self.write(op.buffer, self.writer.now(op.value), op)

    def dsa_binary(self, op: Op) -> None:
        lhs, rhs = self.read(op.lhs, op), self.read(op.rhs, op)
        self.write(op.out, combined(self.writer, op.kind, lhs, rhs, bool(op.attrs.get("unsigned")), op.site), op)

    def dsa_subview(self, op: Op) -> None:
        self.places.add(op, self.writer.now(op.offsets))

    def dsa_extract_slice(self, op: Op) -> None:
        self.writer.env[op.result] = extracted_slice(self.places, op)

    def dsa_insert_slice(self, op: Op) -> None:
        self.writer.env[op.result] = inserted_slice(self.places, op)

    def dsa_extract_element(self, op: Op) -> None:
        self.writer.env[op.result] = extracted_element(self.places, op)


def _retyped(arg):
    """Arguments of an op that hands values on: the types of buffers are those in shared memory."""
    if isinstance(arg, tuple):
        return tuple(map(_retyped, arg))
    return _in_shared_memory(arg) if is_local(arg) else arg


def _in_shared_memory(type_: Buffer) -> Buffer:
    return Buffer(type_.element, padded(type_.shape), type_.count)


