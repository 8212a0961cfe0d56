"""What the truth tables share: rows of switches, the verdict of the search, and which words each table is about.

A table is about what its program says. So the fences that `passes/fence_deliveries.py` puts in where the author wrote none are
taken out of it; test_truth_tables_fences.py is about these.
"""

import itertools
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

import mimw
import mimw.runtime.simulate

SIMULATE = sys.modules["mimw.runtime.simulate"]     # the name `mimw.simulate` is the function's

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


def as_written(program, scope="delivery"):
    """The program without the fences of a scope that the compiler has put in."""

    def block_of(block):
        kept = (op for op in block.ops if not (op.name == "fence" and op.scope == scope))
        return replace(block, ops=tuple(replace(op, blocks=tuple(map(block_of, op.blocks))) if op.blocks else op for op in kept))

    return replace(program, body=block_of(program.body))


@contextmanager
def as_authors_wrote_it(scope="delivery"):
    """Launches that are prepared inside have programs as `as_written` gives them."""
    whole = SIMULATE._prepared

    def prepared(*args):
        ready = whole(*args)
        return replace(ready, program=as_written(ready.program, scope))

    SIMULATE._prepared = prepared
    try:
        yield
    finally:
        SIMULATE._prepared = whole


def unfenced(launch, scope="delivery", **options):
    """What `mimw.check` reports on a launch without the fences of a scope that the compiler has put in."""
    kernel, grid, args, meta = launch
    with as_authors_wrote_it(scope):
        return mimw.check(kernel, grid, *args, **dict(seeds=2, search="random", shrink=False) | options, **meta)


def found(launch, *kinds):
    """What is found in a launch, one of these kinds."""
    report = unfenced(launch, seeds=4)
    one = next((finding for finding in report.findings if finding.kind in kinds), None)
    assert one is not None, [finding.kind for finding in report.findings]
    return one


def lines_of(finding) -> set[int]:
    """The lines that a finding names."""
    return {site.line for site in finding.sites}


def right(launch, search="both", limit=30) -> bool:
    """Whether nothing is found in a launch; "both" also says that all interleavings were seen. The first seed shows most mistakes,
    and nothing is run behind it then."""
    if not unfenced(launch, seeds=1, rounds=False).ok:
        return False
    report = unfenced(launch, seeds=[1, 2, 3], search=search, limit=limit)
    assert search == "random" or report.complete or not report.ok
    return report.ok
