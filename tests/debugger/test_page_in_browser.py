"""The page of a debugged run in a browser: moves by buttons, keys, slider and strip; wide and narrow, light and dark."""

import pytest

from mimw.tools.debugger.page import page
from tests.kernels import debugged

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "run.html"
    with debugged.session() as session:
        session.go()
        page(session).write(path)
    return path


def at(browser):
    return int(browser.run("return document.getElementById('slider').value"))


def test_moves(browser, path):
    browser.open(path, width=1280)
    start = at(browser)
    assert "is about to do breakpoint" in browser.find("#says")[0].text and browser.find(".ln.on .chip")[0].text == "add"
    browser.press("Arrow_Right", "Arrow_Right", "Arrow_Left")
    assert at(browser) == start + 1
    browser.press(")")
    assert "has completed" in browser.find("#says")[0].text and browser.find("#barriers tr.new")
    browser.press("{")
    assert at(browser) == start
    browser.find("[data-do='+task']")[0].click()
    assert "task 'load'" in browser.find("#says")[0].text
    browser.press("Home")
    assert at(browser) == 0
    browser.run("document.getElementById('slider').value = 60; document.getElementById('slider').oninput()")
    assert browser.find("#at")[0].text.startswith("event 60 of")
    browser.press("End")
    assert "the run has ended" in browser.find("#says")[0].text
    browser.run("const strip = document.getElementById('strip'); strip.onclick({ offsetX: strip.clientWidth / 2 })")
    assert 0 < at(browser) < start * 2
    assert browser.errors() == []


def test_values_of_another_task(browser, path):
    browser.open(path)
    rows = browser.find("#values .item")
    assert any(row.text.startswith("sums.count") for row in rows)
    browser.find(".chip.waits")[0].click()
    assert browser.run("return document.getElementById('whose').value") == "load"
    assert not any(row.text.startswith("sums.count") for row in browser.find("#values .item"))


@pytest.mark.parametrize("width", [1280, 700])
def test_it_fits_light_and_dark(browser, path, width):
    for dark in (False, True):
        browser.open(path, width=width, dark=dark)
        assert browser.errors() == [] and browser.too_wide() == []
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"
