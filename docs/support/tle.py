"""Writes docs/tle.md: each TLE name, its parameters, and where it works, found out by compiling a probe for each chip.

    python docs/support/tle.py            write the table
    python docs/support/tle.py --check    exit with 1 if it is stale
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import page  # noqa: E402
import tle_probes  # noqa: E402

import mimw.tle as tle  # noqa: E402

TARGETS = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950", "ascend_910b")
PREFACE = """# TLE: what works where

Made by `python docs/support/tle.py`, which compiles a probe of each word (docs/support/tle_probes.py) to a binary for each
chip, and runs it on the simulator. Do not edit by hand; a test compares. `yes`: compiles, or runs on the simulator (as an
sm_90a; what is said of ascend_910b is of the simulator, too: docs/SPACES.md). `-`: the chip cannot do it, or this release not
there, and the call is refused with its line.

TLE words and TLX words may stand in one kernel. One pipeline written three ways: docs/THREE_WAYS.md. Where copies by a tensor
descriptor can begin (`tle.gpu.copy`) is one rule for all words: docs/tlx.md, "Said once".
"""


def cells_of(name: str) -> list[str]:
    """What the table says of a probe: one cell for each chip, and the simulator's."""
    kernel = tle_probes.PROBES[name]
    signature = {parameter: tle_probes.SIGNATURE[parameter] for parameter in kernel.arg_names}
    grid = (2, ) if name.endswith("grid") else (1, )
    return [page.works(name, kernel, signature, target) for target in TARGETS] + [page.simulates(name, kernel, grid)]


def _first_line(item) -> str:
    text = (inspect.getdoc(item) or "").split("\n")[0]
    return text.replace("|", "\\|")


def _call(item) -> str:
    try:
        shown = [p for p in inspect.signature(item).parameters.values() if p.name not in ("_semantic", "_generator", "self")]
    except (TypeError, ValueError):
        return ""
    return str(inspect.Signature([p.replace(annotation=p.empty) for p in shown]))


def table(cells_of=cells_of) -> str:
    """The whole page; `cells_of(probe)` are the cells of its row."""
    lines = [PREFACE, "## Where the words work", "", f"| Word | {' | '.join(TARGETS)} | simulator |"]
    lines.append("|---" * (len(TARGETS) + 2) + "|")
    lines += [f"| `{name}` | {' | '.join(cells_of(name))} |" for name in tle_probes.PROBES]
    for title, room in (("`tle`", tle), ("`tle.gpu`", tle.gpu), ("`tle.dsa`", tle.dsa), ("`tle.raw`", tle.raw)):
        lines += ["", f"## Names of {title}", "", "| Name | |", "|---|---|"]
        for name in sorted(room.__all__, key=str.lower):
            item = getattr(room, name)
            if inspect.ismodule(item):
                lines.append(f"| `{name}` | {_first_line(item)} |")
            else:
                call = _call(item) if callable(item) else ""
                lines.append(f"| `{name}{call}` | {_first_line(item) if callable(item) else f'`{item}`'} |")
    return "\n".join([*lines, ""])


def main(arguments: list[str]) -> int:
    return page.write_or_check(page.PAGES / "tle.md", table, "tle.py", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
