"""Pipes become barriers: one array that says of each slot that its chunk is there, one that says that all readers are done with it.

Input: a program with pipes. Output: the same with barriers, waits, arrivals and copies that complete on barriers. For example:

    %x = pipe_acquire %p, chunk=%k        barrier_wait %p.free[slot], parity of the round before;    %x = buffer_index %buffer, slot
    tma_fetch %source, [%k], %x           barrier_expect %p.full[slot], bytes;    tma_load %source, [%k], %p.full[slot], %x
    pipe_commit %p, chunk=%k

Slot and parity follow from the chunk's number alone: i % capacity, and i // capacity odd or even. What a barrier op was in the
words of the pipe stays with it (`pipe`, `side`, `method`, `reader`, `chunk`): so reports speak of the pipe (`analysis.pipe_words`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import I1, I32, Block, Buffer, Builder, Op, Pipe, Program, Site, Tensor, Value
from ..analysis.pipes import pipes_of
from .pipe_chunks import Chunk, pipe_chunks


def expand_pipes(program: Program) -> Program:
    """The program without pipes; the same object if it has none. KernelError for impossible chunks (`pipe_chunks`)."""
    if not program.where(lambda row: "pipe" in row.traits):
        return program
    return replace(program, body=_Expander(program).block(program.body))


@dataclass
class _Parts:
    """The values that form a pipe: the arrays of barriers, a constant false, and for a pipe that is closed an end marker for
    each slot."""

    full: Value
    free: Value | None = None
    never: Value | None = None
    markers: Value | None = None


class _Expander:
    """Rebuilds blocks. `writer.env` holds what each value of the old program is in the new one, where that differs."""

    def __init__(self, program: Program):
        self.makes, self.chunks, self.writer = pipes_of(program), pipe_chunks(program), Builder()
        self.closed = {self.makes[op.pipe] for op in program.named("pipe_close")}
        self.parts: dict[Op, _Parts] = {}
        self.full: dict[Chunk, Value] = {}      # the barrier of the slot, as its acquire has found it

    def block(self, block: Block) -> Block:
        outside = self.writer.open()
        for index, op in enumerate(block.ops):
            if "pipe" in op.row.traits:
                getattr(self, op.name)(op)
            elif op in self.chunks.of_copy:
                self.copy(op, self.chunks.of_copy[op])
            elif not self.waits_for_copy(block, index):
                self.other(op)
        return Block(_without_pipes(block.args), self.writer.close(outside))

    def other(self, op: Op) -> None:
        """An op that knows no pipe, but may hand one on."""
        if not op.blocks and not any(isinstance(value.type, Pipe) for value in (*op.operands, *op.results)):
            self.writer.copy(op, op.args)
        elif op.blocks or "pure" not in op.row.effects:     # else a pipe that was made up in the search for what loops carry
            args = self.writer.now(_without_pipes(op.args))
            blocks = tuple(self.block(block) for block in op.blocks)
            self.writer.ops.append(replace(op, args=args, blocks=blocks, results=_without_pipes(op.results)))

    # ---- words ------------------------------------------------------------------------------------------------------

    def pipe_make(self, op: Op) -> None:
        readers = op.attrs.get("readers") or ()
        told = {"over": self.makes[op.over].result.name} if op.over is not None else {}
        fields, chunk_bytes = op.attrs["names"], sum(slot.bytes for slot in op.result.type.slots)
        parts = self.parts[op] = _Parts(self.barriers(op, "full", 1, readers, fields=fields, chunk_bytes=chunk_bytes, **told))
        if op.attrs.get("one_shot") or op.over is not None:
            return
        parts.free = self.barriers(op, "free", len(readers) or 1, readers)
        parts.never = self.writer.constant(False, I1, op.site)
        if op in self.closed:
            type_, name = Buffer(I32, (1, ), op.capacity), _named(op.result, "closed")
            parts.markers = self.writer.emit("local_alloc", (type_, None), op.site, layout=None, label=name)

    def barriers(self, op: Op, side: str, arrivals: int, readers: tuple[str, ...], **told) -> Value:
        return self.writer.emit("alloc_barriers", (op.capacity, arrivals), op.site, label=_named(op.result, side),
                                pipe=op.result.name, side=side, readers=readers, **told)

    def pipe_acquire(self, op: Op) -> None:
        slot = self.take(op, "acquire")
        if self.parts[self.makes[op.pipe]].free is not None:
            self.mark(op, slot, 0)
        self.views(op, slot)
        self.full[self.chunks.of_acquire[op]] = self.barrier(op, "full", slot)

    def pipe_commit(self, op: Op) -> None:
        slot, _ = self.place(op)
        full, chunk, writer = self.barrier(op, "full", slot), self.chunks.of_commit[op], self.writer
        full, number = (self.full[chunk], self.number(chunk)) if chunk.in_block else (full, writer.now(op.chunk))
        if chunk.ahead:
            return
        if op in self.chunks.by_threads:
            group = writer.emit("async_commit", ((), ), op.site, of_chunk=True)
            writer.emit("async_wait", (0, (group, )), op.site, of_chunk=True)
        writer.emit("fence", ("async_shared", ), op.site)
        if chunk.together:
            writer.emit("barrier_expect", (full, chunk.bytes, None, number), op.site, method="commit")
        else:
            writer.emit("barrier_arrive", (full, 1, None, number), op.site, method="commit")

    def pipe_close(self, op: Op) -> None:
        slot = self.take(op, "close")
        self.mark(op, slot, 1)
        args = self.barrier(op, "full", slot), 1, None, self.writer.now(op.chunk)
        self.writer.emit("barrier_arrive", args, op.site, method="close")

    def pipe_wait(self, op: Op) -> None:
        slot, parity = self.place(op)
        self.wait(op, self.barrier(op, "full", slot), parity, "wait")
        self.views(op, slot)
        self.writer.env[op.results[-1]] = self.is_closed(op, slot)

    def pipe_held(self, op: Op) -> None:
        self.views(op, self.place(op)[0])

    def pipe_release(self, op: Op) -> None:
        slot, _ = self.place(op)
        make = self.makes[op.pipe]
        make = make if make.over is None else self.makes[make.over]
        if self.parts[make].free is not None:
            barrier = self.writer.emit("barrier_index", (self.parts[make].free, self.value(slot, op.site)), op.site)
            args = barrier, 1, self.writer.now(op.predicate), self.writer.now(op.chunk)
            self.writer.emit("barrier_arrive", args, op.site, method="release", **_reader(op))

    # ---- slots and their barriers -----------------------------------------------------------------------------------

    def place(self, op: Op) -> tuple[Value | int, Value | int]:
        """Slot and parity of the op's chunk: numbers, or i32 values."""
        capacity, chunk, site, writer = self.makes[op.pipe].capacity, self.writer.now(op.chunk), op.site, self.writer
        if isinstance(chunk, int):
            return chunk % capacity, chunk // capacity % 2
        unsigned = op.attrs.get("unsigned", False)
        if op.row.places.get("predicate") and op.predicate is not None and capacity > 1:
            chunk = writer.by_constant("add", chunk, capacity, site)    # it may be -1, where nothing is released

        def i32(value: Value) -> Value:
            return writer.emit("int_cast", (value, I32, not unsigned), site) if unsigned or value.type != I32 else value

        if capacity == 1:
            return 0, i32(writer.by_constant("and", chunk, 1, site))
        slot = writer.by_constant("urem" if unsigned else "srem", chunk, capacity, site)
        turn = writer.by_constant("udiv" if unsigned else "sdiv", chunk, capacity, site)
        slot = i32(slot)
        return slot, i32(writer.by_constant("and", turn, 1, site))

    def number(self, chunk: Chunk) -> Value | int:
        """The number of a chunk as its acquire has it: it is known before the copies, and says which barrier the commit takes."""
        return self.writer.now(chunk.acquire.chunk)

    def value(self, number: Value | int, site: Site) -> Value:
        return self.writer.constant(number, I32, site) if isinstance(number, int) else number

    def barrier(self, op: Op, side: str, slot: Value | int) -> Value:
        array = getattr(self.parts[self.makes[op.pipe]], side)
        return self.writer.emit("barrier_index", (array, self.value(slot, op.site)), op.site)

    def wait(self, op: Op, barrier: Value, parity: Value | int, method: str) -> None:
        args = barrier, self.value(parity, op.site), None, self.writer.now(op.chunk)
        self.writer.emit("barrier_wait", args, op.site, method=method, **_reader(op))

    def take(self, op: Op, method: str) -> Value | int:
        """The slot of the writer's chunk, once it is free."""
        slot, parity = self.place(op)
        if self.parts[self.makes[op.pipe]].free is not None:
            before = 1 - parity if isinstance(parity, int) else self.writer.by_constant("xor", parity, 1, op.site)
            self.wait(op, self.barrier(op, "free", slot), before, method)
        return slot

    def views(self, op: Op, slot: Value | int) -> None:
        """The slot's buffers."""
        for whole, view in zip(self.makes[op.pipe].fields, op.results):
            args = self.writer.now(whole), self.value(slot, op.site)
            self.writer.env[view] = self.writer.emit("buffer_index", args, op.site, label=view.name)

    # ---- end markers ------------------------------------------------------------------------------------------------

    def mark(self, op: Op, slot: Value | int, closed: int) -> None:
        parts = self.parts[self.makes[op.pipe]]
        if parts.markers is not None:
            number = self.writer.constant(closed, Tensor(I32, (1, )), op.site)
            marker = self.writer.emit("buffer_index", (parts.markers, self.value(slot, op.site)), op.site)
            self.writer.emit("local_store", (marker, number), op.site)

    def is_closed(self, op: Op, slot: Value | int) -> Value:
        parts, writer, site = self.parts[self.makes[op.pipe]], self.writer, op.site
        if parts.markers is None:
            return parts.never or writer.constant(False, I1, site)
        marker = writer.emit("buffer_index", (parts.markers, self.value(slot, site)), site)
        number = writer.emit("unsplat", (writer.emit("local_load", (marker, None), site, layout=None), ), site)
        return writer.emit("icmpNE", (number, writer.constant(0, I32, site)), site, label=op.results[-1].name)

    # ---- copies into a slot -----------------------------------------------------------------------------------------

    def copy(self, op: Op, chunk: Chunk) -> None:
        """A copy that was complete when it was over is now complete with its chunk."""
        writer = self.writer
        if op.name == "async_load":
            attrs = {name: value for name, value in op.attrs.items() if name != "of_copy"}
            writer.emit(op.name, writer.now(op.args), op.site, **attrs)
            return
        full = self.full[chunk]
        if op not in chunk.together:
            writer.emit("barrier_bytes", (full, op.buffer.type.bytes), op.site)
        elif chunk.ahead and op is chunk.together[0]:
            writer.emit("barrier_expect", (full, chunk.bytes, None, self.number(chunk)), chunk.commit.site, method="commit")
        if "rows" in op.row.places:
            writer.emit("tma_gather", writer.now((op.descriptor, op.rows, op.column, full, op.buffer, None)), op.site)
        else:
            args = op.descriptor, op.offsets, full, op.buffer, None, op.cache_policy
            writer.emit("tma_load", writer.now(args), op.site)

    def waits_for_copy(self, block: Block, index: int) -> bool:
        """True for the group and the wait of a copy by threads into a slot: the commit waits for all of them."""
        op = block.ops[index]
        if "of_copy" not in op.attrs or op.row.copy:
            return False
        return next(one for one in reversed(block.ops[:index]) if one.row.copy) in self.chunks.of_copy


def _without_pipes(arg):
    """Arguments, results and types, those of pipes left out."""
    if not isinstance(arg, tuple):
        return arg
    return tuple(_without_pipes(item) for item in arg if not isinstance(getattr(item, "type", item), Pipe))


def _named(pipe: Value, part: str) -> str:
    return f"{pipe.name}.{part}" if pipe.name else ""


def _reader(op: Op) -> dict[str, str]:
    return {"reader": op.attrs["reader"]} if op.attrs.get("reader") else {}
