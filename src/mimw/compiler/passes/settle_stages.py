"""What stands between stages goes where Triton wants it, and the loop's halves part before it and meet behind it.

Input: a program that `check_warp_stages` accepts. Output: in each gap between stages the wait first, then arithmetic, so that this
belongs to the stage behind it; arithmetic behind the last stage belongs to that stage. An example:

    for %n { stage_start A stage_end  add wait  stage_start B stage_end  add }
    halves_part  for uniform %n { stage_start A stage_end  wait add  stage_start B  add stage_end }  halves_meet

Triton takes all that stands between two borders for a stage (WarpPipeliner): a sum behind the last border would be a stage of its
own, with a barrier. What stands in front of a wait would belong to no stage. And of borders without a loop around them it makes
a pipeline of the whole block, with what stands before the loop in the first stage, where no half waits for the other one's part. So
a loop of one trip must stay a loop: its end is a number that no pass knows.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program, Value
from ..analysis.warp_stages import StagedBlock, staged, waits_for_own


def settle_stages(program: Program) -> Program:
    """The program with its stages side by side."""
    return replace(program, body=_settled(program.body)) if program.named("stage_start") else program


def _settled(block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        inside = op.with_blocks(_settled)
        ops += _around(inside) if op.name == "for" and staged(op.blocks[0]) is not None else [inside]
    found = staged(block.with_ops(ops))
    return block.with_ops(ops if found is None else _in_order(found))


def _around(loop: Op) -> list[Op]:
    """The loop, to an end that no pass knows, between the places where its halves part and meet."""
    end = Value(loop.end.type)
    return [Op("uniform", (loop.end, ), (end, ), site=loop.site), Op("halves_part", site=loop.site), loop.with_operands(end=end),
            Op("halves_meet", site=loop.site)]


def _in_order(found: StagedBlock) -> list[Op]:
    ops: list[Op] = []
    for gap, stage in zip(found.gaps, found.stages):
        ops += [*_parted(gap), stage.start, *stage.ops, stage.end]
    waits, others = _split(found.gaps[-1])
    return [*ops[:-1], *others, ops[-1], *waits, *found.last]


def _parted(gap: tuple[Op, ...]) -> list[Op]:
    waits, others = _split(gap)
    return [*waits, *others]


def _split(gap: tuple[Op, ...]) -> tuple[list[Op], list[Op]]:
    """The waits of a gap, and what else stands there: a wait gives tokens only, which arithmetic does not take."""
    return [op for op in gap if waits_for_own(op.row)], [op for op in gap if not waits_for_own(op.row)]
