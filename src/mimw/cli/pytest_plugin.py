"""`pytest --mimw-check`: each Triton launch of a test suite runs on the CPU, and is checked before it does.

Input: the options of pytest. Output: tests that fail with the report of what a check finds in one of their launches, a summary, and
findings for code review:

    pytest --mimw-check tests/gpu                   does not say how many interleavings: write --mimw-check=8 tests/gpu
    pytest tests/gpu --mimw-check                   8 interleavings
    pytest --mimw-check=20 --mimw-check-sarif=mimw.sarif

pytest finds this module by its entry point; it loads nothing of this package until an option asks for it. Launches are simulated as
under `mimw run -m pytest`: there is no GPU for the tests, and "cuda" is the CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

SEEDS = 8
_SENT = "mimw_check"        # what a worker of pytest-xdist sends
_HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}


def _seeds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of interleavings; with a path behind it, write "
                                         f"--mimw-check={SEEDS} {text}")
    return int(text)


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("mimw", "checks of Triton kernels")
    group.addoption("--mimw-check", nargs="?", const=SEEDS, type=_seeds, metavar="SEEDS",
                    help=f"run Triton launches on the CPU, and check each before under so many interleavings (default {SEEDS})")
    group.addoption("--mimw-check-sarif", metavar="FILE", help="with --mimw-check: write all findings there as SARIF 2.1.0")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Before any file of the user's is imported, so that kernels are decorated by mimw's own `triton.jit`."""
    options = early_config.known_args_namespace
    if options.mimw_check is None:
        if options.mimw_check_sarif:
            raise pytest.UsageError("--mimw-check-sarif goes with --mimw-check")
        return
    early_config.pluginmanager.register(Checks(early_config, options.mimw_check, options.mimw_check_sarif), "mimw-check")


class Checks:
    """The checks of one session; a worker of pytest-xdist sends its own to the process that reports."""

    def __init__(self, config: Any, seeds: int, sarif: str | None):
        from ..errors import MimwError
        from ..tools.every_launch import EveryLaunch
        if sarif and not Path(sarif).parent.is_dir():
            raise pytest.UsageError(f"--mimw-check-sarif: there is no folder {Path(sarif).parent}")
        self.sarif, self.folder = sarif, os.getcwd()
        self.every = EveryLaunch(seeds, self._found)
        self.pending: list[str] = []        # what was found since the last phase of a test
        self.lasting = contextlib.ExitStack()
        try:
            self._begin()
        except MimwError as error:
            raise pytest.UsageError(f"--mimw-check: {error}") from error
        config.add_cleanup(self.lasting.close)

    def _begin(self) -> None:
        from .. import install_aliases
        from ..runtime.before_launch import looking
        from ..runtime.torch_without_gpu import cuda_is_the_cpu
        from ..target import wanted

        wanted()        # refuses what MIMW_TARGET should not say
        for name, value in {"MIMW_SIMULATE": "1", "MIMW_MEMORY": "tensors", **_HIDDEN}.items():
            self.lasting.callback(_restore, name, os.environ.get(name))
            os.environ[name] = value
        install_aliases()
        self.lasting.enter_context(cuda_is_the_cpu())
        self.lasting.enter_context(looking(self.every.look))

    def _found(self, report: Any) -> None:
        """End the launch, and with it the test. The error is none that a test for errors of its kernels would expect."""
        text = f"mimw found this in {report.kernel}, launched at {_launched_at()}:\n\n{report}"
        self.pending.append(text)
        pytest.fail(text, pytrace=False)

    def pytest_collection_finish(self) -> None:
        self.pending.clear()        # a file that launches where it is imported has failed as a whole

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any):
        """A test that goes on after its launch has ended so, or launches in a thread, fails all the same."""
        report = yield
        if self.pending and report.outcome == "passed":
            report.outcome, report.longrepr = "failed", self.pending[0]
        self.pending.clear()
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        from dataclasses import replace
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            self.every.tally.reports = [replace(one, replay=None) for one in self.every.tally.reports]
            output[_SENT] = pickle.dumps(self.every.tally)
        elif self.sarif:
            from ..tools.sarif import sarif
            log = json.dumps(sarif(self.every.tally.reports, self.folder, "pytest"), indent=2)
            Path(self.folder, self.sarif).write_text(f"{log}\n", encoding="utf-8")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Add the counts of a worker of pytest-xdist."""
        if sent := getattr(node, "workeroutput", {}).get(_SENT):
            self.every.tally.add(pickle.loads(sent))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("mimw check", "-")
        terminalreporter.write_line(str(self.every.tally))
        if self.sarif:
            terminalreporter.write_line(f"for code review: {Path(self.folder, self.sarif)}")


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _launched_at() -> str:
    """FILE:LINE of the user's innermost call: in no file of this package, of Triton, of torch or of pytest."""
    ours = tuple(f"{Path(module.__file__).parent}{os.sep}" for module in (
        sys.modules.get(name) for name in ("mimw", "triton", "torch")) if module is not None)
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(ours) or frame.f_code.co_filename == __file__):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
