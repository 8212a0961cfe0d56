"""A plugin of pytest: cases that only repeat what others show of a kernel run by `--long` only, on a GPU or wherever they run.

    @pytest.mark.long(but=["300-*", "1-64-float16"])        of the cases in the test's brackets these always run, others are long
    @pytest.mark.parametrize(...)
    def test_shapes(machine, shape, dtype): ...

    @pytest.mark.long(but=["176", "fp8"], everywhere=True)  the same of a test that needs no GPU
    @pytest.mark.parametrize(...)
    def test_what_the_loop_holds(form): ...

    pytest tests                    512 cases left out: they are long, --long runs them
    pytest --long tests             all

Input: the collected tests. Output: those without the long ones; on a GPU modules that have some come first. Unless it says
`everywhere` a mark is about a GPU alone: a case on the simulator, whose name is that on the GPU without `gpu-`, always runs.
Patterns are those of `fnmatch`; one that no case has is an error, and so is a module whose tests on a GPU are all long, or a test
whose cases are all long everywhere. A test that the command line names by `::` runs. Which cases may be long is said in
CONTRIBUTING.md, "What a test may cost" and "Tests on a GPU".
"""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatchcase

import pytest

from mimw.testing import gpu_available

_LEFT_OUT = pytest.StashKey[int]()


def case_of(item) -> str:
    """What stands in the brackets of a test's name, without the machine."""
    return item.callspec.id.removeprefix("gpu-").removeprefix("simulator-") if hasattr(item, "callspec") else ""


def is_long(item) -> bool:
    mark = item.get_closest_marker("long")
    return (mark is not None and (mark.kwargs.get("everywhere") or item.get_closest_marker("gpu") is not None)
            and not any(fnmatchcase(case_of(item), pattern) for pattern in mark.kwargs.get("but", ())))


def unknown(items: list) -> list[str]:
    """The patterns that no case of their test has, with the test: the parameters have changed."""
    cases = defaultdict(list)
    for item in items:
        if (mark := item.get_closest_marker("long")) is not None:
            cases[item.nodeid.partition("[")[0], tuple(mark.kwargs.get("but", ()))].append(case_of(item))
    return [f"{test}: no case is called {pattern!r}" for (test, patterns), names in cases.items() for pattern in patterns
            if not any(fnmatchcase(name, pattern) for name in names)]


def without_quick(items: list) -> list[str]:
    """The modules whose tests on a GPU are all long."""
    quick = defaultdict(bool)
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            quick[item.nodeid.partition("::")[0]] |= not is_long(item)
    return [f"{module}: no test on a GPU is quick" for module, one in quick.items() if not one] + _without_quick_case(items)


def _without_quick_case(items: list) -> list[str]:
    """The tests that are long everywhere in all their cases."""
    quick = defaultdict(bool)
    for item in items:
        if (mark := item.get_closest_marker("long")) is not None and mark.kwargs.get("everywhere"):
            quick[item.nodeid.partition("[")[0]] |= not is_long(item)
    return [f"{test}: no case is quick" for test, one in quick.items() if not one]


def longest_first(items: list) -> None:
    """Modules with long cases come first: at the end small tests fill the workers that have nothing left."""
    long = {item.path for item in items if item.get_closest_marker("long") is not None}
    items.sort(key=lambda item: item.path not in long)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run the cases that are marked `long`, too")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if any("::" in argument for argument in config.args):
        return
    if wrong := unknown(items) + without_quick(items):
        raise pytest.UsageError("\n".join(wrong))
    gpu = gpu_available()
    if gpu:
        longest_first(items)
    if config.getoption("long"):
        return
    # Without a GPU what needs one is left out, or skipped, by tests/conftest.py.
    left_out = {item for item in items if is_long(item) and (gpu or item.get_closest_marker("gpu") is None)}
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
        config.stash[_LEFT_OUT] = len(left_out)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(f"{count} cases left out: they are long, --long runs them")
