"""CHANGELOG.md says what each version is, and the version of the package is one of them."""

import re
from pathlib import Path

import mimw

PAGE = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
VERSIONS = {text.split()[0].rstrip(","): text.splitlines() for text in PAGE.split("\n## ")[1:]}


def test_a_version_is_told_in_thirty_lines():
    """Else: what is new goes into the paragraph that it belongs to, and what it says of less is left to the history."""
    assert {version: len(lines) for version, lines in VERSIONS.items() if len(lines) > 31} == {}


def test_the_version_of_the_package_has_its_lines():
    assert mimw.__version__ in VERSIONS and all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in VERSIONS)
