"""Some trips of a loop at a time, each with its product started before what the trip before does with its own: plain to plain.

Input: a plain program, and how many trips. Output: `Together`: the program, in which such loops are two, and a remark for each. For
example, of three trips:

    for k: x = a[k]; s = dot(x, b[k]); acc += s * scale[k]                      becomes

    for k by threes: s0 = dot(..); s1 = dot(..); acc += s0 * ..; s2 = dot(..); acc += s1 * ..; acc += s2 * ..
    for k that are left: s = dot(..); acc += s * ..

A product whose result its own trip takes is waited for with nothing under way: what is computed of it then runs beside no product
of the same task. Here it runs beside the next trip's. All products of a body end in it, since ptxas serialises those in flight over
the end of a loop (its message C7514). The order in which sums are added stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...ir import Block, Builder, Op, Program, Value
from ...ir.flow import bounds, terminator
from ..analysis.constants import constant_of
from ..analysis.remarks import Remark
from ..analysis.uses import uses_of
from .memory_order import acquires

_MAY_MOVE = frozenset(("pure", "read", "debug"))


@dataclass(frozen=True)
class Together:
    """`program` with `count` trips together where that is possible, and what is said of its loops. `settled` are the ops whose
    results a trip hands on to the next one of its group, which are to be there before another product is waited for: ptxas keeps
    several products in registers otherwise, and spills."""

    program: Program
    remarks: tuple[Remark, ...] = ()
    settled: frozenset[Op] = frozenset()


def may_go_together(program: Program) -> bool:
    """True if a loop has a product whose result its own trip takes, and nothing else that keeps trips in order."""
    return any(_behind(program, loop) is not None for loop in program.named("for"))


def together(program: Program, count: int) -> Together:
    """The program with so many trips together in each loop with one product that its trip waits for; itself if there is none."""
    every = {loop: _behind(program, loop) for loop in program.named("for")}
    found = {loop: behind for loop, behind in every.items() if behind is not None}
    if not found or count < 2:
        return Together(program)
    writer = _Writer(program, found, count)
    body = writer.block(program.body)
    said = f"{count} trips are done together, each product beside what the trip before does with its own"
    remarks = tuple(Remark(said, loop.site) for loop in found)
    return Together(replace(program, body=body), remarks, frozenset(writer.settled))


@dataclass(frozen=True)
class _Behind:
    """The ops of a body that follow from its `product`, also by way of what the loop carries, and all such values."""

    product: Op
    ops: set[Op]
    values: set[Value]


def _behind(program: Program, loop: Op) -> _Behind | None:
    """The ops and values that follow from a loop's product; None of a loop that stays as it is."""
    uses, body = uses_of(program), loop.blocks[0]
    dots = [op for op in body.ops if "dot" in op.row.traits]
    if len(dots) != 1 or dots[0].name != "dot" or (constant_of(uses, loop.step) or 0) <= 0:
        return None
    if any(not op.row.effects <= _MAY_MOVE and "terminator" not in op.row.traits or op.row.hands_on or acquires(op)
           for op in body.ops):
        return None
    late: set[Value] = {dots[0].result}
    behind: set[Op] = set()
    while True:
        before = len(late)
        late |= {argument for argument, value in zip(body.args[1:], body.yielded) if value in late}
        for op in body.ops:
            if op is not dots[0] and "terminator" not in op.row.traits and any(value in late for value in _operands(op)):
                behind.add(op)
                late.update(op.results)
        if len(late) == before:
            break
    if any(value in late for value in dots[0].operands) or dots[0].result in body.yielded or not behind:
        return None
    return _Behind(dots[0], behind, late)


def _operands(op: Op) -> Iterator[Value]:
    return (value for one in op.walk() for value in one.operands)


class _Writer:

    def __init__(self, program: Program, found: dict[Op, _Behind], count: int):
        self.found, self.count, self.b, self.uses = found, count, Builder(program.site), uses_of(program)
        self.settled: set[Op] = set()

    def block(self, block: Block) -> Block:
        return self.b.anew(block, self.found, lambda loop: self._loop(loop, self.found[loop]))

    def _loop(self, loop: Op, behind: _Behind) -> None:
        """The loop of whole groups of trips, and that of the trips that are left."""
        b, body = self.b, loop.blocks[0]
        start, end, step = bounds(loop)
        stride = self.count * constant_of(self.uses, step)
        b.site = loop.site
        span = b.emit("sub", (b.emit("maxsi", (end, start)), start))
        groups = b.emit("sdiv", (span, b.constant(stride, span.type)))
        middle = b.emit("add", (start, b.by_constant("mul", groups, stride)))
        inits = self._for(loop, (start, middle, b.constant(stride, start.type)), loop.inits, behind)
        args = tuple(Value(one.type, one.name) for one in body.args)
        outside, env = b.open(), dict(zip(body.args, args))
        for op in body.ops:
            self._clone(op, env)
        rest = Block(args, b.close(outside))
        b.ops.append(Op("for", (middle, end, step, inits), loop.results, (rest, ), loop.attrs, loop.site))

    def _for(self, loop: Op, extent: tuple[Value, ...], inits: tuple[Value, ...], behind: _Behind) -> tuple[Value, ...]:
        """The loop of groups; its results. `carried` has what the next trip finds in place of the body's arguments."""
        b, body, last = self.b, loop.blocks[0], terminator(loop.blocks[0])
        handed = list(zip(body.args[1:], body.yielded))
        early = [op for op in body.ops if op not in behind.ops and op is not last]
        needs = self._needs(behind.product, early)
        args = tuple(Value(one.type, one.name) for one in body.args)
        outside, carried = b.open(), dict(zip(body.args[1:], args[1:]))
        before: dict[Value, Value] | None = None
        for trip in range(self.count):
            b.site = loop.site
            counter = args[0] if not trip else b.by_constant("add", args[0], trip * constant_of(self.uses, loop.step))
            env = {**carried, body.args[0]: counter}
            for op in (*(op for op in early if op in needs), *(op for op in early if op not in needs)):
                self._clone(op, env)
            if before is not None:
                self._late(body, behind, before, carried)
            carried |= {argument: _now(env, value) for argument, value in handed if value not in behind.values}
            before = env
        self._late(body, behind, before, carried)
        b.emit("yield", (tuple(carried[argument] for argument in body.args[1:]), ), last.site)
        results = tuple(Value(one.type, one.name) for one in loop.results)
        groups = Block(args, b.close(outside))
        b.ops.append(Op("for", (*extent, inits), results, (groups, ), loop.attrs, loop.site))
        return results

    def _late(self, body: Block, behind: _Behind, env: dict[Value, Value], carried: dict[Value, Value]) -> None:
        """Write the ops that follow from a trip's product; `carried` then has their results."""
        env |= {argument: carried[argument] for argument in body.args[1:] if argument in behind.values}
        handed = {value for value in body.yielded if value in behind.values}
        for op in body.ops:
            if op in behind.ops:
                self._clone(op, env)
                if not handed.isdisjoint(op.results):
                    self.settled.add(self.b.ops[-1])
        carried |= {argument: env[value] for argument, value in zip(body.args[1:], body.yielded) if value in behind.values}

    def _needs(self, dot: Op, ops: list[Op]) -> set[Op]:
        """The product, and the ops that its operands take."""
        found, todo = {dot}, [dot]
        while todo:
            for value in _operands(todo.pop()):
                op = self.uses.definition.get(value)
                if op in ops and op not in found:
                    found.add(op)
                    todo.append(op)
        return found

    def _clone(self, op: Op, env: dict[Value, Value]) -> None:
        """The op once more, with results of its own, which `env` then has."""
        results = tuple(Value(one.type, one.name) for one in op.results)
        blocks = tuple(self._clone_block(block, env) for block in op.blocks)
        self.b.ops.append(Op(op.name, _now(env, op.args), results, blocks, op.attrs, op.site))
        env.update(zip(op.results, results))

    def _clone_block(self, block: Block, env: dict[Value, Value]) -> Block:
        arguments = tuple(Value(one.type, one.name) for one in block.args)
        outside, inner = self.b.open(), env | dict(zip(block.args, arguments))
        for op in block.ops:
            self._clone(op, inner)
        return Block(arguments, self.b.close(outside))


def _now(env: dict[Value, Value], arg):
    if isinstance(arg, tuple):
        return tuple(_now(env, item) for item in arg)
    return env.get(arg, arg) if isinstance(arg, Value) else arg
