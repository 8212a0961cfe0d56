"""docs/support/reflow.py fills paragraphs and leaves all else alone; the pages' prose is as narrow as it makes it."""

from pathlib import Path

import pytest

from docs.support.reflow import WIDTH, long_lines, main, parts, reflow

ROOT = Path(__file__).parents[2]
ROOMS = [ROOT / name for name in ("docs", "benchmarks", "tutorials")]
PAGES = sorted([*ROOT.glob("*.md"), *(page for room in ROOMS for page in room.rglob("*.md"))])
# Others edit these at the moment; `python docs/support/reflow.py` wraps them.
LATER: set[str] = set()


def test_paragraphs_are_filled_and_broken_between_words():
    assert reflow("one two\nthree\n\nfour\n", 9) == "one two\nthree\n\nfour\n"
    assert reflow("one two\nthree\n\nfour\n", 20) == "one two three\n\nfour\n"
    assert reflow("a-word-too-long for it\n", 10) == "a-word-too-long\nfor it\n"


def test_items_and_quotations_keep_their_marks():
    assert reflow("* one two three\n  four\n\n  * five six seven\n12. eight nine ten\n", 12) == (
        "* one two\n  three four\n\n  * five six\n    seven\n12. eight\n    nine ten\n")
    assert reflow("> one two three\n> four\n", 12) == "> one two\n> three four\n"


@pytest.mark.parametrize("word", ["-", "+", "1.", "#", ">", "|", "===", "<b>", "```", "%"])
def test_no_line_begins_with_what_would_open_another_block(word):
    assert reflow(f"one two {word} x\n", 6) == f"one\ntwo {word}\nx\n"


def test_no_line_of_a_page_is_lost_as_a_comment():
    """MyST makes one of each line that begins with "%": counters of docs/performance.md went missing from the site so."""
    lost = [f"{page.relative_to(ROOT)}: {line}" for page in PAGES if "docs" in page.parts
            for part in parts(page.read_text()) if part.prose for line in part.lines if line.lstrip().startswith("%")]
    assert lost == []


@pytest.mark.parametrize("text", [
    "# A heading that is longer than it may be\n", "A heading, underlined\n=====\n", "| a table | with | cells |\n|---|---|---|\n",
    "```python\nx = 'a very long line of code'\n```\n", "* an\n\n  ```\n  a very long line of code\n  ```\n",
    "    indented code, long\n",
    "<!-- a comment\nof some lines that are long\n-->\n",
    "<img src='a picture with a long address'>\n", "[name]: https://a.very/long/address\n", "broken  \nby hand  \n", "---\n"])
def test_left_alone(text):
    assert reflow(text, 10 if "broken" not in text else 12) == text


def test_code_spans_are_not_broken():
    assert reflow("see `a b c d e f` here\n", 10) == "see\n`a b c d e f`\nhere\n"
    assert reflow("a lone ` stays a word of its own\n", 12) == "a lone `\nstays a word\nof its own\n"


def test_long_lines_are_named_by_number():
    page = "# a heading of some length\n\nshort\nand a long one\n```\nin a fence it is code\n```\n"
    assert long_lines(page, 10) == [(4, "and a long one")]
    assert long_lines("https://an.address/without/a/break\n", 10) == []


def test_command_rewrites_or_names(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("word " * 40 + "\n")
    assert main(["--check", str(page)]) == 1 and "page.md:1: 200 columns" in capsys.readouterr().out
    assert main([str(page)]) == 0 and main(["--check", str(page)]) == 0
    assert page.read_text().split() == ["word"] * 40


def test_wrapping_a_page_keeps_its_words_and_settles():
    texts = {page: page.read_text() for page in PAGES}
    once = {page: reflow(text) for page, text in texts.items()}
    assert [page for page in PAGES if reflow(once[page]) != once[page] or once[page].split() != texts[page].split()] == []


def test_prose_of_the_pages_is_narrow():
    """Else: python docs/support/reflow.py FILE; the generator of a page that is made calls `reflow`."""
    wide = [f"{page.relative_to(ROOT)}:{number}" for page in PAGES if str(page.relative_to(ROOT)) not in LATER
            for number, _ in long_lines(page.read_text())]
    assert wide == [], f"over {WIDTH} columns"
