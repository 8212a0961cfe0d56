"""The hook of pre-commit that the repository offers to others, and what docs/CI.md says of it."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, Reader, blocks

PAGE = ROOT / "docs" / "CI.md"
HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text()


def test_its_command_exists(tmp_path):
    Reader(PAGE, tmp_path).read(Block(".pre-commit-hooks.yaml", 1, "yaml", HOOKS))
    assert re.findall("^  entry: (.*)", HOOKS, re.M) == ["mimw check --cases"]


def test_the_page_names_it():
    hooks = re.findall("^- id: (.*)", HOOKS, re.M)
    used = [one for block in blocks(PAGE) if block.language == "yaml" for one in re.findall("- id: (.*)", block.text)]
    assert hooks == ["mimw-check"] and set(used) == set(hooks)


def test_the_settings_are_yaml():
    """Where a reader of YAML is installed."""
    yaml = pytest.importorskip("yaml", reason="reads the settings")
    (hook, ) = yaml.safe_load(HOOKS)
    assert hook["language"] == "python" and hook["types"] == ["python"] and hook["require_serial"]
    assert all(isinstance(yaml.safe_load(block.text), dict) for block in blocks(PAGE) if block.language == "yaml")


def test_the_schema_is_where_the_page_says():
    links = re.findall(r"\]\((schemas/[^)]+)\)", PAGE.read_text())
    assert links and all(Path(PAGE.parent, link).is_file() for link in links)
