"""`gluon.jit` where launches are simulated: Gluon's decorator, whose kernels are launched on the simulator.

Input: a Python function in words of Gluon's. Output: Gluon's own kernel, whose launch needs no GPU and takes arrays of numpy, too:

    mimw.install_aliases()                      as `mimw run` and `pytest --mimw-check` do; then `gluon.jit` is the function here
    kernel[(2, )](x, y, 256, BLOCK=128)         compiled by Gluon up to TTGIR, and that is simulated (docs/TTGIR.md)

A kernel that was decorated before the name was ours goes through Triton's launch, which makes a binary first and takes tensors of
torch alone (`handles.SimulatedLauncher`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiler.triton_port.runtime import GluonJITFunction
from ..ir.callers import ends_at_call
from .before_launch import check_launch, checking
from .jit import simulated_launch
from .simulating import simulating


class GluonFunction(GluonJITFunction):
    """A kernel of Gluon's, which is simulated where a launch of ours would be."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        launch = super().__getitem__(grid)
        return ends_at_call(launch) if simulating() else launch

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup and checking():
            check_launch(self, grid, args, kwargs)
        if warmup or not simulating():
            return super().run(*args, grid=grid, warmup=warmup, **kwargs)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        return simulated_launch(self, grid, args, kwargs, lambda: self.warmup(*args, grid=grid, **kwargs))


def gluon_jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`gluon.jit`, with its arguments: the decorator, or one with these options."""
    return (lambda function: GluonFunction(function, **options)) if fn is None else GluonFunction(fn, **options)
