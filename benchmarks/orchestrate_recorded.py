"""Goals of automatic orchestration and the figures that it has reached: two tables of the rows that were kept, without a GPU.

    python -m benchmarks.orchestrate --recorded                 prints both
    for line in tables(Path("benchmarks/results")): print(line)
    "| attention-full-4096-128 | 2026-11-29 | 1.39 | 1.3 | 0.95 | 0.95 | |"

Input: a folder of rows, `orchestrate.jsonl` (orchestrate.py) and `orchestrate_others.jsonl` (orchestrate_others.py). Output: lines.
A kernel has its newest row, with time of the plain kernel, and of the library's kernel written by hand, over ours, each beside its
goal; what is below one is named in the last column, with `kept` where ours is slower than plain, so that `mimw.orchestrate`, which
measures, keeps the plain kernel; a case without a row says so. Half of the kernels by others are to be at 1.1 of plain or better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import others_generated, others_serving, others_tutorials  # noqa: F401  (they add to KERNELS)
from .driver import read_rows
from .others_launches import KERNELS

GOALS = {"attention-full": (1.3, 0.95), "attention-causal": (1.3, 0.90), "gemm-bias-gelu": (1.0, 0.95), "gemm-": (1.0, 0.97),
         "grouped-": (1.0, 0.95), "fp8-": (1.0, 0.95)}      # of plain and by hand; the first that a name begins with
ELSE = (1.0, None)
OTHERS = 1.1
NEAR = 0.005        # what two digits after the point hide


def tables(folder: Path, cases: Collection[str]) -> Iterator[str]:
    """The lines of both tables."""
    rows = _newest(folder / "orchestrate.jsonl")
    yield "| kernel | measured | plain / ours | goal | hand / ours | goal | below its goal |"
    yield "|---|---|--:|--:|--:|--:|---|"
    for case in cases:
        row = rows.get(f"orchestrate-{case}")
        yield f"| {case} | not measured | | | | | |" if row is None else _line(case, row)
    found = _newest(folder / "orchestrate_others.jsonl")
    times = {name: found[f"others-{name}"] for name in KERNELS if "plain" in found.get(f"others-{name}", {}).get("in_turn_us", {})}
    ratios = {name: _others_ratio(row) for name, row in times.items()}
    reached = sum(ratio >= OTHERS - NEAR for ratio in ratios.values())
    yield ""
    yield f"Kernels by others: {len(times)} of {len(KERNELS)} measured, {reached} at {OTHERS} of plain or better (goal: half)."
    yield ""
    yield "| kernel | of | measured | plain / ours | library / ours |"
    yield "|---|---|---|--:|--:|"
    for name in sorted(times, key=lambda name: -ratios[name]):
        row, turn = times[name], times[name]["in_turn_us"]
        hand = f"{turn['hand'] / turn['ours']:.2f}" if {"hand", "ours"} <= set(turn) else ""
        ours = f"{ratios[name]:.2f}" if "ours" in turn else "stays plain"
        yield f"| {name} | {row['package']} {row['version'][:12]} | {row['date']} | {ours} | {hand} |"
    for name in KERNELS:
        if name not in times:
            yield _unmeasured(name, found.get(f"others-{name}", {}))


def _unmeasured(name: str, row: Mapping[str, Any]) -> str:
    """The line of a kernel without times: with the reason for which it stays plain where nothing is measured, if it does."""
    if row.get("is_used", True):
        return f"| {name} | | not measured | | |"
    return f"| {name} | {row['package']} {row['version'][:12]} | not measured | stays plain: {row['because']} | |"


def _newest(file: Path) -> dict[str, Mapping[str, Any]]:
    """The last row of each name."""
    return {row["name"]: row for row in read_rows(file)}


def _line(case: str, row: Mapping[str, Any]) -> str:
    goals = next((goals for start, goals in GOALS.items() if case.startswith(start)), ELSE)
    cells, below = [], []
    for name, goal in zip(("plain", "hand"), goals, strict=True):
        time = row["baselines"].get(name)
        ratio = None if time is None else time / row["microseconds"]
        cells += ["" if ratio is None else f"{ratio:.2f}", "" if ratio is None or goal is None else f"{goal}"]
        if ratio is not None and goal is not None and ratio < goal - NEAR:
            below.append(name + " (kept)" * (name == "plain" and ratio < 1 - NEAR))
    return f"| {case} | {row['date']} | {' | '.join(cells)} | {' and '.join(below)} |"


def _others_ratio(row: Mapping[str, Any]) -> float:
    """Plain over ours; 1 where only the plain kernel was timed, which is what the caller gets."""
    turn = row["in_turn_us"]
    return turn["plain"] / turn.get("ours", turn["plain"])
