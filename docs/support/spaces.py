"""docs/SPACES.md: the memory spaces of every chip, as tables made from the data of the targets.

    python docs/support/spaces.py             write the tables of the page
    python docs/support/spaces.py --check     1 if they are stale
    python docs/support/spaces.py --print     the tables, printed

Input: `mimw.target.TARGETS`. Output: what each chip has of each space, the paths between the spaces of a core with engines, and
where the spaces of `tle.dsa` lie on every chip. Needs only Python and the package.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mimw.target import DSA, GLOBAL, TARGETS, TITLES, Space, Target

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.support.marked import write_or_check

PAGE = Path(__file__).parents[1] / "SPACES.md"
BEGIN, END = "<!-- made by docs/support/spaces.py -->\n", "<!-- end of what is made -->\n"


def size(space: Space) -> str:
    """Bytes in KiB, as chips are described."""
    return f"{space.bytes // 1024} KiB" if space.bytes else "the device's"


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def spaces_of(chips: list[Target]) -> str:
    """One row for each space that differs among chips; chips with equal rows share one."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for chip in chips:
        for space in chip.spaces.values():
            ways = ", ".join(f"{path.engine} to {path.to}" for path in space.copies) or "-"
            key = (f"`{space.name}`", size(space), space.unit, str(space.alignment), ", ".join(space.computes) or "-", ways)
            rows.setdefault(key, []).append(f"`{chip}`")
    order = sorted(rows, key=lambda key: list(TITLES).index(key[0].strip("`")))
    return table(["space", "bytes", "of each", "starts at multiples of", "who computes with it", "who copies where", "chips"],
                 [[*key, ", ".join(rows[key])] for key in order])


def paths_of(chip: Target) -> str:
    """From each space (rows) to each (columns), the engine."""
    names = list(chip.spaces)
    return table(["from \\ to", *(f"`{name}`" for name in names)], [
        [f"`{name}`", *("" if name == to else chip.spaces[name].engine(to) or "no" for to in names)] for name in names])


def mapping() -> str:
    """Where a buffer of `tle.dsa` lies on each chip."""
    rows = []
    for name in DSA:
        where: dict[str, list[str]] = {}
        for chip in TARGETS.values():
            place = chip.lies_in(name)
            text = f"{TITLES[place.name]}, {size(place)} a {place.unit}" if place.name == name else TITLES[place.name]
            where.setdefault(text, []).append(f"`{chip}`")
        lies = "; ".join(f"{', '.join(chips)}: {text}" for text, chips in where.items())
        rows.append([f"`tle.dsa.ascend.{name.upper()}`", lies])
    return table(["address space", "lies in"], rows)


def text() -> str:
    """All tables of the page."""
    own = [chip for chip in TARGETS.values() if not chip.binary]
    parts = ["## Spaces\n", spaces_of(list(TARGETS.values()))]
    for chip in own:
        between = f"From {GLOBAL} memory and back, and between the memories of a core:\n"
        parts += [f"## Paths of `{chip}`\n", between, paths_of(chip)]
    return "\n".join([*parts, "## Where buffers of `tle.dsa` lie\n", mapping()])


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="1 if the page is stale")
    parser.add_argument("--print", action="store_true", help="print the tables instead of writing them")
    options = parser.parse_args(words)
    if options.print:
        print(text())
        return 0
    return write_or_check(PAGE, BEGIN, END, text(), options.check)


if __name__ == "__main__":
    sys.exit(main())
