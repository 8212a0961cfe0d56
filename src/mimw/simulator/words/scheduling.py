"""Hints for the compiler behind Triton, which change no value.

Input: a task at an op of `ir/ops/scheduling.py`. Output: the value itself. For example:

    %m = uniform %n      %n; an error if it differs between threads, of which the chip would take the first lane's
"""

from __future__ import annotations

import numpy as np

from ..machine.table import handles
from ..memory.values import numpy_type


@handles("sched_barrier")
def sched_barrier(task, op):
    """Say nothing: the simulator does ops in order."""


@handles("uniform")
def uniform(task, op):
    task.env[op.result] = task.take(op.value, op)


@handles("distinct_range")
def distinct_range(task, op):
    task.env[op.result] = np.arange(op.start, op.end, dtype=numpy_type(op.result.type))
