"""Runs without tile data: zeros stand for tiles that decide nothing, so a run costs what its protocol costs.

Input: a launch. Output: a `Skipped`, with which a machine takes the same steps in the same order, by the same seed. For example:

    data = TileData(launch)
    run(..., hooks=Hooks(skipped=data))     zeros stand for what is left out
    data.loses_nothing                      whether a full run could not find more: no assertion, print or division is on such tiles

Values that decide something are computed as ever: conditions and bounds, phases, predicates, addresses, masks and indices, all
operands of atomics, and whatever these values come from: arithmetic, products, shared memory with what tasks and other CTAs put
there, global memory with what this launch stores there. Copies move their bytes, and accesses are accesses. A product is still
started and waited for, and a task that reads it early is refused; only its numbers, and those of arithmetic on tiles, are not
computed. So findings are those of a full run with the same seed, less those about values: assertions on tiles, division by zero,
indices of `tl.gather`, and rows of products that differ and are scattered to one place. What becomes of an element that nobody has
written is decided by data: a run that reads one ends in `DataNeeded`, and is made again with all of them.

Arithmetic of which all operands are there for sure takes no step at all: its zeros are there from the start.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...compiler.analysis.flows import Flows
from ...ir import UNKNOWN, Block, Op, Pointer, Program, Scalar, Tensor, Type, Value
from ...ir.ops import is_pure
from ...runtime.simulate import Launch
from ...simulator import HANDLERS
from ...simulator.machine.code import PLAIN, Code
from ...simulator.machine.interpreter import prepare
from ...simulator.memory.values import filled
from ...simulator.words.mma import async_dot_of
from .across import Globals, deciding, global_operands


class TileData:
    """The part of a launch's program that decides nothing."""

    def __init__(self, launch: Launch):
        self.needed = _needed(launch)
        flows, left_out = launch.program.kept(Flows), [op for op in launch.program.walk() if self.is_left_out(op)]
        self.unknown = flows.reached({result for op in left_out for result in op.results})
        self.loses_nothing = not any(map(self._says_something, launch.program.walk())) and not any(map(_may_refuse, left_out))
        running = _running(flows)
        self._no_step = {op for op in left_out if op.name != "async_dot" and not op.blocks and running.isdisjoint(op.operands)}
        self._tiles: dict[Type, Any] = {}
        self.given = {result: self._zero(result) for op in self._no_step for result in op.results}
        self._ready: dict[tuple[Block, int], tuple[list, bool]] = {}

    def is_left_out(self, op: Op) -> bool:
        """True if zeros stand for what `op` gives: products and arithmetic on tiles that decide nothing."""
        if not self.needed.isdisjoint(op.results):
            return False
        return op.name == "async_dot" or not op.row.hands_on and is_pure(op.name) and bool(op.results) and (
            all(map(_is_number, op.results)) and any(isinstance(value.type, Tensor) for value in (*op.operands, *op.results)))

    def _says_something(self, op: Op) -> bool:
        """True if `op` would say something else in a full run."""
        watched = "observer" in op.row.traits and not self.unknown.isdisjoint(op.operands)
        rows = "descriptor" in op.row.places and "rows" in op.row.places and op.row.copy == "out"   # equal ones may meet
        return watched or rows or op.name == "thread_id" or "declared" in op.row.traits     # a reference may look at all it gets

    def _zero(self, value: Value) -> Any:
        """One array for all values of a type: nobody writes it."""
        if value.type not in self._tiles:
            self._tiles[value.type] = filled(0, value.type, UNKNOWN)
        return self._tiles[value.type]

    def code(self, block: Block, num_warps: int, done: Collection[Op]) -> Code:
        """A block made ready, with zeros in place of what is left out."""
        return Code(*self._prepared(block, num_warps, done), block.ops)

    def _prepared(self, block: Block, num_warps: int, done: Collection[Op]) -> tuple[list, bool]:
        """The steps of a block less those of constants, which are `done` before the machine runs."""
        found = self._ready.get((block, num_warps))
        if found is None:
            whole = prepare(block, num_warps, done)
            steps, before = [], 0.0
            for op, run, mode, cycles in whole.steps:
                if op in self._no_step:
                    before += cycles        # the next step's
                    continue
                steps.append(self._step(op, run, mode, before + cycles))
                before = 0.0
            if before:
                steps.append((block.ops[-1], _nothing, PLAIN, before))
            found = self._ready[block, num_warps] = steps, whole.switches
        return found

    def _step(self, op: Op, run, mode: int, cycles: float) -> tuple:
        if "observer" in op.row.traits and not self.unknown.isdisjoint(op.operands):
            return op, _nothing, mode, cycles
        if not self.is_left_out(op):
            return op, run, mode, cycles
        return (op, async_dot_of(op, self._zero(op.result)), mode, cycles) if op.name == "async_dot" else (
            op, self._zeros(op), PLAIN, cycles)

    def _zeros(self, op: Op):
        given = [(result, self._zero(result)) for result in op.results]
        inside = op.blocks if not any(map(_branches, op.blocks)) else ()
        known: list[int] = []           # how often each region runs, which is the same each time

        def run(task, op) -> None:
            for operand in op.operands:
                task.read(operand, op)      # a product that is not there yet may not be read
            codes = [task.code(block) for block in inside]
            if codes and not known:
                before = [code.runs for code in codes]
                HANDLERS[op.name].run(task, op)
                known.extend(code.runs - count for code, count in zip(codes, before))
            else:
                for code, count in zip(codes, known):
                    code.runs += count      # its ops count as in a full run
            task.env.update(given)

        return run


def _is_number(value: Value) -> bool:
    return isinstance(value.type, (Tensor, Scalar, Pointer))


def _nothing(task, op) -> None:
    """Nobody looks."""


def _branches(block: Block) -> bool:
    return any(op.blocks for op in block.ops)


def _may_refuse(op: Op) -> bool:
    """True if an op that is left out may end a full run, or tell how often its region runs, by the data it meets."""
    return any(map(_branches, op.blocks)) or any(
        inner.row.cost == "division" or inner.name == "gather" or "observer" in inner.row.traits for inner in op.walk())


def _running(flows: Flows) -> set[Value]:
    """The values that may be an asynchronous product that no wait has finished: products, and what hands one on."""
    ops = flows.program.walk()
    hands_on = [(result, [op.value]) for op in ops if op.name == "async_dot_wait" for result in op.results]
    hands_on += flows.sources.items()
    found, before = {result for op in flows.program.walk() if op.name == "async_dot" for result in op.results}, -1
    while len(found) > before:
        before = len(found)
        found |= {value for value, sources in hands_on if not found.isdisjoint(sources)}
    return found


def _needed(launch: Launch) -> set[Value]:
    """The values that decide something."""
    program: Program = launch.program
    flows, memory = program.kept(Flows), Globals(launch)
    writers: dict[Value, list[Op]] = {}             # by the buffer array
    stores = [op for op in program.walk() if any(access.endswith("write") for _, access in global_operands(op))]
    for op in program.walk():
        for array in flows.touched(op, op.row.writes):
            writers.setdefault(array, []).append(op)
    todo = [value for op in program.walk() for value in (op.operands if "atomic" in op.row.traits else deciding(op, flows))]
    needed: set[Value] = set()
    arrays: set[Value] = set()
    seen: set[Op] = set()

    def reads(op: Op) -> None:
        """Note that the data which `op` reads out of memory are needed."""
        if op in seen:
            return
        seen.add(op)
        todo.extend(op.operands)
        for array in flows.touched(op, op.row.reads) - arrays:
            arrays.add(array)
            for writer in writers.get(array, ()):
                reads(writer)
        if op.row.blocks == "poll" or any(access.endswith("read") or op.results for _, access in global_operands(op)):
            for store in stores:
                if memory.meet(op, store):
                    reads(store)

    for op in program.walk():
        if op.row.blocks == "poll":
            reads(op)           # the word that is waited for
    while todo:
        value = todo.pop()
        if value in needed:
            continue
        needed.add(value)
        todo += flows.sources.get(value, ())
        op = flows.maker.get(value)
        if op is not None and not op.row.hands_on:
            reads(op)
            for inner in (inner for block in op.blocks for one in block.ops for inner in one.walk()):
                todo += (*inner.operands, *inner.results)       # how a reduction combines
    return needed
