"""Compile-time values that a plain assignment keeps compile-time.

Input: a number that each copy of a task knows by itself. Output: a `constexpr` that stays one under a name. For example:

    cid = tlx.async_task_replica_id()                a `KeptConstant`
    tlx.named_barrier_arrive(9 + cid, 256)           9 + cid is one, too: the frontend keeps what is computed from it and constants

Of any other constant a plain assignment makes a run-time scalar, as in Triton.
"""

from __future__ import annotations

import triton.language.core as tl


class KeptConstant(tl.constexpr):
    """A number or a truth value that is known in each copy of a task."""
