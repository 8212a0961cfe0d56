"""The fixture `browser` says of a page what is there: its text, its errors, what sticks out of it, where the focus is."""

import pytest

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<style>body { margin: 0 } @media (prefers-color-scheme: dark) { body { background: #000 } }
.scrolls { overflow-x: auto }</style></head><body>
<p id="typed"></p><div class="scrolls"><pre style="width: 2000px">inside</pre></div>
<a id="first" href="#typed">first</a> <button id="second">second</button>
<script>document.addEventListener("keydown", event => document.getElementById("typed").append(event.key + " "))</script>
%s</body></html>"""


@pytest.fixture
def page(tmp_path):
    def written(more: str = ""):
        (tmp_path / "page.html").write_text(PAGE % more)
        return tmp_path / "page.html"
    return written


def test_a_good_page(browser, page):
    browser.open(page(), width=700)
    assert browser.errors() == [] and browser.too_wide() == []
    assert browser.run("return innerWidth") == 700
    browser.press("a", "Arrow_Down", "Tab", "Tab", "Tab")      # what scrolls can be reached, too
    assert browser.find("#typed")[0].text == "a ArrowDown Tab Tab Tab"
    assert browser.focused().get_attribute("id") == "second"
    browser.press("Shift+Tab")
    assert browser.focused().get_attribute("id") == "first"


def test_what_is_wrong_is_named(browser, page):
    wrong = '<div id="wide" style="width: 900px">wide</div><script>nothing.there</script><img src="missing.png">'
    browser.open(page(wrong), width=700)
    assert browser.too_wide() == ["div#wide."]
    thrown, missing = sorted(browser.errors(), key=lambda message: "missing.png" in message)
    assert "nothing is not defined" in thrown and "missing.png" in missing
    browser.open(page(), width=1400)
    assert browser.errors() == [] and browser.too_wide() == [], "the page before has left something"


def test_light_and_dark(browser, page):
    colours = []
    for dark in (False, True):
        browser.open(page(), dark=dark)
        colours.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgba(0, 0, 0, 0)", "rgb(0, 0, 0)"]
