"""A plugin of pytest: which tests cost more than half a second of CPU, at the end of a run.

    Tests over 0.5 CPU seconds: 73, 81.3 s in all
       4.1  tests/tutorials/test_10_blackwell_attention.py::test_it_compiles

Input: the run of the tests, in one process or in those of `tests.forked`. Output: those lines, the dearest first; nothing if there
are none.
Counted is user and system time of the process, of those that it has waited for and of those of `tests.processes`, in all phases of
a test: what else runs on the machine adds little. Whatever a fixture makes for a module counts to the first test that asks.
"""

from __future__ import annotations

import os

import pytest

from tests import processes

MUCH, SHOWN = 0.5, 12           # CPU seconds of a test; lines
_NAME = "cpu seconds"


def _now() -> float:
    return sum(os.times()[:4]) + sum(processes.seconds)


class CpuSeconds:
    """Notes the seconds on the report of a test's last phase, which workers hand to the process that prints."""

    def __init__(self) -> None:
        self.begun, self.dear = 0.0, []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        self.begun = _now()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "teardown" and (taken := _now() - self.begun) > MUCH:
            report.user_properties.append((_NAME, taken))
        return report

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.dear += [(value, report.nodeid) for name, value in report.user_properties if name == _NAME]

    def pytest_terminal_summary(self, terminalreporter):
        if self.dear:
            whole = sum(taken for taken, _ in self.dear)
            terminalreporter.write_line(f"Tests over {MUCH} CPU seconds: {len(self.dear)}, {whole:.1f} s in all")
            for taken, test in sorted(self.dear, reverse=True)[:SHOWN]:
                terminalreporter.write_line(f"{taken:6.1f}  {test}")


def pytest_configure(config):
    config.pluginmanager.register(CpuSeconds(), "mimw-cpu-seconds")
