"""Cluster launch control: requests for clusters that have not started, and their answers (PTX ISA, clusterlaunchcontrol).

Input: a task at an op of `ir/ops/launch_control.py`. Output: a request in flight; then the ids of a cluster that never starts. For
example:

    clc_issue %response %full      some time later: 16 bytes in the response, completed on the barrier

A request is decided when it lands: till then admission may have started the cluster that it would have got. What the 16 bytes
mean is the hardware's affair; here they are an x, a y and a z of 32 bits, and a flag.
"""

from __future__ import annotations

import numpy as np

from ...errors import RequestAfterRefusal, fail
from ..machine.operands import enabled
from ..machine.table import handles
from ..machine.tasks import Cta, InFlight, Task
from ..memory.mbarriers import Mbarrier, single
from ..memory.peers import barrier_of, check_there, peer, view_of
from ..memory.views import View
from ..memory_model import ASYNC
from ..memory_model.shadow import address_of
from .copies import issue

KIND = "cluster launch request"
UNIT = "launch control"


class _Request:
    """One request: the answer is the same wherever it lands, and found when it first does."""

    def __init__(self, task: Task):
        self.task, self._taken = task, None

    def taken(self) -> list:
        """The program ids of the cluster that it has got, [] for a refusal."""
        if self._taken is None:
            self._taken = self.task.machine.take_waiting(self.task.cta.gpu)
        return self._taken


def _words(taken: list) -> np.ndarray:
    """The two 64-bit words of an answer."""
    numbers = (*taken[0], 1) if taken else (-1, -1, -1, 0)
    return np.array(numbers, np.int32).view(np.int64)


def _ask(task: Task, op, request: _Request, cta: Cta, view: View, barrier: Mbarrier) -> None:
    """Put the answer for one CTA in flight."""
    size = view.data.nbytes

    def land(answer: InFlight) -> None:
        check_there(cta, task, op, f"the {KIND} that it issued lands in")
        taken = request.taken()
        view.arrive(answer, _words(taken))
        if taken:
            cta.granted[address_of(view.data)] = op, taken[0]
        barrier.complete(answer, size)

    elsewhere = {} if cta is task.cta else {"lands_in": cta}
    whose = f" of {cta}" if elsewhere else ""
    answer = issue(task, op, KIND, UNIT, size, task.machine.request_latency, land, view.name, destination=view, **elsewhere,
                   lands_by=barrier.landing(whose))
    view.touch(answer, op, write=True, proxy=ASYNC)
    barrier.expect(answer)
    view.expect(answer)


def _check_not_refused(task: Task, op) -> None:
    seen = task.cta.refused
    if seen is not None:
        raise fail(RequestAfterRefusal, task, op, f"asks for another cluster after its CTA has seen, at {seen.site}, that a "
                   "request was refused: the result is undefined", seen.site,
                   hint="leave the loop over tiles as soon as a request is refused: no later one brings anything")


@handles("clc_issue", switches=True)
def clc_issue(task, op):
    _check_not_refused(task, op)
    _ask(task, op, _Request(task), task.cta, task.env[op.response], single(task, op, op.barrier))


@handles("clc_issue_all", switches=True)
def clc_issue_all(task, op):
    """One answer lands in each CTA of the cluster, in any order."""
    if not enabled(task, op, op.predicate):
        return
    _check_not_refused(task, op)
    request, view, barrier = _Request(task), task.env[op.response], single(task, op, op.barrier)
    for rank in op.ranks:
        cta = peer(task, op, rank)
        _ask(task, op, request, cta, view_of(cta, view, task, op), barrier_of(cta, barrier, task, op))


@handles("clc_query")
def clc_query(task, op):
    view = task.env[op.response]
    view.touch(task, op, write=False)
    task.cta.granted.pop(address_of(view.data), None)
    view.check(task, op)
    *first, taken = view.data.copy().view(np.int32)
    if not taken and task.cta.refused is None:
        task.cta.refused = op
    for result, number in zip(op.results, first):
        task.env[result] = np.int32(number if taken else -1)
