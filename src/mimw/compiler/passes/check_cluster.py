"""Words that name a CTA which the launch's clusters do not have; cluster barriers that never open.

Input: a program. Output: remarks, or a `KernelError` or `ProtocolError` with the author's line. For example, in
clusters of 2:

    tlx.barrier_arrive(free, remote_cta_rank=2)       refused: there are the ranks 0 and 1

Without a cluster a CTA is a cluster of its own, with rank 0: stores, copies and cluster barriers work there. Only
another CTA's barrier, by `remote_view` or an arrival on it, is then refused, as published. An op that can never run is
not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import KernelError, ProtocolError
from ...ir import Op, Program
from ...target import Target
from ..analysis import Remark, Uses, constant_of, never_runs, task_label, total_warps, uses_of


def check_cluster(program: Program, target: Target) -> tuple[Remark, ...]:
    """Raise `KernelError` for the first op that touches a CTA which the launch's clusters do not have, and `ProtocolError`
    for a cluster barrier in tasks that some warps of the CTA never reach. Remarks on ranks that there are not under a condition
    whose value is not known."""
    uses, remarks = uses_of(program), []
    for op in uses.ops:
        if op.row.peers and not isinstance(op.attrs.get("run"), int):  # tle.remote was checked where it stands
            if not never_runs(uses, op):
                remarks += _check_ranks(uses, op)
        elif op.name == "warp_specialize":
            _check_barriers(uses, op)
        elif op.name == "distributed_barrier" and uses.task(op) is not None and (uses.program.cluster_size > 1 or op.attrs["grid"]):
            raise ProtocolError("this distributed_barrier never opens: it waits for all threads of each CTA, and task "
                                f"'{task_label(uses.task(op))}' has only some of them.", op.site,
                                hint="call it before or after the tasks, or let the tasks synchronise on mbarriers.")
    return tuple(remarks)


def _check_ranks(uses: Uses, op: Op) -> Iterator[Remark]:
    size = uses.program.cluster_size
    if size == 1 and (op.row.view == "peer" or op.row.barrier == "arrive"):
        raise KernelError(f"Unexpected buffer remote view in 1cta mode: {op.name} reaches another CTA, and this kernel is launched "
                          "without a cluster.", op.site, hint="launch with ctas_per_cga=(2, 1, 1) or another shape")
    ranks = getattr(op, op.row.peers) if op.row.peers in op.row.places else ()
    for rank in ranks if isinstance(ranks, tuple) else (ranks, ):
        number = constant_of(uses, rank)
        if number is None or 0 <= number < size:
            continue
        wrong = f"{op.name} names the CTA with rank {number}; {ranks_of(uses.program)}."
        if not uses.conditional(op):
            raise KernelError(wrong, op.site, hint="launch with ctas_per_cga, or put it under a condition on the rank.")
        yield Remark(f"{wrong} The condition around it must not hold.", op.site)


def ranks_of(program: Program) -> str:
    """The ranks of the program's clusters, in words."""
    if program.cluster_size == 1:
        return "without a cluster there is rank 0 only, the CTA itself"
    return f"clusters of {program.cluster} have ranks 0 to {program.cluster_size - 1}"


def _check_barriers(uses: Uses, region: Op) -> None:
    """Every warp of the CTA has to come: those of all tasks, and those that only fill up a group of 4."""
    certain = [op for block in region.blocks for op in block.ops if op.name == "cluster_barrier"]
    if not certain:
        return
    first, tasks = certain[0], region.attrs["tasks"]
    absent = [task_label(task) for task, block in zip(tasks, region.blocks)
              if not any(op.name == "cluster_barrier" for outer in block.ops for op in outer.walk())]
    if absent:
        raise ProtocolError(f"the cluster_barrier in task '{task_label(uses.task(first))}' never opens: it waits for all warps of "
                            f"the CTA, and {', '.join(map(repr, absent))} never calls it.", first.site, region.site,
                            hint="call it in every task of the region, or outside of the region.")
    warps, extra = sum(task.num_warps for task in tasks[1:]), total_warps(uses.program) - uses.program.num_warps
    if warps != extra:
        raise ProtocolError(f"the cluster_barrier in task '{task_label(uses.task(first))}' never opens: it waits for all warps of "
                            f"the CTA. Beside the default task's it has {extra}, and the region's tasks have {warps}.",
                            first.site, region.site, hint="add tasks that only call cluster_barrier and fill groups of 4 warps.")
