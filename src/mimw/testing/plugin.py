"""A pytest fixture: `check_kernel`. Switch it on with `pytest_plugins = ["mimw.testing.plugin"]` in a conftest.py."""

from __future__ import annotations

import pytest

from ..check import check
from ..findings import Report


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
