"""Stages that the two halves of a work-group's waves can run one stage apart.

Input: a program. Output: nothing, or a `KernelError` with the author's lines. For example:

    for i in range(n):
        with tlx.warp_pipeline_stage("read"): ...
        tl.store(..)                                   refused: it stands between stages
        with tlx.warp_pipeline_stage("multiply"): ...

Triton makes a pipeline of a loop whose body has at least two stages, with nothing but waits between them; of any other loop it
says the name of a pass (WarpPipeliner, ConvertWarpPipeline). While one half is in a stage the other half is in the one before. So a
word that all waves of the work-group do together cannot stand in a stage: half of them would do it later.
"""

from __future__ import annotations

from ...errors import KernelError
from ...ir import Block, Op, Program
from ...target import Target
from ..analysis.meetings import meets
from ..analysis.registers import regions
from ..analysis.warp_stages import HALF, StagedBlock, staged, waits_for_own

_HALVES = "two halves of the waves run the stages of a loop one stage apart"


def check_warp_stages(program: Program, _: Target) -> None:
    """Raise `KernelError` at the first stage, or op in or between stages, that cannot be run by halves."""
    stages = program.named("stage_start")
    if not stages:
        return
    if program.num_warps != 2 * HALF:
        raise KernelError(f"warp_pipeline_stage: {_HALVES}, and each half is {HALF} waves; this kernel is launched with num_warps="
                          f"{program.num_warps}.", stages[0].site, hint=f"launch with num_warps={2 * HALF}.")
    _look(program.body, None, None)
    if found := regions(program):
        raise KernelError(f"warp_pipeline_stage: {_HALVES}, and the barriers between stages are of all waves; in a kernel with "
                          "tasks those of the tasks wait for their start at the same barrier.", stages[0].site, found[0].site,
                          hint="make two kernels of it, or do without tasks: the stages take their place.")


def _look(block: Block, around: Op | None, task: Op | None) -> None:
    """Check the stages of a block, which is one of `around`'s, and of all blocks in it. `task`: the region of tasks around it."""
    found = staged(block)
    if found is not None:
        _check(found, around, task)
    for op in block.ops:
        for inner in op.blocks:
            _look(inner, op, op if op.name == "warp_specialize" else task)


def _check(found: StagedBlock, around: Op | None, task: Op | None) -> None:
    first = (found.stages[0].start if found.stages else found.nested).site
    if task is not None:
        raise KernelError(f"warp_pipeline_stage: {_HALVES}, and the barriers between stages are of all waves, in whatever task.",
                          first, task.site, hint="make two kernels of it, or do without tasks: the stages take their place.")
    if around is None or around.name != "for":
        what = "no loop" if around is None else f"the body of `{around.name}`, not directly in that of a loop over a range"
        raise KernelError(f"warp_pipeline_stage: {_HALVES}; this one stands in {what}.", first,
                          hint="put the stages directly in the body of a `for` loop over a range or tl.range; tl.static_range "
                               "unrolls its body, and leaves no loop.")
    if found.nested is not None:
        raise KernelError("warp_pipeline_stage: a stage begins in another one.", found.nested.site, first,
                          hint="end the one stage before the next one begins.")
    if len(found.stages) < 2:
        raise KernelError(f"warp_pipeline_stage: {_HALVES}; this loop has one stage.", first, around.site,
                          hint="put all of the body into two stages or more, such as one that reads and one that multiplies.")
    for stage in found.stages:
        for op in stage.ops:
            _check_inside(op, stage.start)
    for gap in found.gaps:
        _check_between(gap)
    ends = [next(filter(_waits, gap), None) for gap in (found.gaps[0], found.gaps[-1])]
    if None not in ends:
        raise KernelError("warp_pipeline_stage: waits stand both in front of the first stage and behind the last one, which are "
                          "the same place in a loop.", *(op.site for op in ends),
                          hint="wait at one of the two: behind the last stage, and once before the loop.")


def _check_inside(op: Op, start: Op) -> None:
    for inner in op.walk():
        row = inner.row
        if "loop" in row.traits:
            raise KernelError("warp_pipeline_stage: a loop stands in a stage; the halves could not tell when the stage ends.",
                              inner.site, start.site, hint="unroll it by tl.static_range, or make stages of its own body.")
        if inner.name == "stage_start":
            raise KernelError("warp_pipeline_stage: a stage begins in another one.", inner.site, start.site,
                              hint="end the one stage before the next one begins.")
        if waits_for_own(row):
            raise KernelError(f"warp_pipeline_stage: {row.word} waits in a stage; a wait counts for the stage that it "
                              "stands behind, since all waves of a half have to be done with it.", inner.site, start.site,
                              hint="put the wait between the stages, behind this one.")
        if "sync" in row.effects and row.needs_all_threads:
            raise KernelError(f"warp_pipeline_stage: {row.word} is for all waves of the work-group, of which half are in "
                              "another stage.", inner.site, start.site, hint="put it in front of the loop or behind it.")
        if why := meets(inner):
            raise KernelError(f"warp_pipeline_stage: {inner.name} waits for all waves of the work-group, of which half "
                              f"are in another stage: {why}.", inner.site, start.site,
                              hint='put it in front of the loop or behind it; an atomic op with sem="relaxed" waits for none.')


def _check_between(gap: tuple[Op, ...]) -> None:
    waits = [op for op in gap if _waits(op)]
    if len(waits) > 1:
        raise KernelError("warp_pipeline_stage: two waits stand between two stages, and there is one barrier to wait at.",
                          *(op.site for op in waits[:2]), hint="write one wait, for the fewest that may be in flight.")
    for op in gap:
        if not _waits(op) and (op.row.effects not in ({"pure"}, {"debug"}) or "dot" in op.row.traits):
            raise KernelError(f"warp_pipeline_stage: {op.row.word} stands between stages, where there is room for waits and "
                              "arithmetic only.", op.site, hint="put it into one of the stages.")


def _waits(op: Op) -> bool:
    return waits_for_own(op.row)
