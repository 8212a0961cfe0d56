"""`make site`: it builds from the pages and the code without a warning, has an entry for every public name, and works in a browser.

Input: one build of the site (conftest.py), shared by all tests here. Output: what is missing in it, or leads nowhere.
"""

import html
import os
import re
import urllib.parse
import zlib

import pytest

from tests.docs.site_build import ROOT, SECONDS
from tests.processes import python

pytest.importorskip("sphinx", reason="needs the tools of the site: pip install 'mimw[docs]'")

# The only address of the web in the site: the theme names itself at the foot of a page. One that a page needs is added here.
OUTSIDE = {"https://github.com/pradyunsg/furo"}
_LINK = re.compile(r'<(?:a|link|img|script|source|iframe)\b[^>]*?\s(?:href|src)="([^"]*)"')


@pytest.fixture(scope="module")
def site(site_build):
    return site_build[0]


@pytest.fixture(scope="module")
def pages(site):
    """Each page as text, by its place in the site."""
    return {str(file.relative_to(site)): file.read_text() for file in sorted(site.rglob("*.html")) if "_static" not in file.parts}


@pytest.fixture(scope="module")
def names(site):
    """The names that pages elsewhere may refer to: what the site's inventory holds, with the kind of each."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    found = re.findall(r"^(.+?) (\w+:\w+) ", zlib.decompress(packed).decode(), re.M)
    return {name: kind for name, kind in found}


def test_nothing_is_warned_of(site_build):
    done = site_build[1]
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_public_name_has_an_entry(names):
    from docs.support.sphinx_mimw.commands import aliases, commands
    from docs.support.sphinx_mimw.directives import offered
    rooms = ["mimw"]
    rooms += [f"mimw.{room}" for room in "tlx tle tle.gpu tle.dsa tle.raw ops ops.distributed distributed testing errors".split()]
    wanted = {f"{room}.{name}" for room in rooms for name in offered(room)}
    modules = {"mimw.tlx", "mimw.tle", "mimw.tle.gpu", "mimw.tle.dsa", "mimw.tle.raw", "mimw.tle.raw.ir", "mimw.__version__"}
    assert wanted - modules - set(names) == set()
    assert len(wanted) > 250 and names["mimw.tlx.barrier_wait"] == "py:function" and "mimw.tle.pipe_writer.acquire" in names
    assert {f"mimw {name}" for name in {*commands(), *aliases()}} == {name for name, kind in names.items() if kind == "std:command"}
    assert names["mimw check.--seeds"] == "std:cmdoption"


def test_every_link_leads_somewhere_and_every_page_is_reached(site, pages):
    anchors = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    files = {str(file.relative_to(site)) for file in site.rglob("*")}
    wrong, outside, reached, waiting = [], set(), {"index.html"}, ["index.html"]
    while waiting:
        page = waiting.pop()
        for link in set(_LINK.findall(pages[page])):
            if link.startswith(("http:", "https:", "//")):
                outside.add(link)
            if link.startswith(("http:", "https:", "//", "data:")):
                continue
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            path = path.partition("?")[0]
            name = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if name not in files or anchor and anchor not in anchors.get(name, ()):
                wrong.append(f"{page}: {link}")
            elif name in pages and name not in reached:
                reached.add(name)
                waiting.append(name)
    assert wrong == []
    assert set(pages) - reached == set()
    assert outside == OUTSIDE


def test_names_in_the_text_are_links(pages):
    assert re.search(r'href="reference/tlx-[a-z]+\.html#mimw\.tlx\.\w+"[^>]*><code', pages["COMING_FROM.html"])
    assert 'href="reference/commands.html#mimw-check"' in pages["CLI.html"]
    entry = pages["reference/tlx-barriers.html"]
    assert 'href="errors.html#mimw.errors.KernelError"' in entry
    assert 'href="tlx-tasks.html#mimw.tlx.async_task"' in pages["tlx.html"].replace("reference/", "")


def test_an_entry_is_its_docstring(pages):
    page = pages["reference/tlx-barriers.html"]
    entry = page[page.index('id="mimw.tlx.barrier_wait"'):page.index('id="mimw.tlx.barrier_try_wait"')]
    text = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", entry)))
    assert "tlx.barrier_wait(bar, phase, pred=None)" in text and "_semantic" not in text
    assert "what each arriving side did before its arrive -> what this task does after the wait" in text
    assert "tlx.barrier_wait(full[i % STAGES], (i // STAGES) & 1)" in text
    assert "on sm_90a, sm_100a, gfx942, gfx950, gfx1250, simulator; not on sm_80" in text


def test_the_search_knows_words_of_pages_and_names(site):
    index = (site / "searchindex.js").read_text()
    assert [word for word in ("barrier_wait", "deadlock", "topk", "nccl", "tcgen05") if f'"{word}"' not in index] == []


def test_what_is_not_there_is_warned_of(tmp_path):
    """A word, a page and an anchor that are none; a module, and what an entry has, are no mistakes."""
    (tmp_path / "conf.py").write_text(f"import sys\nsys.path[:0] = [{str(ROOT / 'docs' / 'support')!r}]\n"
                                      "extensions = ['myst_parser', 'sphinx_mimw']\nmyst_heading_anchors = 2\n")
    (tmp_path / "index.md").write_text("# Page\n\n`tlx.barrier_wiat`, [a](NOWHERE.md), [b](#nothing), "
                                       "`mimw.compiler.passes.check_target`, `tlx.barrier_wait(bar, 0)`, `mimw chekc`\n\n"
                                       "```{words} mimw.tlx\nbarrier_wait\n```\n")
    done = python("-m", "sphinx", "-q", "-n", "-b", "dummy", tmp_path, tmp_path / "out", timeout=SECONDS)
    warned = done.stderr.splitlines()
    assert [text for text in ("mimw.tlx.barrier_wiat", "NOWHERE.md", "nothing") if not any(text in line for line in warned)] == []
    assert len(warned) == 3, done.stderr


SHOWN = [f"{page}.html" for page in "index START concepts/barriers gallery/06 performance tlx race".split()]
SHOWN += [f"reference/{page}.html" for page in "tlx-products mimw commands".split()]
SHOWN += ["operators/attention.html", "operators/distributed/moe.html", "OPERATORS.html"]


@pytest.mark.browser
def test_pages_fit_a_narrow_window(browser, site):
    said = {}
    for number, page in enumerate(SHOWN):
        browser.open(site / page, width=700, dark=number % 2 == 1)
        said[page] = [*browser.errors(), *browser.too_wide()]
    assert {page: found for page, found in said.items() if found} == {}


@pytest.mark.browser
def test_the_search_finds_a_word_by_keyboard_alone(browser, site):
    browser.open(site / "index.html", width=1400)
    browser.press("/", *"barrier_wait", "Enter")
    browser.wait("return location.pathname.endsWith('/search.html') && document.querySelector('#search-results li a')")
    results = [result.text for result in browser.find("#search-results li a")]
    assert results[0] == "mimw.tlx.barrier_wait" and browser.errors() == []
    for _ in range(200):
        browser.press("Tab")
        if browser.focused().text == results[0]:
            break
    browser.press("Enter")
    browser.wait("return location.hash === '#mimw.tlx.barrier_wait'")
    browser.wait("const box = document.getElementById('mimw.tlx.barrier_wait').getBoundingClientRect(); "
                 "return box.top >= 0 && box.bottom < innerHeight")
    assert browser.errors() == []


@pytest.mark.browser
def test_what_the_keyboard_reaches_is_seen(browser, site):
    """In a narrow window the navigation is a drawer outside of the window, until the focus is in it."""
    browser.open(site / "reference" / "tlx.html", width=700)
    seen = "const box = document.activeElement.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth"
    drawer = "return document.querySelector('.sidebar-drawer').getBoundingClientRect().left"     # which it moves to in a moment
    assert browser.run(drawer) < 0
    for _ in range(8):
        browser.press("Tab")
    assert "sidebar" in browser.run("return document.activeElement.closest('aside').className")
    browser.wait(seen)
    browser.run("document.querySelector('.cards a').focus()")
    browser.wait(f"{drawer} < 0")
    browser.wait(seen)
