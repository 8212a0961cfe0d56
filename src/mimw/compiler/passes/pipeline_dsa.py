"""Loops of `tle.dsa.pipeline`: copies into buffers run ahead of the trip that uses them.

Input: a program and its target. Output: the same with rings of buffers, filled by copies that finish later. For example, of two
stages, in short:

    for %i ..                                   %r = local_alloc buffer<fp32[64] x 2 in ub>;  dsa_fetch first trip -> %r[0];  commit
      dsa_load %p(%i), %a, [64]                 for %i ..
      dsa_binary 'add', %a, %a, %b                async_wait;  dsa_fetch %p(%i + step) -> %r[other], if it is a trip;  commit
                                                  dsa_binary 'add', %r[this], %r[this], %b

The addresses of a later trip are computed by the same ops again, on a later number of the loop, and on carried values that run
ahead of the loop's own. The fetched slot replaces the buffer, if the result is the same; else it is moved to the buffer where the
copy stood, with the elements outside of its box kept. A loop in which nothing can run ahead stays as it is, and its attribute
`alone` says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from ...ir import I32, Block, Buffer, Builder, Op, Program, Value
from ...ir.flow import bounds
from ...target import Target
from ..analysis.order import STAGES
from ..analysis.uses import uses_of
from .ahead import Ahead, run_ahead, why_in_order
from .dsa_tiles import covers, nobody_sees_the_rest

DEFAULT_STAGES = 2


def pipeline_dsa(program: Program, target: Target) -> Program:
    """The program with its loops of `tle.dsa` pipelined; the same object if there are none."""
    if not any("dsa" in op.attrs for op in program.named("for")):
        return program
    rewriter = _Rewriter(program, target)
    body = rewriter.block(program.body)
    return replace(program, body=_without(body, rewriter.replaced))


def _without(block: Block, replaced: set[Value]) -> Block:
    """The block without the allocations of buffers that are slots of rings now."""
    kept = (op for op in block.ops if not (op.row.allocates and op.result in replaced))
    return block.with_ops(op.with_blocks(lambda inner: _without(inner, replaced)) for op in kept)


@dataclass(frozen=True)
class _Ring:
    """A copy that runs ahead: the array of buffers that it fills, and whether the author's buffer is one of these now."""

    copy: Op
    array: Value
    is_the_buffer: bool


class _Rewriter:
    """Rebuilds blocks. `writer.env` holds what each value of the old program is in the new one, where that differs."""

    def __init__(self, program: Program, target: Target):
        self.writer, self.uses, self.target = Builder(), uses_of(program), target
        self.replaced: set[Value] = set()       # the author's buffers that are slots of rings

    def block(self, block: Block) -> Block:
        outside = self.writer.open()
        for op in block.ops:
            self.op(op)
        return Block(block.args, self.writer.close(outside))

    def op(self, op: Op) -> None:
        if op.name == "for" and "dsa" in op.attrs and any(one.name == "dsa_load" for one in op.walk()):
            self.loop(op)
        elif op.blocks:
            self.rebuilt(op)
        else:
            self.writer.copy(op, op.args)

    def rebuilt(self, op: Op, **attrs) -> None:
        args = self.writer.now(op.args)
        blocks = tuple(self.block(block) for block in op.blocks)
        op = replace(op, args=args, blocks=blocks)
        self.writer.ops.append(op.with_attrs(**attrs) if attrs else op)

    def loop(self, op: Op) -> None:
        stages = op.attrs.get(STAGES) or (DEFAULT_STAGES if op.attrs["dsa"] == "pipeline" else 1)
        copies, reasons = [], []
        for copy in (one for one in op.blocks[0].ops if one.name == "dsa_load"):
            why = why_in_order(self.uses, op, copy, self.target)
            (reasons if why else copies).append(why or copy)
        if stages < 2 or not copies:
            why = {"alone": reasons[0] if reasons else "its copies stand under an `if` or in a loop inside"} if stages > 1 else {}
            self.rebuilt(op, **{STAGES: 0}, **why)
            return
        self.pipelined(op, copies, stages, reasons)

    # ---- a loop whose copies run ahead ------------------------------------------------------------------------------

    def pipelined(self, op: Op, copies: list[Op], stages: int, reasons: list[str]) -> None:
        writer, site, ahead = self.writer, op.site, run_ahead(self.uses, op, copies)
        rings = [_Ring(copy, self.ring(copy, stages), self.is_the_buffer(op, copy)) for copy in copies]
        start, end, step = writer.now(tuple(bounds(op)))
        carried = {arg: writer.now(init) for arg, init in zip(op.blocks[0].args[1:], op.inits) if arg in ahead.carried}
        trip = start
        for stage in range(stages - 1):
            env = {op.blocks[0].args[0]: trip, **carried}
            self.fetch(rings, ahead, env, writer.constant(stage, I32, site), end)
            carried = ahead.next(writer, env)
            trip = writer.emit("add", (trip, step), site)
        inits = (*writer.now(op.inits), writer.constant(0, I32, site), writer.constant(stages - 1, I32, site), *carried.values())
        extra = tuple(Value(init.type) for init in inits[len(op.inits):])
        block = self.body(op, rings, ahead, stages, extra, end, step)
        results = (*op.results, *(Value(one.type) for one in extra))
        attrs = {**op.attrs, STAGES: 0, "ahead": stages - 1, **({"alone": reasons[0]} if reasons else {})}
        writer.ops.append(Op(op.name, (start, end, step, inits), results, (block, ), MappingProxyType(attrs), site))
        writer.emit("async_wait", (0, ()), site)    # groups of trips that there are not: nothing is under way, and that is known
        for ring in rings:
            writer.emit("local_free", (ring.array, ), site)

    def body(self, op: Op, rings: list[_Ring], ahead: Ahead, stages: int, extra: tuple[Value, ...], end: Value,
             step: Value) -> Block:
        (block, ), writer, site = op.blocks, self.writer, op.site
        slot, later_slot, *later = extra
        outside = writer.open()
        writer.emit("async_wait", (stages - 2, ()), site)
        trip = writer.emit("add", (block.args[0], writer.scaled(step, stages - 1, site)), site)
        env = {block.args[0]: trip, **dict(zip(ahead.carried, later))}
        product = self.product(op, stages)
        if product is None:
            self.fetch(rings, ahead, env, later_slot, end)
        views = {ring.copy: writer.emit("buffer_index", (ring.array, slot), ring.copy.site, label=ring.copy.buffer.name)
                 for ring in rings}
        for ring in rings:
            if ring.is_the_buffer:
                writer.env[ring.copy.buffer] = views[ring.copy]
        self.replaced.update(ring.copy.buffer for ring in rings if ring.is_the_buffer)
        moved = {ring.copy for ring in rings if not ring.is_the_buffer}
        for inner in block.ops:
            if "terminator" in inner.row.traits:
                continue
            if inner in moved:
                writer.emit("dsa_move", (views[inner], *writer.now((inner.buffer, inner.extents))), inner.site)
            elif inner not in views:
                self.op(inner)
            if inner is product:
                self.fetch(rings, ahead, env, later_slot, end)
        following = (self.following(slot, stages, op), self.following(later_slot, stages, op), *ahead.next(writer, env).values())
        writer.emit("yield", ((*writer.now(block.yielded), *following), ), site)
        return Block((*block.args, *extra), writer.close(outside))

    def product(self, op: Op, stages: int) -> Op | None:
        """The loop's product, if copies had better be started behind it: then it can run on into the next trip (`trail_dots`)."""
        products = [one for one in op.walk() if "dot" in one.row.traits]
        trails = self.target.has("wgmma") and stages > 2 and len(products) == 1 and products[0] in op.blocks[0].ops
        return products[0] if trails else None

    def fetch(self, rings: list[_Ring], ahead: Ahead, env: dict[Value, Value], slot: Value, end: Value) -> None:
        """The copies of the trip whose number is first in `env`, if it is one of the loop's, as one group."""
        writer, tokens, site = self.writer, [], rings[0].copy.site
        trip = next(iter(env.values()))
        happens = writer.emit("icmpSLT", (trip, end), site)
        values = ahead.values(writer, env)
        for ring in rings:
            copy = ring.copy
            view = writer.emit("buffer_index", (ring.array, slot), copy.site)
            pointer, extents = (_in(values, writer, arg) for arg in (copy.pointer, copy.extents))
            tokens.append(writer.emit("dsa_fetch", (pointer, view, extents, happens), copy.site))
        writer.emit("async_commit", (tuple(tokens), ), site)

    def following(self, slot: Value, stages: int, op: Op) -> Value:
        """The slot after `slot` in a ring."""
        after = self.writer.by_constant("add", slot, 1, op.site)
        around = self.writer.by_constant("icmpEQ", after, stages, op.site)
        return self.writer.emit("select", (around, self.writer.constant(0, I32, op.site), after), op.site)

    def ring(self, copy: Op, stages: int) -> Value:
        type_ = copy.buffer.type
        array = Buffer(type_.element, type_.shape, stages, type_.space)
        return self.writer.emit("local_alloc", (array, None), copy.site, layout=None, label=copy.buffer.name)

    def is_the_buffer(self, loop: Op, copy: Op) -> bool:
        """True if a slot of the ring can replace the author's buffer: it is only used in the loop, in each trip from the
        copy on, and no element comes to a trip from the trip before."""
        made = self.uses.definition.get(copy.buffer)
        if made is None or not made.row.allocates or made.result.type.count:
            return False
        inside, order = set(loop.walk()), self.uses.position
        for use in self.uses.of(copy.buffer):
            if use.op not in inside or use.op.row.hands_over or order[use.op] < order[copy]:
                return False
        return covers(copy) or self.uses.place[made].block is loop.blocks[0] or nobody_sees_the_rest(self.uses, loop, copy)


def _in(values: dict[Value, Value], writer: Builder, arg):
    if isinstance(arg, tuple):
        return tuple(_in(values, writer, item) for item in arg)
    return values.get(arg) or writer.now(arg) if isinstance(arg, Value) else arg
