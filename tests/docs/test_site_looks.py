"""The looks of the site: the front page, the navigation, contrast in both schemes, pictures, and how much a window of 1280 shows.

Input: the build of the site that test_site.py has (conftest.py). Output: letters that are too faint, code and columns out of sight.
"""

import re

import pytest

from docs.support import chart, gallery_picture, glance, peers, pictures
from mimw.report import svg
from tests.docs.contrast import ENOUGH, contrast, rules, too_faint, whole
from tests.docs.site_build import ROOT

pytest.importorskip("sphinx", reason="needs the tools of the site: pip install 'mimw[docs]'")

GROUPS = ["Start", "Write kernels", "Call operators", "Debug and check", "Tune and measure", "Port from another language",
          "Internals"]
LETTERS = ("foreground-primary", "foreground-secondary", "foreground-muted", "brand-primary", "brand-content")
GROUNDS = ("background-primary", "background-secondary")


@pytest.fixture(scope="module")
def site(site_build):
    return site_build[0]


@pytest.fixture(scope="module")
def front(site):
    return (site / "index.html").read_text()


@pytest.fixture(scope="module")
def schemes(site):
    """The theme's colours by name, of the light scheme and of the dark one."""
    sheet = (site / "_static" / "styles" / "furo.css").read_text()
    light, _, dark = sheet.partition("body[data-theme=dark]{--color-")
    return [dict(re.findall(r"--color-([\w-]+):(#[0-9a-f]{3,6})\b", part)) for part in (light, "--color-" + dark.partition("}")[0])]


def test_the_front_page_has_a_kernel_a_line_to_install_and_a_figure(site, front):
    text = re.sub(r"<[^>]+>", "", front)
    assert text.index("pip install .") < text.index("@mimw.jit") < text.index("operators of torch")
    shown = re.findall(r'<img [^>]*src="(_images/[^"]+)"', front)
    assert [name.rpartition("/")[2] for name in shown] == ["glance.svg", "found_bug.svg"]
    assert all((site / name).exists() for name in shown)


def test_the_navigation_is_by_what_a_reader_wants_to_do(front):
    assert re.findall(r'class="caption"[^>]*><span class="caption-text">([^<]+)<', front.partition("sidebar-tree")[2])[:7] == GROUPS


def test_every_operator_has_a_page_with_its_entry(site):
    from docs.support.operator_facts import TOOLS
    from docs.support.sphinx_mimw.directives import READ, offered
    for room in READ:
        folder = site / "operators" / ("distributed" if room.endswith("distributed") else "")
        functions = {name for name in offered(room) if name[0].islower()} - TOOLS
        assert functions == {page.stem for page in folder.glob("*.html")}
        assert all(f'id="{room}.{name}"' in (folder / f"{name}.html").read_text() for name in functions)
    assert 'href="operators/matmul.html"' in (site / "OPERATORS.html").read_text()


def test_figures_come_before_their_provenance(site):
    for name in ("performance", "performance-h100"):
        page = (site / f"{name}.html").read_text()
        headings = re.findall(r"<h2>([^<]+)<", page)
        assert headings[-1] == "How these figures are made" and len(headings) > 3
        assert page.index("<table") < page.index("benchmarks/results/")
    page = (site / "performance.html").read_text().partition("<h1>")[2]
    assert page.index("glance.svg") < page.index("<p>NVIDIA H200, 2026, torch") < page.index("<table")


def test_style_sheets_and_programs_ask_for_nothing_elsewhere(site):
    for file in [*(site / "_static").rglob("*.css"), *(site / "_static").rglob("*.js")]:
        asked = re.findall(r"""(?:url\(|@import|import\(|fetch\()\s*["']?(?:https?:)?//[^"')]*""", file.read_text())
        assert asked == [], file.name


def test_text_has_contrast_in_both_schemes(schemes):
    for colours in schemes:
        found = {(letters, ground): contrast(colours[letters], colours[ground]) for letters in LETTERS for ground in GROUNDS}
        assert {pair: ratio for pair, ratio in found.items() if ratio < ENOUGH} == {}


def test_code_has_contrast_in_both_schemes(site, schemes):
    """But for what no letter has: `.w` is blank. Numbers of lines have the theme's colour, by mimw.css."""
    sheet = (site / "_static" / "pygments.css").read_text()
    parts = re.split(r"@media[^{]*\{", sheet)
    numbers = rules((site / "_static" / "mimw.css").read_text())["body[data-theme] .highlight span.linenos"]["color"]
    assert numbers == "var(--color-foreground-secondary)" and len(parts) == 3
    for part, colours in zip(parts, (schemes[0], schemes[1], schemes[1])):
        found = rules(part)
        (ground, ) = {pairs["background"] for name, pairs in found.items() if name.endswith(".highlight")}
        letters = {name: pairs for name, pairs in found.items() if not re.search(r"\.w$|linenos|\.hll$", name)}
        assert len(letters) > 50 and too_faint(letters, whole(ground)) == {}
        assert contrast(colours["foreground-secondary"], whole(ground)) >= ENOUGH


def test_what_is_too_faint_is_found():
    assert contrast("#000", "#ffffff") == pytest.approx(21) and contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    sheet = rules(".a { color: #777; } .b { color: #222 } .c { color: #777; background-color: #000 }")
    assert too_faint(sheet, "#f2f2f2") == {".a": 4.0}


@pytest.mark.parametrize("style", [chart.STYLE, gallery_picture.STYLE])
def test_pictures_have_contrast_and_the_ground_of_the_page(style, schemes):
    light, dark = style.split("@media(prefers-color-scheme:dark){")
    for sheet, colours in ((rules(light), schemes[0]), (rules(light + dark[:-1]), schemes[1])):
        ground = sheet["svg"]["background"]
        assert whole(ground) == whole(colours["background-primary"])
        letters = {name: pairs for name, pairs in sheet.items() if name in ("text", ".q", ".n")}
        assert too_faint(letters, whole(ground), "fill") == {} and len(letters) >= 2
        if ".run" in sheet:
            assert {kind: ratio for kind, ink in gallery_picture.INK.items()
                    if (ratio := contrast(sheet["." + ink]["fill"], sheet["." + kind]["fill"])) < ENOUGH} == {}


def test_every_picture_is_of_both_schemes():
    """And those that are turned around have contrast then, too, on the ground of the dark page."""
    drawn = [*(ROOT / "docs").glob("*/*.svg")]
    assert len(drawn) > 50 and [file.name for file in drawn if "prefers-color-scheme" not in file.read_text()] == []
    amount = float(re.search(r"invert\(([\d.]+)\)", pictures.DARK)[1])

    def turned(colour):
        parts = [int(part, 16) / 255 for part in re.findall("..", whole(colour)[1:])]
        return "#" + "".join(f"{round(255 * (amount + part * (1 - 2 * amount))):02x}" for part in parts)

    assert turned(svg.PAPER) == "#131313"
    assert all(contrast(turned(ink), turned(svg.PAPER)) >= ENOUGH for ink in (svg.INK, svg.QUIET))


def test_the_figure_says_of_what_it_is():
    """A dot and a bar for each line of the table; the chip, versions and days."""
    text = glance.chart(peers.standings(), f"{peers.measured_on()}; rows of {peers.days()}.")
    assert text.count("<circle") == text.count('class="bar') == len(peers.PEERS)
    assert re.search(r">NVIDIA H200, 2026, torch [\d.]+, triton [\d.]+; rows of 2026-\d\d-\d\d to 2026-\d\d-\d\d\.<", text)
    behind = [one for one in peers.standings() if one.mean < 1]
    assert text.count('class="f1"') == len(behind)


@pytest.mark.browser
def test_code_of_the_whole_width_is_in_sight_at_1280(browser, site):
    """Lines of tutorials have up to 132 characters and a number."""
    for page in ("gallery/21", "gallery/14", "OPERATORS"):
        browser.open(site / f"{page}.html", width=1280)
        code = browser.run("""return [...document.querySelectorAll('pre')].map(pre => [pre.scrollWidth - pre.clientWidth,
            Math.max(...pre.textContent.split('\\n').map(line => line.length))])""")
        assert max(length for _, length in code) > 120
        assert [over for over, length in code if over > 0 and length <= 132] == []
        assert browser.run("return parseFloat(getComputedStyle(document.querySelector('pre')).fontSize)") > 11.5


@pytest.mark.browser
def test_the_column_of_chips_is_in_sight_at_1280(browser, site):
    browser.open(site / "OPERATORS.html", width=1280)
    tables = browser.run("""return [...document.querySelectorAll('table')].slice(0, 3).map(table => {
        const box = table.parentElement.getBoundingClientRect();
        return [...table.querySelectorAll('th')].map(
            cell => [cell.textContent, cell.getBoundingClientRect().right <= box.right + 1])})""")
    heads = [[name for name, seen in table if seen] for table in tables]
    assert heads[0] == heads[1] == ["operator", "chips", "types", "derivative", "speed"]
    assert heads[2][:3] == ["operator", "on sm_90", "elsewhere, and for what TMA does not take"]


@pytest.mark.browser
def test_a_picture_follows_the_button_of_the_page(browser, site):
    """Whatever the system prefers."""
    browser.open(site / "performance.html", dark=False)
    for theme in ("dark", "light"):
        browser.run("document.body.dataset.theme = arguments[0]", theme)
        assert browser.run("return getComputedStyle(document.querySelector('article img')).colorScheme") == theme


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 1600])
def test_the_page_fills_its_window(browser, site, width):
    """At 1600 the contents of the page stand beside it, at 1280 they come by a button."""
    browser.open(site / "START.html", width=width)
    assert browser.too_wide() == [] and browser.errors() == []
    left = browser.run("return document.querySelector('.toc-drawer').getBoundingClientRect().left")
    assert (left < width) == (width == 1600)
    assert browser.run("return document.querySelector('.content').getBoundingClientRect().width") >= 1000
