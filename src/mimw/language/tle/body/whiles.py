"""`scf.while_`: a loop that goes on while a condition holds, for all threads or for those where it still does.

Input: first values and the statements of two regions. Output: `while` of our IR; where the condition differs between threads, one
with a mask that goes on as long as it is true of any. For example:

    loop = scf.WhileOp([i32], [zero])
    with ir.InsertionPoint(loop.before.blocks.append(i32)):             also: with loop.before as (i, ): ..
        scf.condition(arith.cmpi(slt, i, n), [i])
    with ir.InsertionPoint(loop.after.blocks.append(i32)):              also: with loop.after as (i, ): ..
        scf.yield_([arith.addi(i, one)])
    loop.results                                                        what the last scf.condition had
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

import triton.language.core as tl

from .dialect import op
from .regions import Block, Blocks, Structured, around, loop, recorded, run, yielded
from .threads import I1, Threads
from .types import PointerType, Type
from .values import Number, Region


@dataclass(frozen=True)
class _Condition:
    """The end of the first region: a flag for one more trip, and the values for the second region, each a carried one (its
    place) or a new one."""

    flags: Number
    values: list[Number]
    places: list[int | None]

    @property
    def new(self) -> list[Number]:
        return [value for value, place in zip(self.values, self.places) if place is None]

    def among(self, carried: list, new: list) -> list:
        """The values for the second region, out of the loop's."""
        left = iter(new)
        return [next(left) if place is None else carried[place] for place in self.places]


class While(Structured):
    """A loop with a condition."""

    what = "scf.while_"

    def __init__(self, walker, types: tuple[Type, ...] | None, inits: list[Number]):
        super().__init__(walker)
        self.types, self.inits, self._first = types, inits, None
        self.before, self.after = Blocks(Block(self, "before")), Blocks(Block(self, "after"))

    def run(self, block: Block, statements: list[ast.stmt], assign: Callable[[tuple], None]) -> None:
        """Keep the first region; with the second, record the loop."""
        if block.role == "before":
            self._first = (block, statements, assign)
            return
        if self._first is None:
            self.walker.fail("the second region of an scf.while_ stands behind its first one")
        self._second = (block, statements, assign)
        lanes = tuple(init.lanes for init in self.inits)
        self.walker.until_steady(statements, lanes, self._recorded)

    def finish(self) -> None:
        if self._results is None:
            self.walker.fail("this scf.while_ lacks one of its two regions")

    # ---- the regions --------------------------------------------------------------------------------------------------

    def _condition(self, carried: list[Number]) -> _Condition:
        block, statements, assign = self._first
        block.arguments = tuple(carried)
        region = run(self.walker, statements, "the first region of this scf.while_", lambda: assign(block.arguments))
        if region.condition is None:
            self.walker.fail("the first region of an scf.while_ ends in scf.condition(condition, [values])")
        values = list(region.yielded)
        if self.types is not None and tuple(value.type for value in values) != self.types:
            self.walker.fail(f"this scf.while_ gives ({', '.join(map(str, self.types))}) and its scf.condition has "
                             f"({', '.join(str(value.type) for value in values)})")
        places = [next((place for place, one in enumerate(carried) if one is value), None) for value in values]
        return _Condition(region.condition, values, places)

    def _body(self, given: list[Number]) -> list[Number]:
        block, statements, assign = self._second
        block.arguments = tuple(given)
        region = run(self.walker, statements, "the second region of this scf.while_", lambda: assign(block.arguments))
        values = yielded(self.walker, region, len(self.inits), "the second region of this scf.while_")
        for value, init in zip(values, self.inits):
            if value.type != init.type:
                self.walker.fail(f"this scf.while_ carries {init.type} and its second region yields {value.type}")
        return values

    # ---- the loop -----------------------------------------------------------------------------------------------------

    def _recorded(self, lanes: tuple[bool, ...]) -> tuple[bool, ...] | None:
        """Record the loop with tiles where `lanes` says so; which have to be tiles, if they are more."""
        threads, builder, found, more = self.threads, self.threads.builder, [], []
        types = [recorded(threads, init.type, wide, init) for init, wide in zip(self.inits, lanes)]

        def before(arguments):
            with threads.inside(Region("this scf.while_")):
                found.append(self._condition(self._carried(arguments, lanes)))
                carried = list(arguments)
                builder.record("condition", found[0].flags.handle, (*carried, *(value.handle for value in found[0].new)))

        first = threads.detached(types, before)
        if found[0].flags.lanes or threads.diverged:
            first.erase()
            return self._masked(found[0])
        new = found[0].new
        extra = [recorded(threads, value.type, value.lanes, value) for value in new]
        for type_ in extra:
            first.add_argument(type_)

        def after(arguments):
            with threads.inside(Region("this scf.while_")):
                carried, kept = self._carried(arguments, lanes), arguments[len(lanes):]
                given = [around(threads, handle, value, value.lanes) for handle, value in zip(kept, new)]
                values = self._body(found[0].among(carried, given))
                more.extend(value.lanes or wide for value, wide in zip(values, lanes))
                builder.create_yield_op([*(_as(threads, value, wide).handle for value, wide in zip(values, more)), *kept])

        second = threads.detached([*types, *extra], after)
        if tuple(more) != lanes:
            return tuple(more)
        inits = [*(_as(threads, init, wide) for init, wide in zip(self.inits, lanes)),
                 *(_as(threads, _nothing(threads, value), value.lanes) for value in new)]
        made = loop(threads, inits, first, second)
        left = [around(threads, handle, value, value.lanes) for handle, value in zip(made.results[len(lanes):], new)]
        self._results = tuple(found[0].among(self._carried(made.results, lanes), left))
        return None

    def _carried(self, handles: list, lanes: tuple[bool, ...]) -> list[Number]:
        return [around(self.threads, handle, init, wide) for handle, init, wide in zip(handles, self.inits, lanes)]

    def _masked(self, condition: _Condition) -> None:
        """Record a loop in which each thread goes on for itself. Besides the carried values, the loop holds the last values
        of the condition, and a mask of the threads that go on."""
        threads, builder, count = self.threads, self.threads.builder, len(self.inits)
        everyone = threads.mask if threads.mask is not None else threads.constant(True, I1)
        shown = condition.new
        inits = [threads.spread(one) for one in (*self.inits, *(_nothing(threads, value) for value in shown), everyone)]
        like = [*self.inits, *shown, inits[-1]]

        def parts(arguments) -> tuple[list[Number], list[Number], Number]:
            values = [around(threads, handle, one, True) for handle, one in zip(arguments, like)]
            return values[:count], values[count:-1], values[-1]

        def before(arguments):
            with threads.inside(Region("this scf.while_")):
                carried, old, here = parts(arguments)
                with threads.only(here):
                    found = self._condition(carried)
                left = [threads.select(here, new, value) for new, value in zip(found.new, old)]
                here = threads.both(here, threads.spread(found.flags))
                builder.create_condition_op(threads.any(here).handle, [one.handle for one in (*carried, *left, here)])

        def after(arguments):
            with threads.inside(Region("this scf.while_")):
                carried, old, here = parts(arguments)
                with threads.only(here):
                    values = self._body(condition.among(carried, old))
                values = [threads.select(here, new, value) for new, value in zip(values, carried)]
                builder.create_yield_op([one.handle for one in (*values, *old, here)])

        types = [one.tensor.type.to_ir(builder) for one in inits]
        made = loop(threads, inits, threads.detached(types, before), threads.detached(types, after))
        carried, left, _ = parts(made.results)
        self._results = tuple(condition.among(carried, left))


def _as(threads: Threads, value: Number, wide: bool) -> Number:
    return threads.spread(value) if wide else value


def _nothing(threads: Threads, like: Number) -> Number:
    """A value of the same type, which will not be used."""
    if not isinstance(like.type, PointerType):
        return threads.constant(0, like.type)
    zero = threads.semantic.scalar_constant(0, tl.int64)
    handle = threads.builder.create_int_to_ptr(zero.handle, like.tensor.dtype.to_ir(threads.builder))
    return threads.value(type(like.tensor)(handle, like.tensor.dtype), like.type, like.pointee)


@op("scf", "while_", classes=("WhileOp", ))
def while_(body, results_=None, inits=None, *, results=None):
    """A loop with a condition: `while_([types of the results], [first values])`, or the first values alone."""
    types = results_ if results is None else results
    if inits is None:
        types, inits = None, types
    values = [body.threads.number(value, None, "scf.while_: a first value") for value in inits or ()]
    return body.open(While(body, None if types is None else tuple(types), values))
