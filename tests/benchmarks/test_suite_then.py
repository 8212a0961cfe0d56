"""Which tests of an earlier commit stand: by file and function, in files that were moved since, too."""

import shutil
import subprocess
from types import SimpleNamespace

import pytest

from benchmarks import suite_then

THEN = "def test_old(): ...\ndef test_gone(): ...\ndef helper(): ...\nclass TestAll:\n    def test_inner(self): ...\n"
NOW = "def test_old(): ...\ndef test_new(): ...\nclass TestAll:\n    def test_inner(self): ...\n"


@pytest.fixture
def history(tmp_path, monkeypatch):
    """A repository whose one commit has THEN in a file that has another name today."""
    if not shutil.which("git"):
        pytest.skip("git is not here")
    (tmp_path / "tests" / "old").mkdir(parents=True)
    (tmp_path / "tests" / "old" / "test_one.py").write_text(THEN)
    (tmp_path / "tests" / "helping.py").write_text("def test_nothing(): ...\n")
    for words in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "then"],
                  ["mv", "tests/old/test_one.py", "tests/test_one.py"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setattr(suite_then, "ROOT", tmp_path)
    return tmp_path


def test_what_stood_at_a_commit_and_stands_today(history):
    then = suite_then.functions_at("HEAD")
    assert then == {("tests/test_one.py", name) for name in ("test_old", "test_gone", "TestAll.test_inner")}
    (history / "tests" / "test_one.py").write_text(NOW)
    assert suite_then.standing(then, history) == {("tests/test_one.py", name) for name in ("test_old", "TestAll.test_inner")}


def test_a_commit_that_is_not_there_is_named(history):
    with pytest.raises(SystemExit, match="(?s)0000000.*no history"):
        suite_then.functions_at("0000000")


def test_other_tests_are_deselected(tmp_path):
    def item(function, cls=None):
        return SimpleNamespace(path=tmp_path / "tests" / "test_one.py", originalname=function, cls=cls)

    class TestAll: ...

    left_out, items = [], [item("test_old"), item("test_new"), item("test_inner", TestAll)]
    wanted = {("tests/test_one.py", "test_old"), ("tests/test_one.py", "TestAll.test_inner")}
    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items)))
    suite_then.Only(wanted, tmp_path).pytest_collection_modifyitems(config, items)
    assert [one.originalname for one in items] == ["test_old", "test_inner"]
    assert [one.originalname for one in left_out] == ["test_new"]
