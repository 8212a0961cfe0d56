"""`scf.for_`: a loop of our IR where all threads take the same trips; else as many trips as any thread takes.

Input: bounds, carried values and the statements of the body. Output: `for`, with a mask for the threads that still do.
For
example:

    for i in scf.for_(0, n, 1): ..
    for i, total, result in scf.for_(0, n, 1, [zero]): scf.yield_([..])         result: what the loop gives
    for i, (a, b), results in scf.for_(thread, n, threads, [x, y]): ..          each thread from its own start

What threads differ in becomes a tile: a loop whose sum starts as one number and grows by the thread's own is recorded again with
a tile.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from .arith import safe
from .dialect import op
from .regions import Block, Structured, around, recorded, run, yielded
from .threads import I1, I64, INDEX
from .types import IndexType, IntegerType
from .values import Number, Region


class For(Structured):
    """A counted loop."""

    what = "scf.for_"

    def __init__(self, body, bounds: list[Number], inits: list[Number]):
        super().__init__(body)
        self.bounds, self.inits, self.body = bounds, inits, Block(self, "body")

    @property
    def induction_variable(self) -> Number:
        return self.body.arguments[0]

    @property
    def inner_iter_args(self) -> tuple[Number, ...]:
        return tuple(self.body.arguments[1:])

    def run(self, block: Block, statements: list[ast.stmt], assign: Callable[[tuple], None]) -> None:
        """Record the loop with the statements for its body; `assign` binds the names to the counter and the carried values."""
        wide = any(one.lanes for one in self.bounds)
        lanes = tuple(value.lanes or wide for value in self.inits)
        record = self._trips if wide else self._counted
        self.walker.until_steady(statements, lanes, lambda lanes: record(statements, assign, lanes))

    def _carried(self, handles: list, lanes: tuple[bool, ...]) -> tuple[Number, ...]:
        return tuple(around(self.threads, handle, init, wide) for handle, init, wide in zip(handles, self.inits, lanes))

    def _walked(self, statements, assign, counter: Number, carried: tuple[Number, ...]) -> list[Number]:
        self.body.arguments = (counter, *carried)
        region = run(self.walker, statements, "this scf.for_", lambda: assign(self.body.arguments))
        values = yielded(self.walker, region, len(self.inits), "the body of this scf.for_")
        for value, init in zip(values, self.inits):
            if value.type != init.type:
                self.walker.fail(f"this scf.for_ carries {init.type} and its body yields {value.type}")
        return values

    def _counted(self, statements, assign, lanes: tuple[bool, ...]) -> tuple[bool, ...] | None:
        """All threads take the same trips: a `for`. What else than `lanes` is a tile, if that is more."""
        threads, builder, more = self.threads, self.threads.builder, []
        kind = self.bounds[0]

        def record(arguments):
            with threads.inside(Region("this scf.for_")):
                counter, carried = around(threads, arguments[0], kind, False), self._carried(arguments[1:], lanes)
                values = self._walked(statements, assign, counter, carried)
            more.extend(value.lanes or wide for value, wide in zip(values, lanes))
            if tuple(more) == lanes and values:
                builder.create_yield_op([(threads.spread(value) if wide else value).handle for value, wide in zip(values, lanes)])

        types = [recorded(threads, init.type, wide, init) for init, wide in zip(self.inits, lanes)]
        block = threads.detached([recorded(threads, kind.type, False), *types], record)
        if tuple(more) != lanes:
            return tuple(more)
        inits = [threads.spread(init) if wide else init for init, wide in zip(self.inits, lanes)]
        self._made(block, self.bounds, inits, lanes)
        return None

    def _trips(self, statements, assign, lanes: tuple[bool, ...]) -> None:
        """Threads take trips of their own, so many as their bounds say when the loop begins: as many as any of them takes, each for
        those that still do."""
        threads, builder = self.threads, self.threads.builder
        start, _, step = self.bounds
        trips, inits = self._counts(), [threads.spread(init) for init in self.inits]

        def record(arguments):
            with threads.inside(Region("this scf.for_")):
                trip = threads.wrap(arguments[0], I64, False)
                here = threads.compare("SLT", trip, trips)
                walked = threads.op("mul", [threads.resized(trip, start.type), step], start.type)
                counter = threads.spread(threads.op("add", [start, walked], start.type))
                carried = self._carried(arguments[1:], lanes)
                with threads.only(here):
                    values = self._walked(statements, assign, counter, carried)
                if values:
                    builder.create_yield_op([threads.select(here, new, old).handle for new, old in zip(values, carried)])

        most = threads.over_all(trips, "maxsi")
        block = threads.detached([most.tensor.type.to_ir(builder), *(init.tensor.type.to_ir(builder) for init in inits)], record)
        self._made(block, [threads.constant(0, I64), most, threads.constant(1, I64)], inits, lanes)

    def _counts(self) -> Number:
        """The trips of each thread, an i64; 0 for a thread that does not enter the loop."""
        threads, (start, stop, step) = self.threads, self.bounds
        kind, one = start.type, threads.constant(1, start.type)
        left = threads.op("sub", [threads.op("sub", [stop, start], kind), one], kind)      # without a sign, where start < stop
        if step.known != 1:
            left = threads.op("udiv", [left, safe(self.walker, step)], kind)
        trips = threads.op("add", [threads.resized(left, I64, False), threads.constant(1, I64)], I64)
        comes = threads.both(threads.mask, threads.compare("SLT", start, stop))
        return threads.spread(threads.select(comes, trips, threads.constant(0, I64)))

    def _made(self, block, bounds: list[Number], inits: list[Number], lanes: tuple[bool, ...]) -> None:
        """The recorder's loop around a block."""
        made = self.threads.builder.create_for_op(*(bound.handle for bound in bounds), [init.handle for init in inits])
        for argument, real in zip(block.args, made.get_body(0).args, strict=True):
            argument.replace_all_uses_with(real)
        block.merge_block_before(made.get_body(0))
        self._results = self._carried(made.results, lanes)


@op("scf", "for_", classes=("ForOp", ))
def for_(body, start, stop=None, step=None, iter_args=None, inits=None, **given):
    """A counted loop: `for i in scf.for_(start, stop, step):`; with `iter_args`, `for i, carried, results in ..`, where one carried
    value is bare and several are a tuple. The counter counts upwards by a positive step."""
    threads = body.threads
    if stop is None:
        start, stop = 0, start
    given = [start, stop, 1 if step is None else step]
    known = next((one.type for one in given if isinstance(one, Number)), INDEX)
    bounds = [threads.number(one, known, "scf.for_: a bound") for one in given]
    for bound in bounds:
        if not isinstance(bound.type, (IndexType, IntegerType)) or bound.type != bounds[0].type:
            kinds = ", ".join(str(one.type) for one in bounds)
            body.fail(f"scf.for_: start, stop and step must be integers of one type, got {kinds}",
                      "arith.index_cast makes an index of an iN")
    if bounds[0].type == I1:
        body.fail("scf.for_ cannot count in i1")
    if bounds[2].known is not None and bounds[2].known <= 0:
        body.fail(f"scf.for_: the step must be positive, got {bounds[2].known}")
    carried = iter_args if iter_args is not None else inits
    values = [threads.number(one, None, "scf.for_: a carried value") for one in (carried or ())]
    return body.open(For(body, bounds, values))
