"""Stages of a loop body that two halves of the waves run one stage apart.

Input: the arguments of a `with` statement's call, and the block. Output: ops that mark where the stage begins and ends. An example:

    for i in range(n):
        with tlx.warp_pipeline_stage("read", priority=0): ...          stage_start; ..; stage_end 'read' 0
        tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("multiply", priority=1): ...
"""

from __future__ import annotations

from ..core import check_in_kernel, compile_time, host_constructible
from ..numbers import is_int
from ..refuse import refuse
from .async_task import Region

__all__ = ["warp_pipeline_stage"]


@host_constructible
class warp_pipeline_stage(Region):
    """Mark one stage of a loop body. The first half of the waves runs one stage ahead of the second half, so that the one computes
    while the other reads. AMD only.

    args:      label    - (opt) a string, for who reads the code of the compiler
               priority - (opt) 0 to 3: who may issue first on a SIMD, the waves in this stage or those in another one. If one stage
                          of a loop has a priority, those without one have 0
    orders:    what a half did in a stage -> what the other half does two stages on, and later. Accesses to a buffer in one stage,
               or in neighbouring ones, are ordered by nothing: `mimw.check` says so (docs/MEMORY_MODEL.md). Nor are accesses
               of different waves to global memory, in whatever stages of the loop
    not:       copies, which are there for the other half one stage behind the stage that ends in their wait
    errors:    ValueError for another label or priority; TargetError on a chip that is not AMD's; KernelError at the line of a stage
               that stands in no `for` loop, alone, in another stage or in a task; of a loop, a wait, or a meeting of all waves in a
               stage, which an atomic op of another order than relaxed is, too; of anything but waits and arithmetic between
               stages; of a launch of other than 8 waves
    lowers to: rocdl.sched.barrier with Triton's mark of a border: s_setprio, s_barrier
    example:   with tlx.warp_pipeline_stage("load", priority=1): ...
    """

    def __init__(self, label=None, *, priority=None, _semantic=None, _generator=None):
        self.label = compile_time("tlx.warp_pipeline_stage", "label", label)
        self.priority = compile_time("tlx.warp_pipeline_stage", "priority", priority)
        self._semantic = _semantic
        if self.label is not None and not isinstance(self.label, str):
            refuse(ValueError, f"warp_pipeline_stage: label must be a string or None, got {self.label!r}")
        if self.priority is not None and (not is_int(self.priority) or not 0 <= self.priority <= 3):
            refuse(ValueError, f"warp_pipeline_stage: priority must be 0 to 3 or None, got {self.priority!r}")

    def __enter__(self):
        check_in_kernel("tlx.warp_pipeline_stage", self._semantic)
        self._semantic.builder.record("stage_start")
        return self

    def __exit__(self, *error) -> None:
        self._semantic.builder.record("stage_end", self.label, self.priority)
