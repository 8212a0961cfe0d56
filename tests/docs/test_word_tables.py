"""docs/tlx.md and docs/tle.md say what the code does: each row is made again from its probe, and the page around the rows.

In parts, so that the chips' compilers can run on all cores: one test a probe, which may stand for several rows. To a binary each
probe goes for one of the six chips, the next one for the next, and no further than TTGIR, behind which there are no refusals, for
two of the others, if they are to have the function. All chips that are to refuse it are asked. `--long` makes all binaries.
"""

import functools
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest
from triton import knobs

from tests.compiling import stopping

DOCS = Path(__file__).parents[2] / "docs"
_ANSWERS = {"yes", "-", "NotYet"}


def _support(name: str):
    """A program of docs/support, which imports its neighbours by their names."""
    held = list(sys.path)
    sys.path.insert(0, str(DOCS / "support"))
    try:
        return import_module(name)
    finally:
        sys.path[:] = held


class Page:
    """A table: `on_page[probe]` are the cells that the page shows, `groups` the probes that are one kernel under several names."""

    def __init__(self, name: str, probes: dict):
        self.name, self.program = name, _support(name)
        names: list[str] = []
        frame = self.program.table(lambda probe: names.append(probe) or ["<cells>"]).splitlines()
        rows = [index for index, line in enumerate(frame) if line.endswith("| <cells> |")]
        lines = (DOCS / f"{name}.md").read_text().splitlines()
        columns = len(self.program.TARGETS) + 1
        self.on_page = {probe: [cell.strip() for cell in lines[row].split("|")[-columns - 1:-1]]
                        for probe, row in zip(names, rows, strict=True) if row < len(lines)}
        by_kernel: dict[int, list[str]] = {}
        for probe in names:
            by_kernel.setdefault(id(probes[probe]), []).append(probe)
        self.groups = {group[0]: group for group in by_kernel.values()}


TLX = Page("tlx", _support("probes").PROBES)
TLE = Page("tle", _support("tle_probes").PROBES)
ROWS = [pytest.param(number, page, probe, id=f"{page.name}-{probe}")
        for page in (TLX, TLE) for number, probe in enumerate(page.groups)]


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """As in the programs, whose `main` sets it; and none of their settings stays."""
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    with knobs.cache.scope():
        yield


@pytest.mark.parametrize("number, page, probe", ROWS)
def test_the_rows_of_a_probe_are_up_to_date(number, page, probe, monkeypatch, request):
    works, chips = page.program.page.works, page.program.TARGETS
    said, long = page.on_page[page.groups[probe][0]], request.config.getoption("long")

    def as_far_as_it_goes(name, kernel, signature, target, **options):
        behind = (chips.index(target) - number) % len(chips)
        if behind % 2 and not long and said[chips.index(target)] == "yes":
            return "yes"
        with stopping(("ttgir", )) if behind and not long else nullcontext():
            return works(name, kernel, signature, target, **options)

    monkeypatch.setattr(page.program.page, "works", as_far_as_it_goes)
    cells = page.program.cells_of(probe)
    assert set(cells) <= _ANSWERS and len(cells) == len(page.program.TARGETS) + 1
    assert {name: page.on_page[name] for name in page.groups[probe]} == dict.fromkeys(page.groups[probe], cells)


@pytest.mark.parametrize("page", [TLX, TLE], ids=lambda page: page.name)
def test_the_page_is_up_to_date_around_its_cells(page, monkeypatch, capsys):
    """What the command says of the page if the cells are those that the tests above compare."""
    monkeypatch.setattr(page.program, "table", functools.partial(page.program.table, page.on_page.__getitem__))
    assert page.program.main(["--check"]) == 0
    assert capsys.readouterr().out == f"docs/{page.name}.md is up to date\n"


@pytest.mark.parametrize("page", [TLX, TLE], ids=lambda page: page.name)
def test_one_other_cell_makes_a_page_stale(page, monkeypatch, capsys):
    other = {**page.on_page, next(reversed(page.on_page)): ["-"] * (len(page.program.TARGETS) + 1)}
    assert other != page.on_page
    monkeypatch.setattr(page.program, "table", functools.partial(page.program.table, other.__getitem__))
    assert page.program.main(["--check"]) == 1
    assert capsys.readouterr().out == f"docs/{page.name}.md is stale: run python docs/support/{page.name}.py\n"
