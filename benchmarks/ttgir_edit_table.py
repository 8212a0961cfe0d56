"""docs/TTGIR_EDITS.md out of the rows of benchmarks/ttgir_edits.py, and the list of what was not found.

    page(rows, names)           | GEMM by TMA, sm_90 | 51 | 48 | 3 | 0 | 100.0% | none |
    listing(rows, names)        | GEMM by TMA, sm_90 | 47 | ttng.barrier_expect | predicate dropped | harmless | Where .. |
"""

from __future__ import annotations

from collections import Counter

from docs.support.reflow import reflow

from .ttgir_planted import KINDS

HEAD = """# Planted edits of TTGIR

What does `mimw.check_ttgir` find in a compiled kernel whose waits, fences or layouts are wrong? The kernels below are compiled by
stock Triton {triton}, and each single edit of some kinds is made in their TTGIR, one at a time: a wait gone, or one that lets one
operation more be under way; a fence gone; the next slot instead of the one meant; the other phase; an arrival, an announcement of
bytes or an initialisation of a barrier gone; other bytes or counts; a predicate or a mask dropped; another swizzle in one type, or
in a tensor map.

* *Found*: a check of one of the kernel's launches says something, results compared, on 8 random and at most 8 systematic
  interleavings; or the reader or MLIR's verifier refuses the module.
* *Harmless*: not found, and the edit changes nothing that could go wrong. The reasons stand below, with the further check that
  tells, where one can.
* *Missed*: neither. The score is found / (found + missed).
* *Alarms*: what is found in the module as Triton made it, on 50 random interleavings of each launch and the systematic ones.

Made by `python -m benchmarks.ttgir_edits --out docs/TTGIR_EDITS.md` ({dates}; {minutes} minutes on one core of a shared machine),
from the rows in `benchmarks/results/ttgir_edits.jsonl`. `python -m benchmarks.ttgir_edits --list` prints each edit that was not
found.

"""


def page(rows: list[dict], names: list[str]) -> str:
    """The page, kernels in the order of `names`."""
    heads = {row["kernel"]: row for row in rows if row["row"] == "kernel"}
    planted = [row for row in rows if row["row"] == "edit" and row["kernel"] in names]
    names = [name for name in names if name in heads]
    dates = sorted({heads[name]["date"] for name in names})
    head = HEAD.format(triton=" and ".join(sorted({heads[name]["triton"] for name in names})),
                       dates=" to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "not run",
                       minutes=round(sum(heads[name]["seconds"] for name in names) / 60))
    lines = ["## By kernel", "", "| Kernel | Edits | Found | Harmless | Missed | Score | Alarms |", "|---|---|---|---|---|---|---|"]
    lines += [_row(name, [row for row in planted if row["kernel"] == name], heads[name]["alarm"] or "none") for name in names]
    lines += [_row("**All**", planted, ", ".join(heads[name]["alarm"] for name in names if heads[name]["alarm"]) or "none")]
    lines += ["", "## By kind", "", "| Kind | Edits | Found | Harmless | Missed | Score | Found as |",
              "|---|---|---|---|---|---|---|"]
    lines += [_row(kind, some, _classes(some)) for kind in KINDS if (some := [row for row in planted if row["kind"] == kind])]
    lines += ["", "## Why the rest is harmless", "", "| Reason | Edits |", "|---|---|"]
    lines += [f"| {why} | {number} |" for why, number in Counter(row["by"] for row in planted
                                                                if row["verdict"] == "harmless").most_common()]
    return reflow(head + "\n".join(lines) + "\n")


def listing(rows: list[dict], names: list[str]) -> str:
    """Each edit that was not found."""
    lines = ["| Kernel | Line | Op | Kind | Change | Verdict | Reason |", "|---|---|---|---|---|---|---|"]
    lines += [f"| {row['kernel']} | {row['line']} | {row['op']} | {row['kind']} | {row['change']} | {row['verdict']} | "
              f"{row['by']} |"
              for name in names for row in rows if row["row"] == "edit" and row["kernel"] == name and row["verdict"] != "found"]
    return "\n".join(lines) + "\n"


def score(planted: list[dict]) -> float:
    count = Counter(row["verdict"] for row in planted)
    return count["found"] / max(1, count["found"] + count["missed"])


def _row(name: str, planted: list[dict], last: str) -> str:
    count = Counter(row["verdict"] for row in planted)
    return (f"| {name} | {len(planted)} | {count['found']} | {count['harmless']} | {count['missed']} | {score(planted):.1%} | "
            f"{last} |")


def _classes(planted: list[dict]) -> str:
    """The classes that found edits, the most frequent ones first."""
    return ", ".join(f"{by} {number}" for by, number in Counter(
        row["by"] for row in planted if row["verdict"] == "found").most_common())
