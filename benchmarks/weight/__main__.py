"""How heavy are the sources, and how far is it to the goals?

    python -m benchmarks.weight                     each figure, its goal, and the limit above which it may not grow
    python -m benchmarks.weight --list wide         the places that a figure counts
    python -m benchmarks.weight --check             exits with 1 if a figure is above its limit

Input: the sources under src/mimw. Output: a table. Figures, definitions and limits stand in figures.py.
"""

from __future__ import annotations

import argparse
import sys

from .figures import FIGURES, Figure


def table(figures: tuple[Figure, ...]) -> str:
    rows = [("", "figure", "today", "goal", "limit")]
    rows += [(one.name, one.title, f"{one.value():,}", f"{one.goal:,}", f"{one.limit:,}") for one in figures]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(" ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]),
                               *(cell.rjust(width) for cell, width in zip(row[2:], widths[2:]))]) for row in rows)


def too_heavy(figures: tuple[Figure, ...]) -> list[str]:
    return [f"{one.name}: {one.title}: {one.value():,}, the limit is {one.limit:,}" for one in figures if one.value() > one.limit]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weight", description=__doc__.splitlines()[0])
    parser.add_argument("--list", choices=[one.name for one in FIGURES], metavar="NAME", help="print what a figure counts")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure is above its limit")
    args = parser.parse_args(arguments)
    if args.list:
        print(*next(one for one in FIGURES if one.name == args.list).places(), sep="\n")
        return 0
    print(table(FIGURES))
    broken = too_heavy(FIGURES) if args.check else []
    for line in broken:
        print(f"above its limit: {line}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
