"""What is compiled ahead is what pytest looks for, and nothing of it is executed."""

import os
import sys

from _pytest.assertion import rewrite

from tests.compiled_ahead import compile_backwards, ended, has_code


def test_modules_are_compiled_backwards_until_one_is_there(tmp_path, monkeypatch, request):
    monkeypatch.setattr(rewrite, "exec", exec, raising=False)       # as it is, behind this test
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    files = [tmp_path / f"test_{name}.py" for name in "abcd"]
    for file in files:
        file.write_text("assert False, 'executed'\n")
    hook = request.config.pluginmanager.rewrite_hook
    compile_backwards(files[:2], hook)
    files[0].rename(tmp_path / "test_e.py")
    compile_backwards([tmp_path / "test_e.py", *files[1:]], hook)
    assert [has_code(file) for file in (tmp_path / "test_e.py", *files[1:])] == [False, True, True, True]


def test_a_child_that_another_has_waited_for_is_no_error():
    if not (child := os.fork()):
        os._exit(0)
    ended(child)
    ended(child)
