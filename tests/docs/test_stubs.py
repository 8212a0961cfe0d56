"""What editors and type checkers know: the stubs are those of the words, and nothing shows what the code generator hands to them.

Checkers themselves are no requirement of the tests: CONTRIBUTING.md says how they are run.
"""

import ast
import inspect
from pathlib import Path

import pytest

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from docs.support.stubs import HIDDEN, ROOT, stubs
from mimw.runtime.jit import MimwFunction
from tests.every import every

STUBS = stubs()
WORDS = [f"{family.__name__}.{name}" for family in (tlx, tle, tle.gpu) for name in family.__all__
         if inspect.isfunction(getattr(family, name)) and hasattr(getattr(family, name), "signature")]


def _named(name: str):
    module, _, last = name.rpartition(".")
    return getattr(tle.gpu if module.endswith("gpu") else tle if "tle" in module else tlx, last)


@every(map(str, STUBS))
def test_stubs_are_those_of_the_words(path):
    assert Path(path).read_text() == STUBS[Path(path)], "written by `python docs/support/stubs.py`"


@every(WORDS)
def test_nothing_hidden_is_shown(name):
    """By help(), by inspect and by the stub; Triton's code generator asks for `signature`, which still has all."""
    word = _named(name)
    assert not set(HIDDEN) & set(inspect.signature(word).parameters)
    assert set(HIDDEN) & set(word.signature.parameters)


@every([str(path) for path, text in STUBS.items() if "__all__" in text])
def test_stubs_have_every_name(path):
    tree = ast.parse(STUBS[Path(path)])
    defined = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    defined |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    defined |= {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    family = tlx if "tlx" in path else tle.gpu if path.endswith("gpu.pyi") else tle
    assert set(family.__all__) <= defined and not set(HIDDEN) & {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


@pytest.mark.parametrize("tool", [mimw.check, mimw.compile, mimw.explain, mimw.jit, mimw.predict, mimw.profile, mimw.simulate])
def test_public_functions_are_typed(tool):
    """What they give, and each keyword of theirs. A keyword may be the kernel's own, of any type, so each may be `Any` as well."""
    signature = inspect.signature(tool)
    own = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
    assert signature.return_annotation not in (inspect.Signature.empty, "Any") and own
    assert [one.name for one in own if one.annotation is one.empty] == []


def test_kernels_are_typed():
    for name in ("__getitem__", "__call__", "freeze", "run"):
        assert inspect.signature(getattr(MimwFunction, name)).return_annotation is not inspect.Signature.empty


def test_the_package_ships_them():
    patterns = (ROOT / "pyproject.toml").read_text()
    assert '"py.typed"' in patterns and '"tle/*.pyi"' in patterns and '"tlx/*.pyi"' in patterns
