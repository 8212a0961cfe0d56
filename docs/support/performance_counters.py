"""What docs/performance.md says of a row by the GPU's counters: which unit is busiest, at which clock, why warps wait, how long the
tail is.

Input: benchmarks/results/counters.jsonl, as benchmarks/counters.py keeps it, and the rows of a table. Output: lines. For example:

    counted = newest_counters(Path("benchmarks/results/counters.jsonl"))
    said_of(rows, counted)          ["* Counters of gemm-fp16-GH3 (M 8192, ...): **mimw** 790 us at 1506 MHz; tensor ..."]

Of one row and side the last run in the file counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from .performance_rows import Row

UNITS = {"tensor": "tensor cores", "memory": "memory", "l2": "L2", "shared": "shared memory", "issue": "issue slots"}
LEAST = 0.005           # of a share, that it is said
MUCH_CONFLICT = 0.02    # of shared memory's wavefronts
MOST_WAITS = 3

Counted = dict[tuple, dict[str, list[dict]]]


def newest_counters(file: Path) -> Counted:
    """(name, shape) of a row -> side -> its launches, the longest first."""
    found: Counted = {}
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for (key, side, _), together in groupby(rows, key=lambda row: (key_of(row["name"], row["shape"]), row["side"], row["run"])):
        found.setdefault(key, {})[side] = sorted(together, key=lambda row: -row["microseconds"])
    return found


def key_of(name: str, shape: dict) -> tuple:
    return name, tuple(sorted(shape.items()))


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def launch_in_words(launches: list[dict]) -> str:
    """The longest launch of a call: time and clock, units from the busiest on, reasons to wait, the tail."""
    one = launches[0]
    units = sorted(((one[name], words) for name, words in UNITS.items()), reverse=True)
    said = ", ".join(f"{words} {percent(share)}" + (f" (hits {percent(one['l2_hits'])})" if words == "L2" else "")
                     for share, words in units if share >= LEAST)
    leading = sorted(one["stalls"].items(), key=lambda stall: -stall[1])[:MOST_WAITS]
    waits = ", ".join(f"{stall.replace('_', ' ')} {percent(share)}" for stall, share in leading)
    least, mean, most = one["sm_active"]
    which = f", {percent(one['share'])} of the call in {one['launches']} launches" if one["launches"] > 1 else ""
    besides = [f"{percent(one['conflicts'])} of shared memory's wavefronts are bank conflicts"] * (one["conflicts"] > MUCH_CONFLICT)
    besides += [f"{one['local_bytes'] / 1e6:.0f} MB of spills and local arrays"] * (one["local_bytes"] > 5e5)
    even = f"an SM is busy {percent(mean / most)} as long as the last one, the first one {percent(least / most)}"
    return "; ".join([f"{one['microseconds']:.0f} us at {one['mhz']} MHz{which}", said, f"warps wait: {waits}", even, *besides])


def said_of(rows: list[Row], counted: Counted, shape_in_words: Callable[[dict], str],
            shipped: Callable[[dict], bool | None] = lambda launch: None) -> list[str]:
    """A line for each row of a table that was profiled; it says if the library chooses another configuration today."""
    lines = []
    for row in rows:
        if sides := counted.get(key_of(row.name, row.shape)):
            said = ". ".join(f"**{side}** {launch_in_words(launches)}" for side, launches in sides.items())
            earlier = any(shipped(launches[0]) is False for launches in sides.values())
            which = f"{shape_in_words(row.shape)}{'; a configuration that the library does not choose today' * earlier}"
            lines.append(f"* Counters of {row.name} ({which}): {said}.")
    return lines
