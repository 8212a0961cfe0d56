"""`tl.dot` of tiles that were loaded from shared memory: the tensor core reads them there.

Input: a program and its target. Output: the program with such dots as `async_dot` of the buffers, each with a wait
before anything that could notice. For example:

    k = tl.load(local_ptr(slot.k))             the buffer is read here ..
    s = tl.dot(q, tl.trans(k))                 .. through a transposed view; waits may follow, arrivals may not
    o = tl.dot(p, k)                           .. and here as it is: one buffer, no copy

Where the shapes, the types or the task's warps do not suit wgmma, the dot stays what it is. A tile may be read later
than it was loaded, and by several products, plain and transposed, as long as nothing can have written the buffer since.
The task itself has not if none of its ops between is about that memory. Another task has not if the task released
nothing between: a write that comes after the load comes after a release that follows the load, and so after the
product, too.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import LayoutConflict
from ...ir import Block, Builder, Op, Program, Value
from ...target import Target
from ..analysis.uses import uses_of
from ..constraints.views import find_views
from ..constraints.wgmma import accumulator_layout
from .accumulate_dots import is_zero

_ACCUMULATORS = {"fp16": ("fp16", "fp32"), "bf16": ("fp32", ), "fp8e5": ("fp32", ), "fp8e4nv": ("fp32", ), "fp32": ("fp32", ),
                 "i8": ("i32", )}
_HARMLESS = frozenset(("pure", "read", "debug"))


def shared_operands(program: Program, target: Target) -> Program:
    """The program with such dots as `async_dot` and `async_dot_wait`."""
    if not target.has("wgmma") or not program.named("dot"):
        return program
    rewriter = _Rewriter(program)
    if not rewriter.found:
        return program
    return replace(program, body=rewriter.block(program.body))


class _Rewriter:
    """Rebuilds blocks. `found` has the operands of each dot that changes: buffers, how they are transposed, or a tile for A."""

    def __init__(self, program: Program):
        self.program, self.uses, self.writer = program, uses_of(program), Builder()
        self.pending: dict[Value, Op] = {}
        self.views = find_views(program)
        self.unfenced = self._unfenced()
        self.found = {op: operands for op in self.uses.ops if op.name == "dot" and (operands := self._operands(op)) is not None}

    def _unfenced(self) -> dict[Value, set]:
        """The writers of the allocation behind every view: the tasks that write it whole, and "picked" if a task writes it
        element by element or from another CTA."""
        views = self.views
        flat = {op.result: op.buffer for op in self.uses.ops if op.row.view == "flat"}
        writers: dict[Value, set] = {}
        for op in self.uses.ops:
            if any(access in ("write", "peer-write") for operand, access in op.row.touches if operand in op.row.writes):
                picked = _unseen(op)
                for value in op.operands:
                    for view in views.get(flat.get(value, value), ()):
                        writers.setdefault(view.alloc, set()).add("picked" if picked else self.uses.task(op))
        return {value: set().union(*(writers.get(view.alloc, set()) for view in seen)) for value, seen in views.items()}

    # ---- which dots -------------------------------------------------------------------------------------------------

    def _operands(self, op: Op) -> tuple | None:
        a, b, acc, precision = op.a, op.b, op.acc, op.precision
        element = a.type.element
        if len(a.type.shape) != 2 or b.type.element != element or acc.type.element.name not in _ACCUMULATORS.get(element.name, ()):
            return None
        if element.name == "fp32" and getattr(precision, "name", str(precision)).upper() != "TF32":
            return None
        task = self.uses.task(op)
        try:
            accumulator_layout(acc.type, element, a.type.shape[1], task.num_warps if task else self.program.num_warps, op.site)
        except LayoutConflict:
            return None
        left, right = self._shared(a, op), self._shared(b, op)
        if right is None or element.bits != 16 and (not right[1] or left is None or left[1]):
            return None  # narrow and wide elements are read along K only
        return left or a, right

    def _shared(self, value: Value, dot: Op) -> tuple[Value, bool] | None:
        """The buffer that a tile was loaded from, and whether it was transposed since; None if it may have changed since."""
        op, transposed = self.uses.definition.get(value), False
        if op is not None and op.name == "trans" and tuple(op.order) == (1, 0):
            op, transposed = self.uses.definition.get(op.value), True
        if op is None or op.name != "local_load" or op.attrs.get("layout") is not None:
            return None
        place, product = self.uses.place[op], self.uses.place[dot]
        if place.block is not product.block:
            return None
        start, end, memory = place.block.ops.index(op), place.block.ops.index(dot), self._memory(op.buffer)
        calm = all(_tells_nobody(inner) and (_is_harmless(inner) or self._memory(*inner.operands).isdisjoint(memory))
                   for other in place.block.ops[start + 1:end] for inner in other.walk())
        return (op.buffer, transposed) if calm and memory else None

    def _memory(self, *values: Value) -> set[Value]:
        """The allocations, or the storages that several share, that these values may be parts of."""
        found = set()
        for value in values:
            for view in self.views.get(value, ()):
                root = view.alloc
                while (op := self.uses.definition.get(root)) is not None and op.viewed is not None:
                    root = op.viewed
                found.add(root)
        return found

    # ---- the new program --------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Block:
        outside, self.pending = (self.writer.open(), self.pending), {}
        for op in block.ops:
            if op in self.found:
                self._dot(op)
                continue
            if not self.pending.keys().isdisjoint(op.operands) or not _is_harmless(op):
                self._wait()
            blocks = tuple(self.block(inner) for inner in op.blocks)
            self.writer.ops.append(replace(op, args=self.writer.now(op.args), blocks=blocks))
        ops, self.pending = self.writer.close(outside[0]), outside[1]
        return Block(block.args, ops)

    def _dot(self, op: Op) -> None:
        writer, (left, right) = self.writer, self.found[op]
        acc, precision, imprecise = op.acc, op.precision, op.max_imprecise
        goes_on = acc in self.pending and len(self.uses.of(acc)) == 1 and self.pending.keys().isdisjoint((op.a, op.b))
        if self.pending and not goes_on:
            self._wait()
        buffers = [self._buffer(side, op) if isinstance(side, tuple) else writer.now(side) for side in (left, right)]
        task = self.uses.task(op)
        if any(self.unfenced.get(side[0], set()) - {task} for side in (left, right) if isinstance(side, tuple)):
            writer.emit("fence", ("async_shared", ), op.site)
        start = None if is_zero(acc, self.uses.definition) else writer.now(acc)
        writer.env[op.result] = writer.emit("async_dot", (*buffers, start, precision, imprecise), op.site, label=op.result.name,
                                            type=op.result.type)
        self.pending.pop(acc, None)
        self.pending[op.result] = op

    def _buffer(self, side: tuple[Value, bool], op: Op) -> Value:
        buffer, transposed = self.writer.now(side[0]), side[1]
        return self.writer.emit("buffer_trans", (buffer, (1, 0)), op.site) if transposed else buffer

    def _wait(self) -> None:
        for value, dot in self.pending.items():
            self.writer.env[value] = self.writer.emit("async_dot_wait", (0, self.writer.env[value]), dot.site, label=value.name)
        self.pending = {}


def _unseen(op: Op) -> bool:
    """True if an op writes a buffer so that Triton does not see the write: element by element, under a mask, or in another
    CTA. Triton fences writes of whole buffers by the product's own task."""
    return "whole" not in op.row.traits or op.name == "local_store" and op.mask is not None


def _tells_nobody(op: Op) -> bool:
    """True if no other task can learn by this op what this task has done: it does not synchronise, but for waiting, and is
    neither an atomic access nor assembly nor what completes on a barrier."""
    row = op.row
    if "wait" in row.effects or row.effects == {"control"} or _is_harmless(op):
        return True
    known = row.ours or row.layout in ("memory", "dot", "none")
    return known and not row.releases and not row.effects & {"sync", "control"} and {"order", "barrier"}.isdisjoint(row.params)


def _is_harmless(op: Op) -> bool:
    """True if the op changes no memory and orders nothing."""
    effects = op.row.effects
    return "pure" in effects or effects <= _HARMLESS
