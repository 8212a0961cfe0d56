"""Stages of a loop: Triton's borders behind them, from which two of its passes make the pipeline.

Input: the end of a stage. Output: a mark, behind which the next stage begins:

    stage_end 'read' 0        rocdl.sched.barrier none {triton.warp_pipeline.border = "read", triton.warp_pipeline.priority = 0}

Triton puts the barriers in front of the loop and behind it itself (`ConvertWarpPipeline`).
"""

from __future__ import annotations

from ....ir import Op
from ..emitter import Emitter, emits

_NO_PRIORITY = -1


@emits("stage_start", "halves_part", "halves_meet")
def marks(emitter: Emitter, op: Op):
    """Emit nothing: the border behind a stage tells Triton all of it."""


@emits("stage_end")
def stage_end(emitter: Emitter, op: Op):
    emitter.builder.create_warp_pipeline_border(op.label or "stage", _NO_PRIORITY if op.priority is None else op.priority)
