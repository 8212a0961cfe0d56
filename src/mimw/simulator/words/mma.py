"""Asynchronous dots, and the wait for them; `tl.dot` is in `tiles`.

Input: a task at an op of `ir/ops/mma.py`. Output: a `PendingDot` in the task's environment, and its array once a wait has
finished it.

    %pending = async_dot %a %b %acc; %product = async_dot_wait 0 %pending

An asynchronous dot reads its shared-memory operands when it completes, in the order of issue within its task. An operand that is
overwritten before the wait gives wrong numbers here as it does on the GPU.
"""

from __future__ import annotations

import numpy as np

from ...compiler.triton_port.interpreter import matmul
from ...errors import AsyncDotReadEarly
from ..costs import abstract as costs
from ..machine.guarded import PendingDot
from ..machine.poison import Poisoned
from ..machine.table import handles, made_for
from ..machine.tasks import InFlight, Wait, all_but
from ..memory.values import numpy_type
from ..memory.views import View
from ..memory_model import ASYNC


@handles("async_dot", switches=True)
def async_dot(task, op):
    _start(task, op, Facts(op))


@made_for("async_dot")
def async_dot_op(op):
    facts = Facts(op)
    return lambda task, op: _start(task, op, facts)


def async_dot_of(op, product):
    """The handler of an `async_dot` whose numbers nobody needs: it starts, lands and is waited for as any, and gives `product`."""
    facts = Facts(op)
    return lambda task, op: _start(task, op, facts, product)


class Facts:
    """Facts about an asynchronous dot that hold in every run: its numpy type, the tensor core's time, and its name in a
    timeline."""

    def __init__(self, op):
        self.dtype, self.duration = numpy_type(op.result.type, op.site), costs.dot(op)
        m, n = op.result.type.shape
        self.label = f"{m} x {n} x {op.a.type.shape[-1]}"
        self.shape = (m, n)


def _start(task, op, facts: Facts, product=None) -> None:
    machine, acc = task.machine, None if op.acc is None or op.attrs.get("fresh") else task.env[op.acc]
    if acc.__class__ is Poisoned:
        acc.refuse(task, op)
    precision = op.precision
    a, b = [data if isinstance(data := task.env[value], View) else task.read(value, op) for value in (op.a, op.b)]
    pending = PendingDot(op)
    if isinstance(acc, PendingDot) and not acc.done and not any(acc is dot.destination for dot in task.dots):
        raise AsyncDotReadEarly(f"{task.where}: the accumulator of the async_dot at {op.site} is still being computed "
                                "by another task", op.site, acc.op.site)

    def land(dot: InFlight) -> None:
        start = acc.result if isinstance(acc, PendingDot) else acc
        pending.result = _product(_data(a), _data(b), start, facts, precision) if product is None else product
        pending.done = True
        task.dots.remove(dot)

    earliest = max(task.clock, task.dots[-1].end - costs.DOT_LATENCY) if task.dots else task.clock
    start = task.cta.unit("tensor core").reserve(earliest, facts.duration)
    end = start + facts.duration
    if machine.trace is not None:
        machine.record(task.cta, "tensor core", "dot", start, end, facts.label, op)
    dot = InFlight("async_dot", task, op, end + costs.DOT_LATENCY, land, destination=pending,
                   follows=task.dots[-1] if task.dots else None, group="wgmma")
    machine.start(dot)
    for operand in (a, b):
        if isinstance(operand, View):
            operand.touch(dot, op, write=False, proxy=ASYNC)
            operand.check(task, op)
    machine.order.commit(task, "wgmma")
    task.dots.append(dot)
    task.env[op.result] = pending


def _product(a, b, start, facts: Facts, precision) -> np.ndarray:
    """The product, with what it is added to. In a tile of powers of two that is wider than B, the columns behind stay."""
    columns = b.shape[1]
    if columns >= facts.shape[1]:
        return matmul(a, b, start, facts.dtype, precision)
    found = np.zeros(facts.shape, facts.dtype) if start is None else np.array(start)
    found[:, :columns] = matmul(a, b, None if start is None else found[:, :columns].copy(), facts.dtype, precision)
    return found


@handles("async_dot_wait")
def async_dot_wait(task, op):
    """Blocks until all but the newest groups are done, then hands on the array, or the dot if that is still running."""
    yield None
    pending, value = int(op.pending), task.env[op.value]
    wanted = list(task.dots)[:max(0, len(task.dots) - pending)]
    while not all([dot.landed for dot in wanted]):
        yield Wait(op, "group", task, lambda: f"{sum(not dot.landed for dot in wanted)} asynchronous dots of its own",
                   lambda: wanted)
    task.machine.order.wait_group(task, "wgmma", pending)
    task.wait_until(max([dot.end for dot in wanted], default=0.0), op, all_but("dots", pending))
    task.env[op.result] = value.result if isinstance(value, PendingDot) and value.done else value


def _data(operand):
    return operand.data if isinstance(operand, View) else operand
