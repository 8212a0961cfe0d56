"""A pytest fixture, `check_kernel`, for the tests of kernels of users.

Input: a launch, in a test that takes the fixture. Output: the report of `mimw.check`, or a failed test with that
report:

    pytest_plugins = ["mimw.testing.plugin"]                                in conftest.py, which switches the fixture on
    def test_copy(check_kernel): check_kernel(kernel, (1, ), source, target)
"""

from __future__ import annotations

import pytest

from ..tools.check import check
from ..tools.findings import Report


@pytest.fixture
def check_kernel():
    """`check_kernel(kernel, grid, *args, **options)` runs `mimw.check` and fails the test with the report of what it finds."""

    def checked(kernel, grid, *args, **options) -> Report:
        __tracebackhide__ = True
        report = check(kernel, grid, *args, **options)
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        return report

    return checked
