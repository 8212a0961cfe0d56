"""What the truth tables share: rows of switches, the verdict of `mimw.check`, and which words each table is about."""

import itertools

import pytest

import mimw

SWITCHES = (False, True)
TABLES = {}     # name -> (the ops the table is about, a function that gives the launch with all switches on)


def states(*words):
    """Registers a function of switches, all right by default, that gives (kernel, grid, args, meta): a table about `words`."""

    def register(launch):
        assert launch.__name__ not in TABLES, f"two tables are called {launch.__name__}"
        TABLES[launch.__name__] = words, launch
        return launch

    return register


def rows(*names):
    """Every way to set the switches."""
    return pytest.mark.parametrize(", ".join(names), list(itertools.product(SWITCHES, repeat=len(names))))


def found(launch, *kinds):
    """What `mimw.check` finds in a launch, one of these kinds."""
    kernel, grid, args, meta = launch
    report = mimw.check(kernel, grid, *args, seeds=4, search="random", shrink=False, **meta)
    one = next((finding for finding in report.findings if finding.kind in kinds), None)
    assert one is not None, [finding.kind for finding in report.findings]
    return one


def lines_of(finding) -> set[int]:
    """The lines that a finding names."""
    return {site.line for site in finding.sites}


def right(launch, search="both", limit=30) -> bool:
    """Whether nothing is found in a launch; "both" also says that all interleavings were seen. The first seed shows most mistakes,
    and nothing is run behind it then."""
    kernel, grid, args, meta = launch
    if not mimw.check(kernel, grid, *args, seeds=1, rounds=False, shrink=False, **meta).ok:
        return False
    report = mimw.check(kernel, grid, *args, seeds=[1, 2, 3], search=search, limit=limit, shrink=False, **meta)
    assert search == "random" or report.complete or not report.ok
    return report.ok
