"""Program ids, hardware threads, votes and reductions of a warp, the clock.

Input: a task at an op of `ir/ops/threads.py`. Output: a number in the task's environment. For example:

    %x = thread_id 0      0 to 127 in a task of four warps that starts at warp 0: a `PerThread`
"""

from __future__ import annotations

import numpy as np

from ..machine.table import handles
from . import lanes


@handles("get_program_id")
def get_program_id(task, op):
    task.env[op.result] = np.int32(task.cta.index[op.axis])


@handles("get_num_programs")
def get_num_programs(task, op):
    task.env[op.result] = np.int32(task.machine.grid[op.axis])


@handles("thread_id")
def thread_id(task, op):
    """Axis 0 is the number of each thread in the CTA; a CTA has no other axes, so they are 0."""
    first = lanes.WARP * task.first_warp
    numbers = np.arange(first, first + lanes.threads(task), dtype=np.int32)
    task.env[op.result] = lanes.settled(numbers) if op.axis == 0 else np.int32(0)


@handles("vote_ballot")
def vote_ballot(task, op):
    task.env[op.result] = lanes.ballot(task, op, op.mask, task.read(op.predicate, op))


@handles("warp_redux")
def warp_redux(task, op):
    task.env[op.result] = lanes.redux(op, task.read(op.value, op))


@handles("clock64")
def clock64(task, op):
    task.env[op.result] = np.int64(task.clock)
