"""The pictures of docs/concepts/ are those of the kernels on its pages, each is shown, and each is SVG."""

import re
from xml.etree import ElementTree

from docs.support import pictures


def test_they_are_up_to_date(capsys):
    """Else: python docs/support/pictures.py"""
    assert pictures.main(["--check"]) == 0, capsys.readouterr().out


def test_every_page_shows_its_own():
    pages = {path.stem: path.read_text() for path in pictures.FOLDER.glob("*.md") if path.stem != "index"}
    assert set(pages) == set(pictures.PICTURES)
    for name, text in pages.items():
        (shown, ) = re.findall(r"!\[.+\]\((\S+)\)", text)
        assert shown == f"{name}.svg" and ElementTree.parse(pictures.FOLDER / shown).getroot().tag.endswith("svg")


def test_a_picture_says_what_the_run_was():
    """Of the pipe: seven chunks, the last of which has slot 0; of the barriers: who arrives."""
    assert re.findall(r"chunk (\d)", (pictures.FOLDER / "pipes.svg").read_text()) == list("0123456")
    said = (pictures.FOLDER / "barriers.svg").read_text()
    assert "expect 512 B + TMA" in said and "copy by hand" in said
