"""The error for a CTA that ends with work that nobody does.

Input: the last task of a CTA to end, when an answer to a request of the CTA has not been read. Output: a `WorkLost`. For example:

    raise lost(task)        the request at a.py:9 has got the work of CTA (4, 0, 0), which will not start, and no task ... read it
"""

from __future__ import annotations

from ...errors import WorkLost, fail
from .tasks import Task


def lost(task: Task) -> WorkLost:
    """The error for a CTA of which `task` is the last to end, and which has got work that it does not know of."""
    request, taken = next(iter(task.cta.granted.values()))
    return fail(WorkLost, task, request, f"the request at {request.site} has got the work of CTA {taken}, which will not start, "
                f"and no task of {task.cta} has read the answer",
                hint="read each answer by clc_consumer, and do the work that it names")
