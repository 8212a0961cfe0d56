"""The table of what ops mean to the machine with a clock, and the figure of the time that they take before their effect.

Input: names of ops, with `@timed`. Output: entries of `TIMED`; an op without an entry keeps its usual meaning. For example:

    @timed("dot", "dot_scaled")
    def dot(task, op): ...
"""

from __future__ import annotations

from ...ir import Op
from ..machine.interpreter import run_block
from ..machine.tasks import Task

TIMED: dict[str, object] = {}

# Figure of the time that an op takes before it has its effect.
BEFORE = {
    "barrier_wait": "barrier.wait", "barrier_arrive": "barrier.arrive", "barrier_expect": "barrier.expect",
    "raw_arrives": "barrier.arrive", "remote_arrive": "barrier.arrive", "named_barrier_wait": "barrier.named",
    "named_barrier_arrive": "barrier.named",
    "barrier_init": "barrier.arrive", "barrier_invalidate": "barrier.arrive",      # not measured: one thread writes one word, too
    "cluster_barrier": "barrier.cluster", "barrier": "barrier.named", "fence": "barrier.fence", "tma_load": "tma.issue",
    "tma_load_multicast": "tma.issue", "tma_store": "tma.issue", "bulk_load": "tma.issue", "bulk_store": "tma.issue",
    "tma_gather": "tma.issue", "tma_gather_multicast": "tma.issue", "tma_load_pixels": "tma.issue", "tma_scatter": "tma.issue",
    "async_remote_copy": "tma.issue", "async_dot": "tensor.issue", "async_dot_wait": "tensor.wait",
    "tma_store_wait": "tma.wait", "async_wait": "copy.wait", "warp_specialize": "launch.tasks",
    "halves_part": "barrier.named",
    "clc_issue": "barrier.expect", "clc_issue_all": "barrier.expect",
    "tcgen05_commit": "tcgen05.commit",
    "tcgen05_commit_pair": "tcgen05.commit", "tma_load_pair": "tma.issue", "tma_load_pair_multicast": "tma.issue",
}


def timed(*names: str):
    """Register the timed meaning of ops."""
    def register(run):
        TIMED.update(dict.fromkeys(names, run))
        return run
    return register


def skip(task: Task, op: Op) -> None:
    """No value: nobody needs it."""
    for result in op.results:
        task.env[result] = None


def assumed_if(task: Task, op: Op):
    """A branch that depends on data is taken to be true; the report says so."""
    block = op.blocks[0]
    yield from run_block(task, block)
    for result, value in zip(op.results, block.yielded):
        task.env[result] = task.env[value]
