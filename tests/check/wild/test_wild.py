"""Every bug is found, by its class and lines, and its mended twin is clean. The table in docs/BUGS.md says the same."""

from pathlib import Path

import pytest

import mimw
from tests.kernels.lines import lines_with

from . import counts, fences, groups, parities, scopes, slots  # noqa: F401  they fill CASES
from .case import CASES, without

PAGE = Path(__file__).parents[3] / "docs" / "BUGS.md"
BY_NAME = {one.name: one for one in CASES}


@pytest.mark.parametrize("name", BY_NAME)
def test_the_mistake_is_found(name):
    bug = BY_NAME[name]
    kernel, grid, args, meta = bug.launch(False)
    if bug.by == "the compiler":
        assert mimw.check(kernel, grid, *args, **meta).ok
        report = without(bug.launch(False), bug.taken_out)
    else:
        report = mimw.check(kernel, grid, *args, **meta)
    if bug.by == "rounds":
        assert mimw.check(kernel, grid, *args, rounds=False, **meta).ok
        assert any(one.outcome == "found" for one in report.tried)
    found = [finding for finding in report.findings if bug.kind in finding.kinds]
    assert found, report
    named = {site.line for finding in found for site in finding.sites}
    for text in bug.lines:
        assert named & lines_with(kernel, text), (text, report)


@pytest.mark.parametrize("name", [name for name, bug in BY_NAME.items() if bug.by != "the compiler"])
def test_the_mended_twin_is_clean(name):
    kernel, grid, args, meta = BY_NAME[name].launch(True)
    report = mimw.check(kernel, grid, *args, search="both", limit=30, **meta)
    assert report.ok, report
    assert all(one.outcome == "ok" for one in report.tried), report


def table() -> str:
    """The table of docs/BUGS.md."""
    rows = [f"| {', '.join(bug.threads)} | {bug.mistake} | `{bug.kind}`, by {bug.by} | `{bug.name}` |" for bug in CASES]
    return "\n".join(["| Thread | The mistake | What `check` says | Program |", "|---|---|---|---|", *rows]) + "\n"


def test_the_table_is_on_the_page():
    assert table() in PAGE.read_text()
