"""A plugin of pytest: in a clean clone, another process compiles the last modules of tests while the first ones are imported.

Input: the folders that pytest is asked for. Output: pytest's own files of code whose assertions are rewritten, made from the last
module backwards until one is there:

    tests/words/__pycache__/test_views.cpython-311-pytest-9.0.2.pyc

To rewrite 60,000 lines takes 7 s, and as long as modules are imported one core works. Nothing happens where the files are there or
are not to be written (PYTHONDONTWRITEBYTECODE), and for fewer than two workers.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

MANY = 50       # modules; fewer are compiled before a process has started


def modules(config) -> list[Path]:
    """The modules of tests in the folders that pytest is asked for, in the order in which it imports them."""
    return [file for argument in config.args for file in sorted(Path(config.invocation_params.dir, argument).rglob("test_*.py"))]


def has_code(file: Path) -> bool:
    return any((file.parent / "__pycache__").glob(f"{file.stem}.*-pytest-*.pyc"))


def compile_backwards(files: list[Path], hook) -> None:
    """Pytest's import hook compiles, writes, and executes nothing."""
    rewrite.exec = lambda code, space: None
    for file in reversed(files):
        if has_code(file):
            break
        hook.exec_module(module_from_spec(spec_from_file_location(file.stem, file, loader=hook)))


def ended(child: int) -> None:
    """Wait for the child; a plugin that waits for processes of its own may have done so (benchmarks/same_code.py)."""
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    config = session.config
    if config.getoption("forked") < 2 or sys.dont_write_bytecode or len(files := modules(config)) < MANY or has_code(files[-1]):
        return
    if child := os.fork():
        config.add_cleanup(lambda: ended(child))
        return
    try:
        compile_backwards(files, config.pluginmanager.rewrite_hook)
    finally:
        os._exit(0)
