"""Copies by tensor descriptors on a chip without TMA: copies by pointers, made by the task's threads and waited for at once.

Input: a program, after `bytes_by_arrivals`, and its target. Output: the program without descriptors; the same object where there is
TMA, or nothing that needs it. For example, for gfx950:

    tma_fetch %a, [%m, %k], %tile_a                  if %whole                               both blocks lie in their tensors
    tma_fetch %b, [%k, %n], %tile_b                    async_load ..; async_load ..; async_commit; async_wait 0
                                           becomes   else
                                                       local_store %tile_a, masked_load ..; local_store %tile_b, masked_load ..

    tma_store %c, [%m, %n], %tile                    %0 = local_load %tile; if %whole: store .. else: masked_store ..

A block that reaches over an edge goes through registers, element by element where need be: its mask may cut anywhere, and what is
outside reads 0 or NaN as the descriptor says. Copies that follow each other are in flight together, and in a
producer's loop `arrive_later` lets those of several trips be. Hints and store waits have no counterpart: a store's buffer has been
read when the op is over. fp32 is never rounded to tf32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...ir import Block, Builder, Descriptor, Op, Program, Type, Value
from ...ir.ops import is_pure
from ...target import Target
from ..constraints.views import find_views
from .descriptor_boxes import Box
from .descriptor_parts import Parts, made_parts, refuse, split_parameters

_LACKING = frozenset(("tma", "descriptors"))   # on gfx1250 the first alone; in a kernel with words of TMA both go by pointers there
_PLAIN = ("cache", "none", "evict_normal")     # a recorded cache policy without a wish
_ORDERED = ("MIN", "MAX")


def copies_by_pointers(program: Program, target: Target) -> Program:
    """The program with those copies. TargetError for descriptors that an `if` or a loop passes on, and for the smaller or larger
    of floats in memory."""
    if "tma" not in target.mapped or not program.orchestrates():
        return program
    described = not target.has("descriptors") and any(isinstance(param.value.type, Descriptor) for param in program.params)
    if not described and not program.where(lambda row: row.needs and row.needs in _LACKING - target.features):
        return program
    memory = {value: frozenset(view.alloc for view in seen) for value, seen in find_views(program).items()}
    program, parts = split_parameters(program)
    return replace(program, body=_Writer(target, parts, memory).block(program.body))


class _Writer:
    """Rebuilds blocks; a method of an op's name writes what becomes of it. `parts` are those of each descriptor, `memory` the
    allocations behind each buffer."""

    def __init__(self, target: Target, parts: dict[Value, Parts], memory: dict[Value, frozenset[Value]]):
        self.target, self.parts, self.memory, self.builder = target, parts, memory, Builder()

    def block(self, block: Block) -> Block:
        outside, run = self.builder.open(), []
        for op in block.ops:
            fetches = "fetch" in op.row.traits
            if run and not is_pure(op.name) and not (fetches and self.apart(op, run)):
                self.fetch(run)
                run = []
            if fetches:
                run.append(op)
            else:
                self.op(op)
        self.fetch(run)
        return block.with_ops(self.builder.close(outside))

    def apart(self, op: Op, run: list[Op]) -> bool:
        """True if the copy writes no memory that one of the run writes."""
        mine = self.memory.get(op.buffer, frozenset())
        return all(mine.isdisjoint(self.memory.get(other.buffer, frozenset())) for other in run)

    def op(self, op: Op) -> None:
        if op.row.needs in _LACKING and (write := getattr(self, op.name, None)) is not None:
            write(op)
            return
        if op.row.needs == "tdm":
            refuse(self.target, op.site, "AMD's data mover moves by descriptors, and this kernel has TMA copies",
                   "write tlx.async_amd_descriptor_load and tlx.async_amd_descriptor_store for these, too, or do without the mover")
        if any(isinstance(value.type, Descriptor) for value in (*op.operands, *op.results)):
            refuse(self.target, op.site, f"'{op.row.word}' cannot take one or pass one on",
                   "copy by a descriptor of its own in each branch")
        copied = op.with_blocks(self.block)
        self.builder.copy(copied, copied.args)

    def box(self, op: Op, shape: tuple[int, ...]) -> Box:
        picks = "rows" in op.row.places
        offsets = (op.column, ) if picks else op.offsets
        now = self.builder.now
        return Box(self.builder, self.parts[op.descriptor], now(offsets), shape, op.site, now(op.rows) if picks else None)

    # ---- descriptors ------------------------------------------------------------------------------------------------

    def make_tensor_descriptor(self, op: Op) -> None:
        self.parts[op.result] = made_parts(op, self.builder.now)

    def fill_descriptor_slot(self, op: Op) -> None:
        self.make_tensor_descriptor(op)

    def tma_prefetch(self, op: Op) -> None:
        """A hint."""

    prefetch_descriptor = tma_prefetch

    # ---- copies into shared memory ----------------------------------------------------------------------------------

    def fetch(self, run: list[Op]) -> None:
        """Copies that follow each other."""
        if not run:
            return
        buffers = [self.builder.now(op.buffer) for op in run]
        boxes = [self.box(op, op.buffer.type.shape) for op in run]

        def direct() -> tuple:
            for op, buffer, box in zip(run, buffers, boxes):
                self.builder.emit("async_load", (box.pointers(), buffer, box.row_mask(), None, _PLAIN, False), op.site,
                                  of_copy=True)
            self.builder.emit("async_commit", ((), ), run[-1].site, of_copy=True)
            self.builder.emit("async_wait", (0, ()), run[-1].site, of_copy=True)
            return ()

        def by_registers() -> tuple:
            for op, buffer, box in zip(run, buffers, boxes):
                self.builder.emit("local_store", (buffer, self.padded(box)), op.site)
            return ()

        self.either(run[0], boxes, direct, by_registers, in_tensor=True)

    def descriptor_load(self, op: Op) -> None:
        box = self.box(op, op.result.type.shape)
        args = (_PLAIN, False) if box.rows is None else (box.row_mask(), box.padding(), _PLAIN, False)
        load = "load" if box.rows is None else "masked_load"

        def whole() -> tuple:
            return (self.builder.emit(load, (box.pointers(), *args), op.site), )

        self.builder.env[op.result], = self.either(op, [box], whole, lambda: (self.padded(box), ), (op.result.type, ))

    descriptor_gather = descriptor_load

    def padded(self, box: Box) -> Value:
        """The block as a tile, with what the descriptor says outside of the tensor."""
        return self.builder.emit("masked_load", (box.pointers(), box.mask(), box.padding(), _PLAIN, False), box.site)

    # ---- copies to global memory ------------------------------------------------------------------------------------

    def tma_store(self, op: Op) -> None:
        tile = self.builder.emit("local_load", (self.builder.now(op.buffer), None), op.site, layout=None)
        if "reduce" in op.row.places and op.reduce:
            self.reduce(op, op.reduce, tile)
        else:
            self.write(op, tile)

    tma_scatter = tma_store

    def descriptor_store(self, op: Op) -> None:
        self.write(op, self.builder.now(op.value))

    descriptor_scatter = descriptor_store

    def descriptor_reduce(self, op: Op) -> None:
        self.reduce(op, getattr(op.kind, "name", str(op.kind)), self.builder.now(op.value))

    def reduce(self, op: Op, kind: str, tile: Value) -> None:
        """An atomic for each element, ordered to nothing, as of TMA."""
        name, element = kind.upper(), tile.type.element
        if element.is_float and name != "ADD":
            refuse(self.target, op.site, f"no atomic gives the {kind} of {element}",
                   "reduce a tile by tl.atomic_max or tl.atomic_min")
        if name in _ORDERED and not self.parts[op.descriptor].type.signed:
            name = f"U{name}"
        box = self.box(op, tile.type.shape)
        args = "FADD" if element.is_float else name, box.pointers(), tile, box.mask(), "RELAXED", "GPU"
        self.builder.emit("atomic_rmw", args, op.site)

    def tma_store_wait(self, op: Op) -> None:
        """The stores are the task's own, in order."""

    def write(self, op: Op, tile: Value) -> None:
        box = self.box(op, tile.type.shape)

        def whole() -> tuple:
            if (mask := box.row_mask()) is None:
                self.builder.emit("store", (box.pointers(), tile, _PLAIN), op.site)
            else:
                self.builder.emit("masked_store", (box.pointers(), tile, mask, _PLAIN), op.site)
            return ()

        def cut() -> tuple:
            self.builder.emit("masked_store", (box.pointers(), tile, box.mask(), _PLAIN), op.site)
            return ()

        self.either(op, [box], whole, cut)

    # ---- branches ---------------------------------------------------------------------------------------------------

    def either(self, op: Op, boxes: list[Box], whole: Callable[[], tuple], cut: Callable[[], tuple],
               types: tuple[Type, ...] = (), **attrs) -> tuple[Value, ...]:
        """The values of `whole` where all blocks lie in their tensors, and those of `cut` elsewhere."""
        builder = self.builder
        condition = boxes[0].inside
        for box in boxes[1:]:
            condition = builder.emit("and", (condition, box.inside), op.site)
        builder.site = op.site
        branch = builder.place("if", condition, types, **attrs)
        for part in (whole, cut):
            with builder.inside(branch):
                builder.emit("yield", (part(), ), op.site)
        return branch.results
