"""A slice of a program as the body of a task: its ops on new values, and a counter that goes round for each pipe.

Input: a plain program, the slice that a task runs, and the rings. Output: the ops of the task. For example, of a producer's slice:

    for k: x = a.load(..); acc = dot(..)        chunk = 0; for k: [fill the ring of x]; chunk += 1

`Rebuild` keeps the `for`, `if` and `while` around what a task has, with what it takes of what they carry. What a task does at
its loads, its products and its stores say `producer.py` and `consumer.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...ir import I32, Block, Builder, Op, Program, Value
from ...ir.flow import loop_carries, terminator
from ..analysis.slices import Slice
from ..analysis.uses import uses_of
from .rings import Ring, Rings


class Rebuild:
    """Writes one task's ops. `env` has the new values of the old ones; `counters` the number of the next chunk of each pipe."""

    def __init__(self, program: Program, needs: Slice, rings: Rings, env: Mapping[Value, Value]):
        self.uses, self.needs, self.rings = uses_of(program), needs, rings
        self.writer = Builder(program.site)
        self.writer.env.update(env)
        self.env, self.now = self.writer.env, self.writer.now
        self.counters: dict[Any, Value] = {}
        self.entered: dict[Any, Value] = {}        # the counter in front of the loop that is being written
        self.ring_of = {load: ring for ring in rings.rings for load in ring.loads}

    # ---- what a task does of its own -----------------------------------------------------------------------------------

    def chunk(self, ring: Ring) -> None:
        """All loads of a ring, at the last of them."""
        raise NotImplementedError

    def own(self, op: Op) -> bool:
        """Write an op that becomes something else in this task; False for all others."""
        return False

    def takes(self, op: Op) -> bool:
        """True if the task has something to do at an op."""
        return op in self.needs.ops

    def before(self, op: Op | None) -> None:
        """In front of each op, and at the end of each block, which is None."""

    def behind(self, loop: Op, results: dict[Value, Value]) -> None:
        """Behind a loop; `results` has the new results."""

    def enter(self, place: Op | Block) -> None:
        """The beginning of a block, and of each op, behind `before`."""

    def leave(self, op: Op) -> None:
        """Behind each op."""

    def bounds(self, loop: Op) -> tuple[Value, ...]:
        """Start, end and step of a `for` loop."""
        return self.now((loop.start, loop.end, loop.step))

    def last(self, loop: Op) -> None:
        """At the end of a round of a `for` loop."""

    # ---- values ----------------------------------------------------------------------------------------------------------

    def type(self, value: Value):
        """The type of what stands for a value."""
        return value.type

    def fresh(self, values: Iterable[Value]) -> tuple[Value, ...]:
        """New values for old ones."""
        values = tuple(values)
        made = tuple(Value(self.type(value), value.name) for value in values)
        self.env.update(zip(values, made))
        return made

    # ---- blocks ----------------------------------------------------------------------------------------------------------

    def written(self, body: Block) -> tuple[Op, ...]:
        """The ops of the task."""
        outside = self.writer.open()
        for one in self.numbered():
            self.counters[one] = self.writer.constant(0, I32)
        self.begin()
        self._ops(body)
        self.end()
        return self.writer.close(outside)

    def numbered(self) -> list[Any]:
        """All that the task counts: the chunks of each pipe."""
        return self.rings.roots

    def place(self, ring: Ring) -> Op:
        """The load at which a chunk is handed over: the last one, behind what the addresses of all take."""
        return ring.loads[-1]

    def begin(self) -> None:
        """At the beginning of the task."""

    def end(self) -> None:
        """At the end of the task."""

    def _ops(self, block: Block) -> None:
        self.enter(block)
        for op in block.ops:
            ring = self.ring_of.get(op)
            if op is self.place(ring) if ring is not None else self.takes(op) and "terminator" not in op.row.traits:
                self.before(op)
                self.enter(op)
                if ring is not None:
                    self.chunk(ring)
                elif op.row.hands_on:
                    self._with_regions(op)
                elif not self.own(op):
                    self.copy(op)
                self.leave(op)
        self.before(None)

    def copy(self, op: Op) -> None:
        """The op as it is, on the new values."""
        args, blocks = self.now(op.args), tuple(self._whole(block) for block in op.blocks)
        self.writer.ops.append(Op(op.name, args, self.fresh(op.results), blocks, op.attrs, op.site))

    def _whole(self, block: Block) -> Block:
        """The block of a reduction or a scan."""
        args, outside = tuple(Value(arg.type, arg.name) for arg in block.args), self.writer.open()
        self.env.update(zip(block.args, args))
        for op in block.ops:
            inner = tuple(map(self._whole, op.blocks))
            self.writer.ops.append(Op(op.name, self.now(op.args), self._plain(op), inner, op.attrs, op.site))
        return Block(args, self.writer.close(outside))

    def _plain(self, op: Op) -> tuple[Value, ...]:
        made = tuple(Value(value.type, value.name) for value in op.results)
        self.env.update(zip(op.results, made))
        return made

    # ---- loops and branches ------------------------------------------------------------------------------------------------

    def inside(self, op: Op) -> list[Any]:
        """What is counted inside of an op: the chunks of the pipes that are used there."""
        inner = set(op.walk())
        return list(dict.fromkeys(ring.root for ring in self.rings.rings if ring.loads[-1] in inner))

    def _numbers(self, pipes: list[Any]) -> tuple[Value, ...]:
        return tuple(self.counters[ring] for ring in pipes)

    def _count_from(self, pipes: list[Any]) -> tuple[Value, ...]:
        """New counters for these pipes, and whatever else is counted."""
        made = tuple(Value(I32, "chunk" if isinstance(one, Ring) else one.name) for one in pipes)
        self.counters.update(zip(pipes, made))
        return made

    def _yield(self, values: tuple[Value, ...], pipes: list[Any], site) -> None:
        self.writer.emit("yield", ((*self.now(values), *self._numbers(pipes)), ), site)

    def _with_regions(self, op: Op) -> None:
        if "branch" in op.row.traits:
            self._if(op)
        elif op.name == "for":
            self._for(op)
        else:
            self._while(op)

    def _for(self, op: Op) -> None:
        carried = [one for one in loop_carries(op) if one.argument in self.needs.values or one.result in self.needs.values]
        pipes, body = self.inside(op), op.blocks[0]
        head = (*self.bounds(op), (*self.now(tuple(one.init for one in carried)), *self._numbers(pipes)))
        entered, self.entered = self.entered, self.entered | {ring: self.counters[ring] for ring in pipes}
        args = (*self.fresh((body.args[0], *(one.argument for one in carried))), *self._count_from(pipes))
        outside = self.writer.open()
        self._ops(body)
        self.last(op)
        self._yield(tuple(one.after for one in carried), pipes, op.site)
        block = Block(args, self.writer.close(outside))
        results = (*self.fresh(one.result for one in carried), *self._count_from(pipes))
        self.writer.ops.append(Op("for", head, results, (block, ), op.attrs, op.site))
        self.behind(op, {one.after: one.result for one in carried})
        self.entered = entered

    def _if(self, op: Op) -> None:
        kept = [index for index, result in enumerate(op.results) if result in self.needs.values]
        pipes, blocks, start = self.inside(op), [], dict(self.counters)
        condition = self.now(op.condition)
        for block in op.blocks:
            self.counters = dict(start)
            outside = self.writer.open()
            self._ops(block)
            self._yield(tuple(block.yielded[index] for index in kept), pipes, op.site)
            blocks.append(Block((), self.writer.close(outside)))
        self.counters = dict(start)
        results = (*self.fresh(op.results[index] for index in kept), *self._count_from(pipes))
        self.writer.ops.append(Op("if", (condition, tuple(one.type for one in results)), results, tuple(blocks), op.attrs, op.site))

    def _while(self, op: Op) -> None:
        """All of what a `while` carries, or nothing of it (`Slice`)."""
        first, second = op.blocks
        every = any(value in self.needs.values for value in (*first.args, *second.args, *op.results))
        pipes, last = self.inside(op), terminator(first)
        inits = (*(self.now(tuple(op.inits)) if every else ()), *self._numbers(pipes))
        blocks = []
        for block in op.blocks:
            args = (*self.fresh(block.args if every else ()), *self._count_from(pipes))
            outside = self.writer.open()
            self._ops(block)
            if block is first:
                values = (*(self.now(tuple(last.values)) if every else ()), *self._numbers(pipes))
                self.writer.emit("condition", (self.now(last.condition), values), op.site)
            else:
                self._yield(tuple(block.yielded) if every else (), pipes, op.site)
            blocks.append(Block(args, self.writer.close(outside)))
        results = (*self.fresh(op.results if every else ()), *self._count_from(pipes))
        self.writer.ops.append(Op("while", (inits, ), results, tuple(blocks), op.attrs, op.site))

    # ---- pipes -------------------------------------------------------------------------------------------------------------

    def views(self, ring: Ring) -> tuple[Value, ...]:
        """New values for the buffers of a slot, one a load."""
        return tuple(Value(slot, load.result.name) for slot, load in zip(ring.root.pipe.type.slots, ring.loads))

    def next_chunk(self, ring: Ring, site) -> None:
        """The counter goes on."""
        self.counters[ring.root] = self.writer.by_constant("add", self.counters[ring.root], 1, site)

    def word(self, name: str, args: tuple, results: tuple[Value, ...], site, **attrs: Any) -> None:
        """An op on a pipe, whose results are made already."""
        self.writer.ops.append(Op(name, args, results, attrs=MappingProxyType(attrs), site=site))
