"""Stamps that name the wait of each warp, for a watchdog to read while the kernel hangs.

Input: a checked program. Output: the same with a note of each warp's state in a `WaitTable` in host memory: which task it began
or ended, and what it waits for, by the number of the stamp. Before

    barrier_wait %full.3, %phase

the pass puts `watched_wait %full.3, %phase, %full, %free {stamp=7}`, where one lane of each warp waits first and writes only
once that takes long: the stamp, and the words of the barriers in `%full` and `%free`. Before waits that the hardware does in one
instruction it puts `wait_stamp {stamp=8}`, and one behind them.

A kernel without a watchdog knows nothing of it. A `while` loop is noted too, since it may look at memory for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

from ...errors import TargetError
from ...ir import Block, Op, Program, Site, Value, WaitTable
from ...target import Target
from ..analysis import total_warps

RUNS, LOOPS, WAITS, ENDS = "runs", "loops", "waits", "ends"


@dataclass(frozen=True)
class Stamp:
    """The meaning of a stamp's number: the lane (0 the kernel's body, then the tasks of each region in program order), the
    state, and the op that is waited for or looped in."""

    lane: int
    state: str
    op: Op | None
    site: Site


def stamp_waits(program: Program, target: Target) -> Program:
    """The program with stamps around its waits. TargetError off NVIDIA: the stamps are PTX."""
    if target.assembly != "ptx":
        raise TargetError(f"stamps of waits are PTX; {target} has none")
    counts = [op.count for op in program.walk() if op.row.allocates == "barriers"]
    return _Stamper(WaitTable(sum(counts), total_warps(program))).program(program)


def stamps(program: Program) -> dict[int, Stamp]:
    """The meaning of each stamp of a stamped program by its number."""
    found: dict[int, Stamp] = {}

    def visit(block: Block) -> None:
        for index, op in enumerate(block.ops):
            if "stamp" in op.row.attributes:
                about = block.ops[index + 1] if op.attrs["state"] in (WAITS, LOOPS) and op.attrs["first"] else None
                if op.attrs["stamp"] not in found:
                    found[op.attrs["stamp"]] = Stamp(op.attrs["lane"], op.attrs["state"], about, op.site)
            for inner in op.blocks:
                visit(inner)

    visit(program.body)
    return found


def barrier_rows(program: Program) -> Iterator[tuple[Op, int]]:
    """(alloc_barriers, index in its array) for each row of barriers of a stamped program's table."""
    for op in program.walk():
        if op.row.allocates == "barriers":
            yield from ((op, index) for index in range(op.count))


def wait_table(program: Program) -> WaitTable:
    """The table of a stamped program."""
    return next(op.attrs["table"] for op in program.walk() if op.name == "wait_stamp")


class _Stamper:
    """One walk over a program."""

    def __init__(self, table: WaitTable):
        self.table, self.number, self.lanes, self.barriers = table, 0, 0, 0

    def program(self, source: Program) -> Program:
        return replace(source, body=self.lane(source.body, source.site, {}))

    def stamp(self, state: str, lane: int, site: Site, again: Op | None = None) -> Op:
        """A new stamp, or once more one that was left before."""
        if again is None:
            self.number += 1
        attrs = dict(again.attrs, first=False) if again else dict(
            stamp=self.number, state=state, lane=lane, table=self.table, first=True)
        return Op("wait_stamp", attrs=MappingProxyType(attrs), site=again.site if again else site)

    def lane(self, block: Block, site: Site, arrays: dict[Value, int]) -> Block:
        """The kernel's body or a task: a stamp at its start, those inside, one at its end."""
        lane = self.lanes
        self.lanes += 1
        begin = self.stamp(RUNS, lane, site)
        inside = self.block(block, lane, begin, arrays).ops
        tail = inside[-1:] if inside and "terminator" in inside[-1].row.traits else ()
        return replace(block, ops=(begin, *inside[:len(inside) - len(tail)], self.stamp(ENDS, lane, site), *tail))

    def block(self, block: Block, lane: int, now: Op, arrays: dict[Value, int]) -> Block:
        """Write a block with stamps: `now` is the stamp of the lane's state around the waits of this block; `arrays` are the
        barriers that have been made before it, with the row of the first one."""
        ops, arrays = [], dict(arrays)
        for op in block.ops:
            blocks = op.row.blocks
            if op.name == "warp_specialize":
                ops.append(op.with_blocks(lambda inner: self.lane(inner, op.site, arrays)))
                ops.append(self.stamp(RUNS, lane, op.site, again=now))
            elif op.name == "while":
                loop = self.stamp(LOOPS, lane, op.site)
                inside = op.with_blocks(lambda inner, loop=loop: self.block(inner, lane, loop, arrays))
                ops += [loop, inside, self.stamp(RUNS, lane, op.site, again=now)]
            elif blocks == "barrier":
                self.number += 1
                attrs = dict(stamp=self.number, state=WAITS, lane=lane, table=self.table, first=True, after=now.attrs["stamp"],
                             rows=tuple(arrays.values()))
                watched = (op.barrier, op.phase, op.predicate, tuple(arrays))
                ops += [Op("watched_wait", watched, attrs=MappingProxyType(attrs), site=op.site), op]
            elif blocks:
                ops += [self.stamp(WAITS, lane, op.site), op, self.stamp(RUNS, lane, op.site, again=now)]
            elif op.row.allocates == "barriers":
                attrs = dict(first=self.barriers, table=self.table)
                arrays[op.result] = self.barriers
                self.barriers += op.count
                ops += [op, Op("wait_words", (op.result, ), attrs=MappingProxyType(attrs), site=op.site)]
            else:
                ops.append(op.with_blocks(lambda inner: self.block(inner, lane, now, arrays)))
        return block.with_ops(ops)
