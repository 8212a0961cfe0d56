"""The cases of the tutorials, which `mimw check FILE:case` takes: each result is as numpy has it."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import mimw

TUTORIALS = sorted(path for path in (Path(__file__).parents[1] / "tutorials").glob("[0-9]*.py")
                   if "def case(" in path.read_text())
WITHOUT = ("13", "14", "15")        # several launches, and results in any order


def test_all_but_a_few_have_one():
    every = {path.stem[:2] for path in TUTORIALS[0].parent.glob("[0-9]*.py")}
    assert every - {path.stem[:2] for path in TUTORIALS} == set(WITHOUT)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_its_result_is_as_expected(path, monkeypatch):
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.delitem(sys.modules, "harness", raising=False)
    spec = spec_from_file_location(path.stem, path)
    tutorial = module_from_spec(spec)
    spec.loader.exec_module(tutorial)
    kernel, grid, args, meta = case = tutorial.case()
    assert isinstance(case, mimw.Case) and case.expected is not None
    target = "sm_100a" if ":case --target sm_100a" in path.read_text() else "sm_90a"
    mimw.simulate(kernel, grid, *args, expected=case.expected, tolerance=case.tolerance, target=target, **meta)
