"""`mimw.check(..., mends=True)`: a check that looks for a mend of what it finds.

Input: a function that checks a launch, as `mimw.check` does. Output: the same function, whose reports have a mend:

    @mending
    def check(kernel, grid, *args, mends=False, seeds=8, **meta): ...
    check(row_sums, (1, ), x, y, 7, N=64, mends=True).mend.text

The changed kernels are checked with the same arguments: first by the seed of a finding, and what that does not find fault with as a
whole.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...compiler.triton_port.runtime import is_gluons
from ...errors import RemarkWarning
from ...runtime.call import Given
from ...runtime.simulate import prepare
from ...simulator import run
from ...target import wanted
from ..search import Search
from ..search.arrays import Arrays
from ..search.sample import chosen
from .edits import Mend
from .search import mend_for

SECONDS = 20.0      # for the changes of one kernel


def mending(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with a keyword `mends`: whether to look for a mend, or for how many seconds."""

    @functools.wraps(function)
    def call(kernel, grid, *args, mends: bool | float = False, **keywords):
        if not mends:
            return function(kernel, grid, *args, **keywords)
        if "seeds" in keywords and not isinstance(keywords["seeds"], int):
            keywords["seeds"] = list(keywords["seeds"])
        report = function(kernel, grid, *args, **keywords)
        return mended(report, function, kernel, grid, args, keywords, SECONDS if mends is True else float(mends))

    return call


def function_of(kernel: Any) -> Any:
    """The JIT function that is launched, under options, autotuners and heuristics."""
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def mended(report: Any, function: Callable[..., Any], kernel, grid, args, keywords: dict[str, Any], seconds: float,
           most: int | None = None) -> Any:
    """The report of `function(kernel, grid, *args, **keywords)` with a mend, if one is found. One that is clean is that of every
    finding (`_told`). At most so many changes are tried. A kernel of Gluon's has none: changes are in words of ours."""
    kept = report.ok or is_gluons(function_of(kernel))
    mend = None if kept else _Mender(function, kernel, grid, args, keywords, report).mend(seconds, most)
    if mend is None:
        return report
    findings = report.findings if mend.left else tuple(_told(one, mend) for one in report.findings)
    return replace(report, findings=findings, mend=mend)


def _told(finding: Any, mend: Mend) -> Any:
    """A finding with the mend in place of its own, which was not tried. What the compiler has counted, and the parity that was
    tried, stand in front of it: they say why."""
    certain = finding.hint and (finding.seed is None or finding.kind == "PhaseOffByOne")
    hint = f"{finding.hint}\nFor example: {mend}" if certain else str(mend)
    return replace(finding, hint=hint, edits=mend.edits)


class _Mender:
    """The looks at one launch that a search for a mend takes."""

    def __init__(self, function, kernel, grid, args, keywords: dict[str, Any], report):
        self.function, self.grid, self.args, self.report = function, grid, args, report
        self.kernel, self.given = kernel, {}
        while isinstance(self.kernel, Given):
            self.kernel, self.given = self.kernel.fn, {**self.kernel.given, **self.given}
        own = {one.name for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY}
        self.options = {name: value for name, value in keywords.items() if name in own}
        self.meta = {name: value for name, value in keywords.items() if name not in own}
        self.first = next((one.seed for one in report.findings if one.seed is not None), 0)

    def mend(self, seconds: float, most: int | None) -> Mend | None:
        return mend_for(self.kernel, self.report.findings, self._look, seconds, self._result, most)

    def _look(self, kernel, whole: bool) -> tuple:
        if not whole:
            return self._first_look(kernel)
        how = {**self.options, "shrink": False, "progress": None, "jobs": 1}
        return self.function(Given(kernel, self.given), self.grid, *self.args, **how, **self.meta).findings

    def _first_look(self, kernel) -> tuple:
        """The error in which the run of the first finding's seed ends, if it ends in one."""
        launch = self._launch(kernel)
        search = Search(launch, ctas=chosen(self.options.get("ctas", "all"), launch))
        try:
            error = search.attempt(self.first)
        finally:
            search.saved.restore()
        return () if error is None else (error, )

    def _launch(self, kernel):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RemarkWarning)
            chip = wanted(self.options.get("target")).name
            return prepare(Given(kernel, self.given), self.grid, self.args, dict(self.meta), chip, self.options.get("gpus"),
                           self.options.get("memory", ()))

    def _result(self, kernel) -> bytes:
        """The arrays after one run, which are then as before."""
        launch = self._launch(kernel)
        saved = Arrays(launch.arrays())
        try:
            run(launch.program, launch.grid, launch.values, seed=0, gpus=launch.gpus, memory=launch.memory)
            return b"".join(array.tobytes() for array, _ in saved.copies)
        finally:
            saved.restore()
