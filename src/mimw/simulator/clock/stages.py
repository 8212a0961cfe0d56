"""Loops in stages, as the machine with a clock looks at them: where the halves meet, and what goes from stage to stage.

Input: a program. Output: `Stages`. For example:

    for %n { stage_start  %x = local_load ..  stage_end 'read' 0  async_wait  stage_start  dot %x ..  stage_end 'multiply' 1 }
    borders      the async_wait, since each half waits in front of the barrier, and the last stage_end
    priorities   of either stage_start, 0 and 1
    ahead        the local_load, which another stage multiplies
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...compiler.analysis.warp_stages import StagedBlock, staged, waits_for_own
from ...ir import Block, Op, Program
from .operands import Source


@dataclass(frozen=True)
class Stages:
    """`loops` in stages; `blocks`, their bodies and those in them; `borders`, ops behind which the halves meet; `priorities` of the
    stages by their first marks; `number` of the stage of each op in one."""

    loops: frozenset[Op]
    blocks: frozenset[Block]
    borders: frozenset[Op]
    priorities: Mapping[Op, int]
    number: Mapping[Op, int]

    def ahead(self, operands: Mapping[Op, tuple[Source, ...]]) -> dict[Op, tuple[Op, int]]:
        """The reads of shared memory whose dots stand in other stages, each with such a dot and which of its operands it is."""
        return {source.read: (dot, index) for dot, sources in operands.items() for index, source in enumerate(sources)
                if source.read is not None and self.number.get(source.read) != self.number.get(dot)}


def find_stages(program: Program) -> Stages:
    loops, blocks, borders, priorities, number = [], [], [], {}, {}
    for loop in program.named("for"):
        found = staged(loop.blocks[0])
        if found is None:
            continue
        loops.append(loop)
        blocks += _blocks(loop)
        borders += _borders(found)
        for stage in found.stages:
            priorities[stage.start] = stage.end.priority or 0
            number.update((inner, len(priorities)) for op in stage.ops for inner in op.walk())
    return Stages(frozenset(loops), frozenset(blocks), frozenset(borders), priorities, number)


def _blocks(op: Op) -> Iterator[Block]:
    for block in op.blocks:
        yield block
        for inner in block.ops:
            yield from _blocks(inner)


def _borders(found: StagedBlock) -> Iterator[Op]:
    """One for each stage: a wait behind it, else its end. A wait in front of the first stage is the border of the last one."""
    first, *between = found.gaps
    around = next(filter(_waits, first), None)
    for stage, gap in zip(found.stages, between):
        last = stage is found.stages[-1]
        yield next(filter(_waits, gap), around if last and around is not None else stage.end)


def _waits(op: Op) -> bool:
    return waits_for_own(op.row)
