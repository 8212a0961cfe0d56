"""Blocks whose ops an observer sees: a debugger stops there.

Input: a block made ready, and an observer (`hooks.Observer`). Output: the same block, which tells the observer of each op before it
runs, and of each wait of a task. For example:

    observed(prepare(block, 4), observer)       the same steps, results and interleaving; `observer.does(task, op)` before each

An op that meets poison is run several times (`spreading`), and the observer is told of it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .code import GENERATOR, Code
from .hooks import Observer
from .poison import PoisonMet
from .spreading import spread


def observed(code: Code, observer: Observer) -> Code:
    """The block with every op observed."""
    steps = [(op, _waiting(run, observer) if mode == GENERATOR else _running(run, observer), mode, cycles)
             for op, run, mode, cycles in code.steps]
    return Code(steps, code.switches, code.ops)


def _running(run: Callable, observer: Observer) -> Callable:
    def observed_run(task, op) -> None:
        observer.does(task, op)
        try:
            run(task, op)
        except PoisonMet:
            spread(task, op, run)

    return observed_run


def _waiting(run: Callable, observer: Observer) -> Callable:
    """Handlers that may block. Those with regions hand on the waits of the ops inside, which are observed there."""

    def observed_run(task, op) -> Iterator:
        observer.does(task, op)
        for wait in run(task, op):
            if wait is not None and wait.op is op:
                observer.waits(task, wait)
            yield wait

    return observed_run
