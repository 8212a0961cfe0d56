"""Writes docs/tle.md: each TLE name, its parameters, and where it works, found out by compiling a probe for each chip.

    python docs/support/tle.py            write the table
    python docs/support/tle.py --check    exit with 1 if it is stale
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import tle_probes  # noqa: E402
import tlx as words  # noqa: E402
import triton  # noqa: E402

import mimw  # noqa: E402
import mimw.tle as tle  # noqa: E402
from mimw.compile import compile_kernel  # noqa: E402
from mimw.target import target as chip  # noqa: E402

TARGETS = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950")
PREFACE = """# TLE: what works where

Made by `python docs/support/tle.py`, which compiles a probe of each word (docs/support/tle_probes.py) to a binary for each
chip, and runs it on the simulator. Do not edit by hand; a test compares. `yes`: compiles, or runs on the simulator (as an
sm_90a). `-`: the chip cannot do it, or this release not there, and the call is refused with its line.

TLE words and TLX words may stand in one kernel. One pipeline written three ways: docs/THREE_WAYS.md.
"""


def cells_of(name: str) -> list[str]:
    """What the table says of a probe: one cell for each chip, and the simulator's."""
    kernel = tle_probes.PROBES[name]
    signature = {parameter: tle_probes.SIGNATURE[parameter] for parameter in kernel.arg_names}
    made = {"x": np.zeros(4096, np.float32), "y": np.zeros(4096, np.float32), "i": np.zeros(4096, np.int32),
            "d": mimw.TensorDescriptor.from_tensor(np.zeros((64, 64), np.float16), [64, 64])}

    def compiled(target):
        return lambda: compile_kernel(kernel, signature, target=target, options={"num_warps": 128 // chip(target).warp_size})

    grid = (2, ) if name.endswith("grid") else (1, )
    return [words._answer(compiled(target), name, target) for target in TARGETS] + [
        words._answer(lambda: mimw.simulate(kernel, grid, *(made[one] for one in kernel.arg_names)), name, "the simulator")]


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
    for title, room in (("`tle`", tle), ("`tle.gpu`", tle.gpu)):
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
    page = HERE.parent / "tle.md"
    with tempfile.TemporaryDirectory() as cache:
        triton.knobs.cache.dir = cache
        os.environ["MIMW_SIMULATE"] = "1"
        text = table()
    if arguments == ["--check"]:
        stale = not page.exists() or page.read_text() != text
        print("docs/tle.md is stale: run python docs/support/tle.py" if stale else "docs/tle.md is up to date")
        return int(stale)
    page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
