"""Arrivals behind copies that are still in flight: a producer goes on to the next copies, and arrives when these have begun.

Input: a program in which copies are by pointers, behind the checks, and its target. Output: the program in which such loops
(`copy_loops`) keep arrivals back; the same object where barriers count bytes, or no loop copies so. For example, of one arrival
kept back:

    for %i ..:                                    for %i, %kept = 0, %before = 0 .. while %whole:
      barrier_wait %free[%s], %phase                if %kept >= 1 and not barrier_test %free[%s], %phase:
      if %whole:                                      async_wait 0; barrier_arrive %full[%before]; %kept = 0
        async_load ..; async_commit                 barrier_wait %free[%s], %phase
        async_wait 0                                async_load ..; async_commit; async_wait 1
      else: local_store ..                          barrier_arrive %full[%before], if %kept == 1; %kept = 1; %before = %s
      barrier_arrive %full[%s]                    async_wait 0; barrier_arrive %full[%before], if %kept == 1
                                                  for %i .., the trips that are left: as before

Copies of blocks that reach over an edge go through registers, and a branch between both kinds would hide from LLVM how many copies
are under way: so the loop is cut in front of the first trip that may have such a block (`whole_trips`).

Arrivals are a queue: the oldest is made first, as soon as its own copies have landed, so their order stays. Nobody can tell but who
waits for one of them, and the task never waits while it keeps one back: in front of a wait that would hold it, it makes the oldest
one and looks again, until none is left. So a task that stands still has made the arrivals that it would have made before, and what
could go on before can go on now, whatever the consumers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir import I1, I32, Block, Builder, Op, Program, Site, Value
from ...target import Target
from ..analysis.uses import uses_of
from .copy_loops import Arrival, CopyLoop, copy_loop, is_wait_for_all, is_whole

_LEFT = "a block may reach over an edge, in the trips behind those with copies in flight"


def arrive_later(program: Program, target: Target) -> Program:
    """The program whose loops of copies keep arrivals back. Each such loop has the attribute `later`, how many at most, or
    `at_once`, why none."""
    if "mbarrier" not in target.mapped or not any(program.named("async_load")):
        return program
    uses = uses_of(program)
    found = {loop: plan for loop in program.named("for") if (plan := copy_loop(uses, loop)) is not None}
    return replace(program, body=_Writer(found).block(program.body)) if found else program


@dataclass(frozen=True)
class _Kept:
    """An arrival kept back: its place in the trip, and the operands of its own trip."""

    arrival: Arrival
    values: tuple[Value, ...]


class _Writer:
    """Rebuilds blocks, the loops in `plans` by their plans."""

    def __init__(self, plans: dict[Op, CopyLoop | str]):
        self.plans, self.builder = plans, Builder()

    def block(self, block: Block) -> Block:
        outside = self.builder.open()
        for op in block.ops:
            self.op(op)
        return Block(block.args, self.builder.close(outside))

    def op(self, op: Op) -> None:
        plan = self.plans.get(op)
        if isinstance(plan, CopyLoop):
            self.loop(op, plan)
            return
        if op.blocks:
            op = replace(op, args=self.builder.now(op.args), blocks=tuple(self.block(block) for block in op.blocks))
            self.builder.ops.append(op if plan is None else op.with_attrs(at_once=plan))
        else:
            self.builder.copy(op, op.args)

    def loop(self, op: Op, plan: CopyLoop) -> None:
        """The loop that keeps arrivals back, and behind it the one that there was, for the trips that are left."""
        builder = self.builder
        start, end, step = builder.now((op.start, op.end, op.step))
        middle = end if plan.whole is None else plan.whole.end(builder)
        results = self.keeping(op, plan, (start, middle, step))
        if plan.whole is None:
            builder.env.update(zip(op.results, results))
        else:
            rest = replace(op, args=(middle, end, step, results), blocks=tuple(self.block(block) for block in op.blocks))
            builder.ops.append(rest.with_attrs(at_once=_LEFT))

    def keeping(self, op: Op, plan: CopyLoop, bounds: tuple[Value, ...]) -> tuple[Value, ...]:
        """The loop over these trips, which are whole; the results of the loop that there was."""
        builder, site, block, before = self.builder, op.site, op.blocks[0], dict(self.builder.env)
        builder.site = site
        trip = _Trip(builder, plan)
        types = (I32, *(value.type for one in trip.queue for value in one.values))
        inits = tuple(builder.constant(0, type_, site) for type_ in types)
        # What the task did before is released by arrivals that do not wait for it.
        builder.emit("async_wait", (0, ()), site, in_flight=True, stores=True)
        loop = builder.place("for", *bounds, (*builder.now(op.inits), *inits), **{**op.attrs, "later": plan.most})
        with builder.inside(loop, tuple(arg.type for arg in block.args) + types) as args:
            builder.env.update(zip(block.args, args))
            trip.begin(args[len(block.args):])
            for inner in block.ops:
                trip.op(inner)
            trip.end(op)
        builder.env = before
        own = len(op.results)
        trip.begin(loop.results[own:])
        trip.rest()
        return loop.results[:own]


class _Trip:
    """Writes the ops of a trip. `queue` are the arrivals that may be kept back where the builder stands, the newest first; the
    first `count` of them, an i32, are."""

    def __init__(self, builder: Builder, plan: CopyLoop):
        self.builder, self.plan, self.count = builder, plan, None
        arrivals = plan.arrivals
        self.queue = [_Kept(one, one.values) for one in (arrivals[-1 - age % len(arrivals)] for age in range(plan.most))]

    def begin(self, values: Sequence[Value]) -> None:
        """Take the count and the operands of the queue from what the loop carries."""
        self.count, *rest = values
        left = iter(rest)
        self.queue = [_Kept(one.arrival, tuple(next(left) for _ in one.values)) for one in self.queue]

    def op(self, op: Op) -> None:
        builder = self.builder
        if op.name == "barrier_wait":
            self.make_room(op)
            self.other(op)
        elif op.name == "barrier_arrive":
            arrival = next(one for one in self.plan.arrivals if one.op is op)
            self.keep(_Kept(arrival, builder.now(arrival.values)), op.site)
        elif op.name != "yield":
            self.other(op)

    def end(self, loop: Op) -> None:
        carried = (value for one in self.queue for value in one.values)
        self.builder.emit("yield", ((*self.builder.now(loop.blocks[0].yielded), self.count, *carried), ), loop.site)

    def other(self, op: Op) -> None:
        """An op without the ends of groups and the waits for them; of a choice between copies that of a whole block. It is written
        once more for the trips that are left, so its results are others here."""
        if is_whole(op):
            for inner in op.blocks[0].ops:
                self.op(inner)
        elif not is_wait_for_all(op):
            results = tuple(Value(result.type, result.name) for result in op.results)
            self.builder.emit(op.name, self.builder.now(op.args), op.site, results, **op.attrs)
            self.builder.env.update(zip(op.results, results))

    def keep(self, newest: _Kept, site: Site) -> None:
        """Queue an arrival, whose copies are a group. The oldest one is made if there were as many as may be."""
        builder, most = self.builder, self.plan.most
        builder.emit("async_commit", ((), ), site, in_flight=True)
        builder.emit("async_wait", (most, ()), site, in_flight=True)
        self.arrive(self.queue[-1], builder.by_constant("icmpEQ", self.count, most, site), site)
        more = builder.by_constant("add", self.count, 1, site)
        self.count = builder.emit("minsi", (more, builder.constant(most, I32, site)), site)
        self.queue = [newest, *self.queue[:-1]]

    def make_room(self, wait: Op) -> None:
        """In front of a wait that would hold the task, make arrivals, the oldest first, until it would not, or none is left."""
        builder, site = self.builder, wait.site
        look = builder.now((wait.barrier, wait.phase))
        free = builder.emit("barrier_test", look, site)
        for age in reversed(range(self.plan.most)):
            kept = builder.by_constant("icmpSGT", self.count, age, site)
            held = builder.emit("xor", (free, builder.constant(True, I1, site)), site)
            builder.site = site
            branch = builder.place("if", builder.emit("and", (kept, held), site), (I1, I32))
            with builder.inside(branch):
                builder.emit("async_wait", (age, ()), site, in_flight=True)
                self.arrive(self.queue[age], None, site)
                again = builder.emit("barrier_test", look, site) if age else free
                builder.emit("yield", ((again, builder.constant(age, I32, site)), ), site)
            with builder.inside(branch):
                builder.emit("yield", ((free, self.count), ), site)
            free, self.count = branch.results

    def rest(self) -> None:
        """Behind the loop: make the arrivals that are left."""
        for age in reversed(range(self.plan.most)):
            site = self.queue[age].arrival.op.site
            self.builder.emit("async_wait", (age, ()), site, in_flight=True)
            self.arrive(self.queue[age], self.builder.by_constant("icmpSGT", self.count, age, site), site)

    def arrive(self, kept: _Kept, predicate: Value | None, site: Site) -> None:
        builder, arrival = self.builder, kept.arrival
        own = dict(zip(arrival.values, kept.values))
        index, chunk = (own.get(value, builder.now(value)) for value in (arrival.index, arrival.op.chunk))
        barrier = builder.now(arrival.array)
        if arrival.index is not None:
            barrier = builder.emit("barrier_index", (barrier, index), site)
        args = barrier, arrival.op.count, predicate, chunk
        builder.emit("barrier_arrive", args, site, **arrival.op.attrs, in_flight=True)
