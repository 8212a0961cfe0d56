"""The page of a kernel in a browser: what is chosen in one pane lights up in the others, by mouse and by keys, wide and narrow."""

import pytest

from tests.kernels import tma_pipeline
from tests.kernels.lines import line_of
from tests.report.pages import TWO, page

pytestmark = pytest.mark.browser
DOT = line_of(tma_pipeline.pipeline, "acc = tlx.async_dot(")
LOAD = line_of(tma_pipeline.pipeline, "tlx.async_descriptor_load(b_desc")


@pytest.fixture(scope="module")
def race(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "race.html"
    path.write_text(page("released_before_the_wait"))
    return path


def names(browser, selector):
    return {element.get_attribute("data-name") for element in browser.find(selector)}


def test_a_click_lights_up_what_belongs_together(browser, race):
    browser.open(race)
    browser.find(".finding")[0].click()
    assert len(browser.find(".lanes .ev.hit.on")) == 2 and len(browser.find(".ln.on")) == 2
    browser.find(f"[id='L0.{LOAD}'] code")[0].click()
    assert names(browser, ".region.on") == {"b_tiles", "full"} and names(browser, ".caption.on") == {"full[2]"}
    copies = browser.find(".lanes .ev.k-copy.on")
    assert copies and len(browser.find(".ln.on")) == 1 and "b_tiles, full" in browser.find("#status")[0].text
    copies[0].click()
    assert [row.get_attribute("id") for row in browser.find(".ln.on")] == [f"L0.{LOAD}"]
    browser.find(".region[data-name=c_tile]")[0].click()
    assert f"L0.{LOAD}" not in [row.get_attribute("id") for row in browser.find(".ln.on")] and browser.find(".ln.on")
    browser.press("Escape")
    assert browser.find(".on") == [] and browser.errors() == []


def test_by_keys_alone(browser, race):
    browser.open(race)
    reached = []
    for _ in range(24):
        browser.press("Tab")
        focused = browser.focused()
        reached.append(focused.get_attribute("class") if focused else None)
        if "lanes" in (reached[-1] or ""):
            break
    assert any("ln" in (one or "").split() for one in reached) and "finding" in " ".join(filter(None, reached))
    browser.press("Arrow_Right", "Arrow_Down")
    assert len(browser.find(".lanes .ev.here")) == 1 and "cycles" in browser.find("#status")[0].text
    width = "return +document.querySelector('.lanes .ev.here').getAttribute('width')"
    before = browser.run(width)
    browser.press("+")
    assert browser.run(width) > before
    browser.run("document.querySelector('.code [tabindex=\"0\"]').focus()")
    browser.press("Home", "Arrow_Down")
    assert len(browser.find(".ln.on")) == 1 and browser.find(".ln.on")[0] == browser.focused()
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid" and browser.errors() == []


def test_each_finding_shows_its_own_run(browser, tmp_path):
    (tmp_path / "two.html").write_text(page(TWO))
    browser.open(tmp_path / "two.html", width=700)
    drawn = "return document.querySelector('svg.lanes').innerHTML"
    one = browser.run(drawn)
    assert "The run of finding 1" in browser.find(".runs")[0].text and len(browser.find(".finding.on")) == 1
    browser.find(".finding")[1].click()
    two = browser.run(drawn)
    assert "The run of finding 2" in browser.find(".runs")[0].text and "seed=2" in browser.find(".runs .shown")[0].text
    assert two != one and browser.find(".lanes .ev.hit.on") and len(browser.find(".finding.on")) == 1
    waits = [told.text for told in browser.find(".told")]
    browser.press("n")                          # the one behind the last is the first
    assert browser.run(drawn) == one and [told.text for told in browser.find(".told")] != waits
    browser.press("p")
    assert browser.run(drawn) == two and [told.text for told in browser.find(".told")] == waits
    browser.find(".of button")[0].click()
    assert browser.run(drawn) == one and browser.find(".of [aria-pressed=true]")[0].text == "1"
    assert browser.too_wide() == [] and browser.errors() == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_window_has_all_of_it(browser, race, dark):
    browser.open(race, width=700, dark=dark)
    assert browser.too_wide() == [] and browser.errors() == []
    source, timeline = (browser.find(f"#{name}")[0].rect for name in ("left", "timeline"))
    assert timeline["y"] >= source["y"] + source["height"] and source["width"] == 700
    ink, paper = browser.run("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")
    assert (sum(eval(ink[3:])) > sum(eval(paper[3:]))) == dark


def test_many_frames_of_one_notebook_do_not_meet(browser, tmp_path):
    from tests.report.pages import report
    frame = report("released_before_the_wait")._repr_html_()
    (tmp_path / "book.html").write_text(f"<!doctype html><title>book</title>{frame}{frame}")
    browser.open(tmp_path / "book.html")
    first, second = browser.find("iframe")
    click = "document.querySelector('.region[data-name=b_tiles]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    for one, script in ((first, click), (second, "")):
        browser.driver.switch_to.frame(one)
        browser.wait("return document.querySelectorAll('.live .ev.hit').length === 2")
        browser.run(script)
        assert len(browser.find(".lanes .ev.hit.on")) == (1 if script else 2)
        browser.driver.switch_to.default_content()
    assert browser.errors() == []
