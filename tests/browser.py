"""A plugin of pytest: the fixture `browser`, a headless Chromium for tests that look at pages. Mark such tests `browser`.

Input: a page as a file, a size, light or dark. Output: what stands in the page, what its console said, what sticks out.

    @pytest.mark.browser
    def test_the_page_fits(browser, tmp_path):
        browser.open(page_written_into(tmp_path), width=700)
        assert browser.errors() == [] and browser.too_wide() == []

One process of the browser serves all tests of a worker; it reaches no network. The tests are skipped where selenium, a browser or
its driver is missing: `MIMW_BROWSER` names a browser that is not on the PATH as chromium or chrome, `MIMW_DRIVER` its driver.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Nothing that a page asks of a network is answered: a page that needs one shows an error in its console.
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost")
_HEIGHT = 900

_TOO_WIDE = """
const wide = document.documentElement.clientWidth, found = [];
if (document.documentElement.scrollWidth <= wide) return found;
for (const element of document.querySelectorAll("body *")) {
  if (element.getBoundingClientRect().right <= wide + 1) continue;
  let outer = element.parentElement;
  while (outer && getComputedStyle(outer).overflowX === "visible") outer = outer.parentElement;
  if (!outer || outer === document.body || outer === document.documentElement)
    found.push(element.tagName.toLowerCase() + (element.id ? "#" + element.id : "") + "." + [...element.classList].join("."));
}
return found.length ? found : ["the page"];
"""


class Browser:
    """A page at a time, in one window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver        # selenium's, for what has no method here

    def open(self, page: Path | str, *, width: int = 1400, height: int = _HEIGHT, dark: bool = False) -> None:
        """Loads a file (or an address, with its fragment, as `file:///...#id`) in a window of this size in CSS pixels. The console
        starts anew; what earlier pages kept in the browser's storage is gone."""
        command = self.driver.execute_cdp_cmd
        command("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        command("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})
        self.driver.get("about:blank")      # two addresses that differ in their fragment only are one page
        self.driver.get_log("browser")
        self.driver.get(page.resolve().as_uri() if isinstance(page, Path) else page)
        if self.run("return localStorage.length"):
            self.run("localStorage.clear()")
            self.driver.refresh()

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a function in JavaScript returns; `arguments` holds what follows. Elements come back as selenium's."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> list:
        """The elements of a CSS selector, selenium's: `.text`, `.is_displayed()`, `.get_attribute(name)`, `.click()`."""
        return self.driver.find_elements("css selector", selector)

    def wait(self, script: str, seconds: float = 10) -> Any:
        """What `run(script)` gives once it is neither null, false, 0 nor empty; a failed test if that takes too long."""
        from selenium.common import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait
        try:
            return WebDriverWait(self.driver, seconds, 0.02).until(lambda _: self.run(script))
        except TimeoutException:
            pytest.fail(f"after {seconds} s still not: {script}\nconsole: {self.errors()}")

    def press(self, *keys: str) -> None:
        """Presses keys one after the other, where the focus is: a letter, or a name: `Tab`, `Escape`, `Arrow_Down`, `Shift+Tab`."""
        from selenium.webdriver import ActionChains, Keys
        for pressed in keys:
            *held, key = pressed.split("+") if len(pressed) > 1 else (pressed, )
            chain = ActionChains(self.driver, duration=0)
            for name in held:
                chain.key_down(getattr(Keys, name.upper()))
            chain.send_keys(getattr(Keys, key.upper(), key) if len(key) > 1 else key)
            for name in reversed(held):
                chain.key_up(getattr(Keys, name.upper()))
            chain.perform()

    def focused(self) -> Any:
        """The element that has the focus; None where it is the page."""
        return self.run("return document.activeElement === document.body ? null : document.activeElement")

    def errors(self) -> list[str]:
        """What the console has said since the page was opened, or since it was asked last, of failures: exceptions, and files that
        could not be loaded."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def too_wide(self) -> list[str]:
        """Where the page is wider than its window, the elements that stick out, those inside of scrolling ones left aside."""
        return self.run(_TOO_WIDE)

    def picture(self, path: Path | str, *, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        import base64
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
        Path(path).write_bytes(base64.b64decode(shot["data"]))


def _program(variable: str, names: tuple[str, ...]) -> str:
    """The path of the first of these programs; the test is skipped where there is none."""
    found = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip(f"needs {names[0]} on the PATH, or {variable}")
    return found


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A `Browser`."""
    pytest.importorskip("selenium", reason="needs selenium: pip install 'mimw[test]'")
    from selenium import webdriver
    program, driver = _program("MIMW_BROWSER", _BROWSERS), _program("MIMW_DRIVER", ("chromedriver", ))
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in (*_OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield Browser(started)
    started.quit()
