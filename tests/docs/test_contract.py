"""Docstrings of the house as the site reads them: nothing is lost, labels and arguments are told apart from prose."""

import re
from importlib import import_module

import pytest

pytest.importorskip("sphinx", reason="needs the tools of the site: pip install 'mimw[docs]'")

from docs.support.sphinx_mimw.contract import Code, Item, Part, Prose, Row, blocks  # noqa: E402
from docs.support.sphinx_mimw.directives import offered  # noqa: E402

DOCSTRING = """Wait for `bar`.
Two lines.

args:      bar   - one mbarrier, also
                   of another line
           a, b  two of them; c - d
orders:    writes -> reads
lowers to: ttng.wait
gradients  of x
example:   wait(bar)
               wait(bar)

Then, in order:

1. one
2. two
   more

* a point

    mimw check ring.py
"""


def test_the_blocks_of_a_docstring():
    assert blocks(DOCSTRING) == [
        Prose("Wait for `bar`. Two lines."),
        Part("args", (Row("bar", "one mbarrier, also of another line"), Row("a, b", "two of them; c - d"))),
        Part("orders", (Prose("writes -> reads"), )), Part("lowers to", (Prose("ttng.wait"), )),
        Part("gradients", (Prose("of x"), )), Part("example", (Code("wait(bar)\n    wait(bar)"), )),
        Prose("Then, in order:"), Item("one", True), Item("two more", True), Item("a point"), Code("mimw check ring.py")]


def test_prose_that_looks_like_a_label_is_prose():
    assert blocks("of a word: a sentence goes on\nby itself.") == [Prose("of a word: a sentence goes on by itself.")]
    assert blocks("returns:   a tile, which is - if it is large - split") == [
        Part("returns", (Prose("a tile, which is - if it is large - split"), ))]


def _words(found) -> list[str]:
    """All that blocks say, word by word."""
    if isinstance(found, (list, tuple)):
        return [word for one in found for word in _words(one)]
    if isinstance(found, Part):
        return [found.label, *_words(found.body)]
    return (found.term + " " + found.text if isinstance(found, Row) else found.text).split()


def test_no_word_of_any_contract_is_lost():
    tlx = import_module("mimw.tlx")
    for name in offered("mimw.tlx"):
        docstring = getattr(tlx, name).__doc__
        said, read = (re.findall(r"\w+", text) for text in (docstring, " ".join(_words(blocks(docstring)))))
        assert said == read, name
