"""A plugin of pytest: cases that only repeat what others show of a kernel run by `--long` only, on a GPU or wherever they run.

    @pytest.mark.long(but=["300-*", "1-64-float16"])        of the cases in the test's brackets these always run, others are long
    @pytest.mark.parametrize(...)
    def test_shapes(machine, shape, dtype): ...

    @pytest.mark.long(but=["176", "fp8"], everywhere=True)  the same of a test that needs no GPU
    @pytest.mark.parametrize(...)
    def test_what_the_loop_holds(form): ...

    @pytest.mark.long(everywhere=["300-1", "64-1"])         where no GPU is these always run, on a GPU those of `but`, or all
    @pytest.mark.long(shown_by="test_gemm.py::test_nothing_spills")     all are long; on a GPU but those of `but`

    pytest tests                    512 cases left out: they are long, --long runs them
    pytest --long tests             all

Input: the collected tests. Output: those without the long ones; on a GPU modules that have some come first. Unless it says
`everywhere` a mark is about a GPU alone: a case on the simulator, whose name is that on the GPU without `gpu-`, always runs.
Patterns are those of `fnmatch`; one that no case has is an error, and so is a module whose tests on a GPU are all long, a test
whose cases are all long everywhere, or a `shown_by` that names no quick test: one of the module, of its folder by a file's name, or
of any folder from tests/. A test that the command line names by `::` runs. Which cases may be long is said in CONTRIBUTING.md,
"What a test may cost" and "Tests on a GPU".
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


def _quick(item) -> tuple | list:
    """The patterns of the cases that a mark leaves quick, here or on a GPU."""
    of = item.get_closest_marker("long").kwargs
    but, everywhere = of.get("but", ()), of.get("everywhere", False)
    if item.get_closest_marker("gpu") is not None:
        return but if "but" in of or not isinstance(everywhere, list) else ["*"]
    if isinstance(everywhere, list):
        return everywhere
    if "shown_by" in of:
        return ()
    return but if everywhere else ["*"]


def is_long(item) -> bool:
    return item.get_closest_marker("long") is not None and not any(fnmatchcase(case_of(item), pattern) for pattern in _quick(item))


def unknown(items: list) -> list[str]:
    """The patterns that no case of their test has, with the test: the parameters have changed."""
    cases = defaultdict(list)
    for item in items:
        if (mark := item.get_closest_marker("long")) is not None:
            everywhere = mark.kwargs.get("everywhere")
            patterns = *mark.kwargs.get("but", ()), *(everywhere if isinstance(everywhere, list) else ())
            cases[item.nodeid.partition("[")[0], patterns].append(case_of(item))
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
    """The tests that are long everywhere in all their cases, and those whose quick test is none."""
    quick, shown = defaultdict(bool), {}
    for item in items:
        test = item.nodeid.partition("[")[0]
        quick[test] |= not is_long(item)
        if (mark := item.get_closest_marker("long")) is not None and (mark.kwargs.get("everywhere") or "shown_by" in mark.kwargs):
            shown[test] = _named(mark.kwargs.get("shown_by", ""), test)
    modules = {test.partition("::")[0] for test in quick}
    return [f"{test}: no case is quick" + (f", nor is {named}, which is to show it" if named else "")
            for test, named in shown.items() if not quick[test] and not quick.get(named, False)
            and (not named or named.partition("::")[0] in modules)]


def _named(shown_by: str, test: str) -> str:
    """The test that `shown_by` names, from the root; "" where nothing is named."""
    if not shown_by or shown_by.startswith("tests/"):
        return shown_by
    module = test.partition("::")[0]
    return f"{module.rpartition('/')[0]}/{shown_by}" if "::" in shown_by else f"{module}::{shown_by}"


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
