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

from ...errors import SimulatorMisuse, TargetError
from ...runtime.simulate import Launch, instead
from ...target import Target

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
            return f"no time, so nan: {self.unknown or 'it launches no kernel of mimw, and work of torch is not predicted'}"
        return f"predicted for {self.chip}, not measured: {', '.join(f'{name} {time:.1f} us' for name, time in self.microseconds)}"


# Who is told of times, in place of stderr.
heard: ContextVar[Callable[[Timed], None] | None] = ContextVar("heard", default=None)
_said: set[tuple[str, str]] = set()


def timed(function: Callable[[], Any]) -> Timed:
    """Call the function with its launches predicted in place of simulated."""
    from .predict import predicted

    found = Timed()

    def predict(launch: Launch, chip: Target):
        if len(found.microseconds) >= LAUNCHES:
            found.unknown = found.unknown or f"it launches more than {LAUNCHES} times"
        if found.unknown:
            return None
        try:
            one = predicted(launch, chip)
        except (SimulatorMisuse, TargetError) as error:
            found.unknown = f"{launch.name} cannot be predicted: {getattr(error, 'message', error)}"
            return None
        found.microseconds.append((one.name, one.microseconds))
        found.chip = one.chip
        return one

    token = instead.set(predict)
    try:
        function()
    finally:
        instead.reset(token)
    return found


def predicted_time(stock: Callable, fn: Callable[[], Any], warmup: float = 25, rep: float = 100, grad_to_none=None, quantiles=None,
                   return_mode: str = "mean", **others: Any) -> Any:
    """The time of `fn()` in the form in which `stock`, `do_bench` or one of its kin, gives it; of the other arguments none matters
    here."""
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


def _say(name: str, found: Timed) -> None:
    """One line on stderr for each place that asks, and each thing to say."""
    frame = sys._getframe(3)        # past the function that stands in place of Triton's
    place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
    text = str(found)
    if (place, text) not in _said:
        _said.add((place, text))
        sys.stdout.flush()
        print(f"mimw: {place}: {name}: {text}", file=sys.stderr, flush=True)
