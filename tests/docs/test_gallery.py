"""docs/gallery: a page and a picture for each tutorial; the pictures are compared by the tests of tests/tutorials."""

from docs.support import gallery
from docs.support.gallery_cases import CASES
from docs.support.gallery_picture import Mark, Note, View, picture
from mimw.ir.trace import Event, Trace


def test_every_tutorial_has_a_page_and_a_small_picture():
    numbers = [one.number for one in gallery.tutorials()]
    assert sorted(CASES) == numbers and len(numbers) > 20
    assert gallery.main(["--check"]) == 0, "python docs/support/gallery.py writes it anew"
    pictures = {path.stem: path for path in gallery.GALLERY.glob("[0-9][0-9].svg")}
    assert sorted(pictures) == numbers and max(path.stat().st_size for path in pictures.values()) < 40_000


def test_a_page_says_what_the_docstring_says():
    (one, ) = [one for one in gallery.tutorials() if one.number == "02"]
    page = gallery.page(one, (None, None))
    subtitle = "*One warp copies, two warpgroups multiply, and barriers are all they share.*"
    assert page.splitlines()[1:4] == ["# 02  A warp-specialised GEMM", "", subtitle]
    assert "a *task* with" in page and ":lines: 19-\n" in page
    assert "```text\nproducer, 1 warp " in page and "```sh\npython tutorials/02_warp_specialised_gemm.py    " in page
    assert "{literalinclude} ../../tutorials/02_warp_specialised_gemm.py" in page and "(02.svg)" in page


def events(*spans):
    return Trace([Event(cta, lane, kind, float(start), float(end), label) for cta, lane, kind, start, end, label in spans])


def test_what_a_picture_shows():
    trace = events((0, "load", "run", 0, 60, "load"), (0, "load", "wait", 60, 100, "'full'[1] parity 0"),
                   (0, "idle", "run", 0, 1, ""), (0, "TMA", "copy", 10, 10.5, "'a'[0]"), (1, "load", "run", 0, 100, "load"))
    drawn = picture("a title", [trace], View())
    assert ">full[1]<" in drawn and "<title>a title</title>" in drawn and "prefers-color-scheme:dark" in drawn
    assert ">idle<" not in drawn and ">TMA<" in drawn and "cta 1" not in drawn     # a copy is shown however short it is
    assert "cta 1 / load" in picture("a title", [trace], View(ctas=()))
    late = picture("a title", [trace], View(since=70, until=90))
    assert 'class="wait"' in late and 'class="run"' not in late
    twice = picture("a title", [trace, trace], View())
    assert twice.count('class="copy"') == 2 + 1 and ">200<" in twice                # and one in the legend


def test_what_is_too_short_is_one_bar():
    trace = events(*((0, "load", "wait" if at % 2 else "run", at, at + 1, "") for at in range(5000)))
    assert len(picture("a title", [trace], View())) < 40_000


def test_a_stretch_that_is_outlined():
    trace = events((0, "TMA", "copy", 0, 60, "a"), (0, "tensor core", "dot", 40, 100, "d"))
    marks = [Mark("TMA", 0, 60), Mark("tensor core", 40, 100)]
    drawn = picture("a title", [trace], View(), marks=marks, notes=[Note("a kind", "words")])
    assert drawn.count('class="edge"') == 2 and drawn.count('class="band"') == 1 and ">a kind<" in drawn and ">words<" in drawn
