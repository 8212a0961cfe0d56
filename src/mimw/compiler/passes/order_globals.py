"""The threads of a task synchronise between a write to global memory and another access, which may be another thread's.

Input: a program, and the chip. Output: the program with a barrier of the task's threads before each such access. For example:

    tl.store(u + at, x)                                   tl.store(u + at, x)
    y = tl.load(u + at)             becomes               tl.debug_barrier()
                                                          y = tl.load(u + at)

A task is one strand to its author and to the simulator: what it stored, it loads. On a GPU its threads share out its tiles,
each access in a layout of its own, and Triton puts syncs in for shared memory alone: nothing orders what two threads do in
global memory. A barrier orders their accesses (PTX ISA, "barrier"; "Memory Consistency Model",
synchronizes and causality order; on AMD, `s_barrier` behind waits for the stores).

* A write and a later access to the same elements, or to elements that may be the same, may be two threads' unless both are one op:
  layouts are not known yet, and differ where one of the two is a product's.
* A read and a later write need nothing where the written value comes from what was read, at the same elements, and each element
  was read by one thread: what a thread has from others came through shared memory or a shuffle, behind their reads. Numbers, and
  tiles of fewer elements than there are threads, each thread may read for itself, and late.
* A TMA store of Triton's (`desc.store`) is waited for before (`cp.async.bulk.wait_group 0`): Triton waits until it has read its
  tile. Copies by the author's own words are waited for by the author; the simulator finds where not.
* Arrays are told apart by the parameters that they come from: who hands one array over twice, writes through the one and reads
  through the other in one launch, writes a barrier (`tl.debug_barrier()`). Addresses that are loaded are told apart from all.
* Two writes of which nobody knows whether they meet are left alone: these are parts of a workspace, or tiles in turn.

Kernels in `tl` words alone are compiled by Triton, without this. In a loop of stages that halves of the waves run one apart no
barrier of all waves can stand: there the simulator compares which wave touches an element (`simulator.memory_model.halves`), and
the barrier stands before the loop and behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from ...ir import Block, Op, Program, Tensor, Value
from ...target import Target
from ..analysis.same_elements import Accesses, Meeting, address_of, is_access
from ..analysis.uses import uses_of
from ..analysis.written import parameters_behind

_BARRIERS = ("cluster", "rendezvous")       # of CTAs: all threads of a task wait for them


@dataclass(frozen=True)
class _Done:
    """An access since the task's last barrier, and the loops of which a trip has ended since then."""

    op: Op
    between: frozenset[Op] = frozenset()


Touched = frozenset[_Done]
NONE: Touched = frozenset()


def order_globals(program: Program, target: Target) -> Program:
    """The program with such barriers; the same object if no array is both written and accessed elsewhere, or tasks have one thread
    each, as on a chip that is no GPU."""
    if target.own_spaces:
        return program
    walk = _Walk(program, target)
    return replace(program, body=walk.block(program.body, NONE)[0]) if walk.shared else program


class _Walk:
    """`shared` are the accesses to arrays that are written and accessed at two places, with the parameters that they reach."""

    def __init__(self, program: Program, target: Target):
        self.target, self.uses = target, uses_of(program)
        self.accesses = Accesses(self.uses)
        reached = {op: parameters_behind(program, address_of(op), loaded=False) or set() for op in program.walk() if is_access(op)}
        places: dict[str, list[Op]] = {}
        for op, names in reached.items():
            for name in names:
                places.setdefault(name, []).append(op)
        kept = {name for name, ops in places.items() if any(map(_writes, ops)) and (len(ops) > 1 or _reads(ops[0]))}
        self.shared = {op: names & kept for op, names in reached.items() if names & kept}
        self.changed = False

    def block(self, block: Block, touched: Touched) -> tuple[Block, Touched]:
        """The block with its barriers, and what has been touched at its end."""
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "warp_specialize":
                op, touched = op.with_blocks(lambda one: self.block(one, NONE)[0]), NONE
            elif _has_stages(op):
                inner = [one for one in op.walk() if one in self.shared]
                if clashing := [one for one in touched if any(self._clashes(one, later) for later in inner)]:
                    ops += self._barrier(clashing, op)
                    touched = NONE
                touched |= {_Done(one, between) for one in inner for between in (frozenset(), frozenset({op}))}
            elif op.blocks:
                op, touched = self._regions(op, touched)
            elif op.name == "barrier" or op.row.blocks in _BARRIERS:
                touched = NONE
            elif op in self.shared:
                if clashing := [one for one in touched if self._clashes(one, op)]:
                    ops += self._barrier(clashing, op)
                    touched = NONE
                touched |= {_Done(op)}
            ops.append(op)
        return block.with_ops(ops), touched

    def _regions(self, op: Op, touched: Touched) -> tuple[Op, Touched]:
        if "branch" in op.row.traits:
            branches = [self.block(block, touched) for block in op.blocks]
            left = [state for _, state in branches] + ([touched] if len(op.blocks) < 2 else [])
            return replace(op, blocks=tuple(block for block, _ in branches)), frozenset().union(*left)
        while True:
            blocks, ends, state = [], [], touched
            for inner in op.blocks:
                block, state = self.block(inner, state)
                blocks.append(block)
                ends.append(state)
            again = frozenset(self._a_trip_later(one, op) for one in state)
            if again <= touched:      # a `while` is left after its first block, a `for` perhaps before its first round
                return replace(op, blocks=tuple(blocks)), ends[0] if op.name == "while" else touched | state
            touched |= again

    def _a_trip_later(self, one: _Done, loop: Op) -> _Done:
        return replace(one, between=one.between | {loop}) if loop in self.uses.loops(one.op) else one

    def _clashes(self, one: _Done, op: Op) -> bool:
        first = one.op
        if self.shared[first].isdisjoint(self.shared[op]) or not (_writes(first) or _writes(op)):
            return False
        if _is_atomic(first) and _is_atomic(op) or _is_copy(first) and (_is_copy(op) or not _writes(first)):
            return False
        meeting = self.accesses.meeting(first, op, one.between)
        if meeting is Meeting.APART:
            return False
        if _writes(first) and _writes(op):
            return first is not op and meeting is not Meeting.UNKNOWN
        if _writes(first):
            return True
        return meeting is not Meeting.SAME or not self._comes_from(op, first)

    def _comes_from(self, write: Op, read: Op) -> bool:
        """True if what is written is made of what was read, in the same trip, and one thread has read each element."""
        if not self._is_read_once(read):
            return False
        seen: set[Value] = set()
        todo = [value for value in write.operands if value is not address_of(write)]
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in read.results:
                return True
            maker = self.uses.definition.get(value)
            todo += maker.operands if maker is not None else ()
        return False

    def _is_read_once(self, read: Op) -> bool:
        task, tile = self.uses.task(read), read.results[0].type if read.results else None
        warps = self.uses.program.num_warps if task is None else task.num_warps
        return isinstance(tile, Tensor) and prod(tile.shape) >= warps * self.target.warp_size

    def _barrier(self, clashing: Iterable[_Done], op: Op) -> Iterator[Op]:
        if self.target.has("tma") and any(_is_tma_store(one.op) for one in clashing):
            yield Op("tma_store_wait", (0, ), site=op.site)
        yield Op("barrier", site=op.site)


def _has_stages(loop: Op) -> bool:
    """True of a loop whose body is `tlx.warp_pipeline_stage`s."""
    return "loop" in loop.row.traits and any(op.row.needs == "stages" for block in loop.blocks for op in block.ops)


def _writes(op: Op) -> bool:
    return any(how.endswith("write") for name, how in op.row.touches if name in ("pointer", "descriptor"))


def _reads(op: Op) -> bool:
    return any(how.endswith("read") for name, how in op.row.touches if name in ("pointer", "descriptor"))


def _is_atomic(op: Op) -> bool:
    return "atomic" in op.row.traits or "reduces" in op.row.traits


def _is_tma_store(op: Op) -> bool:
    """True of a store by a tensor descriptor that Triton makes, and waits for no longer than until its tile has been read."""
    return not op.row.ours and ("descriptor", "async-write") in op.row.touches and not op.attrs.get("by_pointers")


def _is_copy(op: Op) -> bool:
    """True of a copy by the author's own word, which its author waits for."""
    return op.row.ours and "async" in op.row.effects
