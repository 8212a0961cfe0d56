"""`--results` is one thing in every benchmark: the folder of its rows. No GPU, and nothing is measured."""

import argparse
import ast
import importlib
import sys
from pathlib import Path

import pytest

from benchmarks import driver

FOLDER = Path(driver.__file__).parent
SOURCES = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.py"))}
BY_DRIVER = [name for name, text in SOURCES.items()
             if "def main(" in text and ("command(__doc__" in text or "with_results(" in text)]
KEEPERS = {"append", "keep_row", "with_results"}        # of driver.py


class Asked(Exception):
    """Ends a benchmark when it has made its command line."""


def options_of(name: str, monkeypatch) -> dict[str, argparse.Action]:
    """The options of a benchmark's command line, by name; it ends when it parses."""
    def parse(parser, *args, **kwargs):
        raise Asked(parser)

    for method in ("parse_args", "parse_known_args"):
        monkeypatch.setattr(argparse.ArgumentParser, method, parse)
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(Asked) as asked:
        importlib.import_module(f"benchmarks.{name}").main()
    return {option: action for action in asked.value.args[0]._actions for option in action.option_strings}


def test_all_are_found():
    assert len(BY_DRIVER) > 40 and {"gemm", "growth", "mutations", "distributed_moe", "sanitize"} <= {*BY_DRIVER}


@pytest.mark.parametrize("name", BY_DRIVER)
def test_results_is_the_folder(name, monkeypatch):
    options = options_of(name, monkeypatch)
    found = options["--results"]
    assert (found.type, found.default, found.metavar) == (driver.folder, driver.RESULTS, "DIR")
    assert "folder for the rows" in found.help and "file of its own" in found.help
    writes_a_page = name in ("mutations", "mends", "ttgir_edits", "read_back")
    assert "--out" not in options or writes_a_page, "a page, which these write behind its rows"


def test_nobody_else_says_what_results_is_or_keeps_rows():
    """gpu.py keeps the rows of others, which tell it the file."""
    assert [name for name, text in SOURCES.items() if '"--results"' in text] == ["driver"]
    keeping = [name for name, text in SOURCES.items() for node in ast.walk(ast.parse(text))
               if isinstance(node, ast.ImportFrom) and node.module == "driver" and KEEPERS & {one.name for one in node.names}]
    assert {*keeping} - {*BY_DRIVER} == {"gpu"}


@pytest.mark.parametrize("name", [name for name in BY_DRIVER if name not in ("counters", "launch_time", "auto_launch")])
def test_lists_of_rows_say_where_they_stand(name):
    """All but one row in all (launch_time, auto_launch), and what one process under ncu measures (counters)."""
    assert "each(" in SOURCES[name], f"{name} measures without progress.each"
