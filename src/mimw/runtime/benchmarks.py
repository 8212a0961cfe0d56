"""Benchmarks of `triton.testing` and of proton in published scripts: on a GPU Triton's own, elsewhere predictions.

Input: a function or class of `triton.testing`, or proton. Output: one to stand in its place, with the same arguments:

    triton.testing.do_bench = timed(triton.testing.do_bench)
    triton.testing.do_bench(step)           where launches are simulated, milliseconds that `mimw.predict` says

The tools that predict are loaded by their names, when a script first asks for a time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from .simulating import simulating


def timed(stock: Callable) -> Callable:
    """`do_bench`, or one of its kin."""

    def bench(*args: Any, **keywords: Any) -> Any:
        if not simulating():
            return stock(*args, **keywords)
        return import_module("mimw.tools.timing.bench").predicted_time(stock, *args, **keywords)

    bench.__name__, bench.__doc__, bench.__wrapped__ = stock.__name__, stock.__doc__, stock
    return bench


def reporting(stock: type) -> type:
    """`Mark`, the class of what `perf_report` makes."""

    class Mark(stock):
        def run(self, *args: Any, **keywords: Any) -> Any:
            if not simulating():
                return super().run(*args, **keywords)
            return import_module("mimw.tools.timing.perf_report").predicted_report(self.fn, self.benchmarks, *args, **keywords)

    return Mark


def profiling(proton: ModuleType) -> None:
    """Let `triton.profiler`, once it has been imported, profile predicted launches where launches are simulated."""
    if not simulating():
        return
    def of(name: str) -> Callable:
        return lambda *args, **keywords: getattr(import_module("mimw.tools.timing.proton"), name)(*args, **keywords)

    for name in ("start", "activate", "deactivate", "finalize", "profile"):
        setattr(proton, name, of(name))
    viewer = ModuleType("triton.profiler.viewer", "The viewer of a profile of predicted times.")
    viewer.parse, viewer.print_tree = of("parse"), of("print_tree")
    proton.viewer = sys.modules[viewer.__name__] = viewer
