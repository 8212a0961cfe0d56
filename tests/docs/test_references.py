"""Every page that a text names is there, and has the heading that stands quoted behind its name.

Input: the sources, tests, pages and data of the repository. Output: what leads nowhere, as "file: page, title":

    # 19.9 us a call (benchmarks/notes/launching.md, "Operators")        the page and its heading "Operators"
"""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTES = ROOT / "benchmarks" / "notes"
READ = {".py", ".md", ".json", ".toml", ".c", ".h", ""}
# A page by its path from the top of the repository, and the titles behind it; a link between pages of one folder.
_PAGE = re.compile(r'\b((?:docs|benchmarks|tutorials)/(?:\w[\w/-]*/)?[\w-]+\.md|CONTRIBUTING\.md)((?:,? (?:and )?"[^"]+")*)')
# Names that stand for any page.
ANY = {"NAME", "NN", "A"}
_LINK = re.compile(r'\]\(([\w./-]+\.md)(?:#[\w-]+)?\)((?:,? (?:and )?"[^"]+")*)')


def files():
    """The files of the repository that are text, in a checkout and in the source package."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    rooms = [ROOT / room for room in ("src", "tests", "docs", "benchmarks", "tutorials")]
    names = listed.stdout.split("\n") if not listed.returncode else [
        str(file.relative_to(ROOT)) for room in rooms for file in room.rglob("*")]
    return [ROOT / name for name in names if name and Path(name).suffix in READ and (ROOT / name).is_file()
            and not name.startswith("tests/golden/") and ROOT / name != Path(__file__)]


def joined(text):
    """The text on one line, without what begins the lines of a comment or a list."""
    return re.sub(r"\s*\n\s*(?:#+ |\* |// )?", " ", text)


@cache
def headings(page):
    return [re.sub(r"[`*]", "", line.lstrip("#").strip()) for line in page.read_text().splitlines() if re.match("#{1,6} ", line)]


def wrong(file, name, titles, page):
    """What a reference lacks: its page, or headings of it."""
    if not page.is_file():
        return [f"{file}: {name}"]
    return [f"{file}: {name}, {title}" for title in re.findall(r'"([^"]+)"', titles)
            if not any(found.startswith(re.sub(r"[`*]", "", title)) for found in headings(page))]


def missing(file, text):
    found = [(name, titles, ROOT / name) for name, titles in _PAGE.findall(joined(text)) if Path(name).stem not in ANY]
    if file.suffix == ".md":
        found += [(name, titles, file.parent / name) for name, titles in _LINK.findall(joined(text))]
    return [line for name, titles, page in found for line in wrong(file.relative_to(ROOT), name, titles, page)]


def test_every_page_and_title_that_is_named_is_there():
    assert [line for file in files() for line in missing(file, file.read_text(errors="replace"))] == []


@pytest.mark.parametrize("text, says", [
    ('see benchmarks/notes/launching.md, "Operators"', []),
    ('# benchmarks/notes/launching.md,\n# "Operators"', []),
    ('see benchmarks/notes/launching.md, "Operators" and "Host"', []),
    ('see benchmarks/notes/launching.md, "Opera"', []),
    ('see benchmarks/notes/launching.md, "No such title"', ["src/x.py: benchmarks/notes/launching.md, No such title"]),
    ("see benchmarks/notes/nowhere.md", ["src/x.py: benchmarks/notes/nowhere.md"]),
    ('see benchmarks/notes/gone.md, "Operators"', ["src/x.py: benchmarks/notes/gone.md"])])
def test_what_leads_nowhere_is_named(text, says):
    assert missing(ROOT / "src" / "x.py", text) == says


def test_links_of_a_page_go_from_its_folder():
    assert missing(NOTES / "README.md", '[gemm.md](gemm.md), "Nothing"') == ["benchmarks/notes/README.md: gemm.md, Nothing"]
    assert missing(NOTES / "README.md", "[x](../gemm.md)") == ["benchmarks/notes/README.md: ../gemm.md"]


def test_the_index_of_the_notes_has_a_line_for_each_page():
    index = (NOTES / "README.md").read_text()
    listed = re.findall(r"^\| \[([\w-]+\.md)\]\(\1\) \| \S", index, re.M)
    assert sorted(listed) == sorted(page.name for page in NOTES.glob("*.md") if page.name != "README.md")


def test_every_page_of_the_notes_opens_with_the_present_state():
    pages = [page for page in NOTES.glob("*.md") if page.name not in ("README.md", "waiting.md")]
    assert [page.name for page in pages if not re.match(r"# .+\n\n\* \*\*Now\*\*", page.read_text())] == []
