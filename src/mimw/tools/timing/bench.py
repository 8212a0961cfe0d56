"""`triton.testing.do_bench` where launches are simulated: the predicted time of the launches of a function, marked as such.

Input: a function that launches kernels. Output: milliseconds, in the form that `do_bench` gives them. For example:

    triton.testing.do_bench(lambda: add(x, y))      0.0052, and one line on stderr:
    mimw: add.py:52: do_bench: predicted for NVIDIA H200, not measured: add_kernel 5.2 us

The function is called once. Its launches are predicted by `mimw.predict` and not run, so what they write stays as it was. A
function without a launch of ours has no time, which is NaN: of torch's own work nothing is predicted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from ...errors import MimwError, SimulatorMisuse, TargetError
from ...runtime.call import Given
from ...runtime.jit import MimwFunction
from ...runtime.simulating import simulating

LAUNCHES = 64           # of one call that are predicted: a function with more is one that nobody waits for


@dataclass
class Timed:
    """The predicted launches of a function: `microseconds` by the kernel's name, on what `chip`, or why one has no time."""

    microseconds: list[tuple[str, float]] = field(default_factory=list)
    chip: str = ""
    unknown: str = ""

    @property
    def milliseconds(self) -> float:
        """NaN if nothing was launched, or a launch has no time."""
        return math.nan if self.unknown or not self.microseconds else sum(time for _, time in self.microseconds) / 1000

    def __str__(self) -> str:
        if self.unknown or not self.microseconds:
            return f"no time, so nan: {self.unknown or 'it launches no kernel of ours, and work of torch is not predicted'}"
        return f"predicted for {self.chip}, not measured: {', '.join(f'{name} {time:.1f} us' for name, time in self.microseconds)}"


heard: ContextVar[Callable[[Timed], None] | None] = ContextVar("heard", default=None)     # who says of times what they are, if not stderr
_said: set[tuple[str, str]] = set()


def timed(function: Callable[[], Any]) -> Timed:
    """Call the function with its launches predicted in place of simulated."""
    from .predict import predict

    found = Timed()

    def instead(kernel: MimwFunction, grid, args, kwargs, memory):
        if len(found.microseconds) >= LAUNCHES:
            found.unknown = found.unknown or f"it launches more than {LAUNCHES} times"
        if found.unknown:
            return None
        try:
            one = predict(Given(kernel, {**kwargs, **memory}), grid, *args)
        except (SimulatorMisuse, TargetError) as error:
            found.unknown = f"{kernel.__name__} cannot be predicted: {error.message}"
            return None
        found.microseconds.append((one.name, one.microseconds))
        found.chip = one.chip
        return one

    with mock.patch.object(MimwFunction, "simulated", instead):
        function()
    return found


def predicted_in_place_of(stock: Callable) -> Callable:
    """A function with the arguments of Triton's `do_bench` and its kin, which is `stock` where launches are not simulated."""

    def bench(fn: Callable[[], Any], warmup: float = 25, rep: float = 100, grad_to_none=None, quantiles=None, return_mode="mean",
              **others: Any) -> Any:
        if not simulating():
            given = {"warmup": warmup, **others} if "warmup" in stock.__code__.co_varnames else others
            return stock(fn, rep=rep, grad_to_none=grad_to_none, quantiles=quantiles, return_mode=return_mode, **given)
        for one in grad_to_none or ():
            one.grad = None
        found = timed(fn)
        hear = heard.get()
        if hear is not None:
            hear(found)
        else:
            _say(stock.__name__, found)
        if quantiles is not None:
            return found.milliseconds if len(quantiles) == 1 else [found.milliseconds] * len(quantiles)
        return [found.milliseconds] if return_mode == "all" else found.milliseconds

    bench.__name__, bench.__doc__, bench.__wrapped__ = stock.__name__, stock.__doc__, stock
    return bench


def _say(name: str, found: Timed) -> None:
    """One line on stderr for each place that asks, and each thing to say."""
    frame = sys._getframe(2)
    place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
    text = str(found)
    if (place, text) not in _said:
        _said.add((place, text))
        sys.stdout.flush()
        print(f"mimw: {place}: {name}: {text}", file=sys.stderr, flush=True)
