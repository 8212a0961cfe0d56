"""Stages of a block: what stands in each of them, and what stands between.

Input: a block. Output: its `Stage`s in order, and the ops before, between and behind them: one gap more than there are stages. An
example:

    add; stage_start; local_load; stage_end; async_wait; stage_start; dot; stage_end; yield
    gaps (add), (async_wait), ();  stages (local_load), (dot);  the terminator belongs to no gap
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Block, Op, OpDef

HALF = 4  # waves, one on each SIMD of a compute unit: for Triton those from the fifth on are the second half (ConvertWarpPipeline)


@dataclass(frozen=True)
class Stage:
    """One stage: its marks, and the ops between."""

    start: Op
    ops: tuple[Op, ...]
    end: Op


@dataclass(frozen=True)
class StagedBlock:
    """A block in stages. `nested` is the first mark of a stage that begins in another one, or None."""

    gaps: tuple[tuple[Op, ...], ...]
    stages: tuple[Stage, ...]
    last: tuple[Op, ...]
    nested: Op | None = None


def staged(block: Block) -> StagedBlock | None:
    """The stages of a block; None if it has none of its own."""
    if not any(op.name == "stage_start" for op in block.ops):
        return None
    gaps, stages, start, nested, ops = [], [], None, None, []
    for op in block.ops:
        if op.name == "stage_start" and start is None:
            gaps.append(tuple(ops))
            start, ops = op, []
        elif op.name == "stage_end" and start is not None:
            stages.append(Stage(start, tuple(ops), op))
            start, ops = None, []
        else:
            nested = nested or (op if op.name == "stage_start" else None)
            ops.append(op)
    last = tuple(ops[-1:] if ops and "terminator" in ops[-1].row.traits else ())
    gaps.append(tuple(ops[:len(ops) - len(last)]))
    return StagedBlock(tuple(gaps), tuple(stages), last, nested)


def waits_for_own(row: OpDef) -> bool:
    """True if an op of that row waits for what its own task has started, and for nobody else."""
    return "wait" in row.effects and not row.barrier and not row.blocks
