"""docs/performance.md: every table of benchmarks/results, with ratios, ceilings and curves; docs/performance-h100.md likewise of
benchmarks/results/h100, tables alone.

    python docs/support/performance.py              write the pages, their pictures, docs/performance/*.svg, and the README's table
    python docs/support/performance.py --check      1 if a file is stale

Input: the rows that the benchmarks kept (performance_rows.py says which count), what each section is (performance_sections.py).
Output: the pages. Needs nothing but Python.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.support import glance, peers
from docs.support.chart import line_chart
from docs.support.performance_choices import shipped
from docs.support.performance_counters import newest_counters, said_of
from docs.support.performance_explained import EXPLAINED, EXPLAINED_ELSEWHERE
from docs.support.performance_rows import Row, mean, newest
from docs.support.performance_sections import SECTIONS, Goal, Section
from docs.support.reflow import reflow
from mimw.kernels import measured

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHIPPED = {True: "yes", False: "no", None: "-"}
MACS = {"bf16": "macs_16", "fp8": "macs_8", "tf32": "macs_32"}


def costs() -> dict:
    """The cost model of the chip that the rows are of."""
    return tomllib.loads((ROOT / "src" / "mimw" / "simulator" / "costs" / "sm_90a.toml").read_text())


@dataclass(frozen=True)
class OtherChip:
    """Another chip than the H200, with a folder of rows and a page of its own: bytes a second that a copy in its memory reaches."""

    name: str
    full_name: str
    folder: str
    memory: float


OTHERS = (OtherChip("H100", "NVIDIA H100 80GB HBM3", "h100", 3.0e12), )


def limits() -> tuple[dict[str, float], float]:
    """(operations a second by type, bytes a second) of the chip that the rows are of, as the cost model has them."""
    chip = costs()
    cycles = chip["chip"]["sms"][0] * chip["chip"]["boost_mhz"][0] * 1e6 * chip["power"]["tensor_share"][0]
    return {kind: 2 * chip["tensor"][macs][0] * cycles for kind, macs in MACS.items()}, chip["memory"]["dram_gb_per_s"][0] * 1e9


def ceiling(section: Section, row: Row) -> float:
    """Microseconds that the row's chip needs at least: tensor cores and links are those of all chips here."""
    operations, memory = limits()
    memory = next((other.memory for other in OTHERS if other.name in row.chip), memory)
    memory = costs()["link"]["put_gb_per_s"][0] * 1e9 if section.link else memory
    done, moved = section.work(row)
    kind = next((kind for kind in ("fp8", "tf32") if kind in row.name), section.kind)
    return max(done / operations[kind], moved / memory) * 1e6


def rate(section: Section, row: Row, microseconds: float) -> float:
    """TFLOP/s or GB/s."""
    done, moved = section.work(row)
    return done / microseconds / 1e6 if section.unit == "TFLOP/s" else moved / microseconds / 1e3


def goal_of(goal: Goal, rows: list[Row]) -> str:
    """The goal, where we stand, and by how much it is missed. A row counts against its best baseline."""
    best, counted = {}, []
    for row in rows:
        found = [ratio for name in goal.against if (ratio := row.ratio(name)) is not None]
        if found and re.search(goal.rows, row.name):
            best[row.name, *row.shape.items()] = min(found)
            counted.append(row)
    of = f", rows `{goal.rows}`" if goal.rows else ""
    kind = "every row" if goal.every else "geometric mean"
    wanted = f"Goal{of}: {goal.at_least:g} x the best of {', '.join(goal.against)}, {kind}."
    if not best:
        return f"{wanted} No row has these baselines."
    lowest = min(best, key=best.get)
    reached = best[lowest] if goal.every else mean(list(best.values()))
    verdict = "met" if reached >= goal.at_least else f"missed by {goal.at_least - reached:.3f}"
    return (f"{wanted} Geometric mean {mean(list(best.values())):.3f}, lowest {best[lowest]:.3f} ({lowest[0]}), of "
            f"{len(best)} rows, {sum(ratio >= goal.at_least for ratio in best.values())} at the goal: {verdict}.{mixed(counted)}")


def mixed(rows: list[Row]) -> str:
    """Of which runs the rows are where these are several, and how many are not of what the library would launch today."""
    runs = Counter(row.run for row in rows)
    said = [f"Rows of {len(runs)} runs: {', '.join(f'{many} of {run}' for run, many in sorted(runs.items()))}."] * (len(runs) > 1)
    others = sum(row.shipped is False for row in rows)
    said += [f"{others} of them with a configuration that the library does not choose today."] * (others > 0)
    return "".join(f" {sentence}" for sentence in said)


def said(shape: dict[str, int]) -> str:
    """Rows before columns before what is summed over, as everybody has them."""
    order = "BGMNK"
    known = sorted(shape, key=lambda name: order.find(name) if name in order else len(order))
    return ", ".join(f"{name} {shape[name]}" for name in known)


def number(value: float) -> str:
    """Three digits or more, no fraction of large ones."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def table(rows: list[Row], section: Section | None) -> list[str]:
    baselines = sorted({name for row in rows for name in row.baselines})
    rates = [section.unit, "of the ceiling"] if section else []
    head = ["what", "shape", "us", *rates, *(f"{name} / ours" for name in baselines), "error", "tried", "shipped", "run"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row.name, said(row.shape), number(row.microseconds)]
        if section:
            cells += [f"{rate(section, row, row.microseconds):.0f}", f"{ceiling(section, row) / row.microseconds:.2f}"]
        cells += ["-" if (ratio := row.ratio(name)) is None else f"{ratio:.3f}" for name in baselines]
        lines.append(f"| {' | '.join([*cells, f'{row.error:.1e}', str(row.tried), SHIPPED[row.shipped], row.run])} |")
    return lines


def measured_on(rows: list[Row]) -> str:
    """Chips and versions of some rows, in a sentence."""
    return "; ".join(sorted({f"{row.chip}, {row.versions or 'versions not kept'}" for row in rows}))


def chart(section: Section, rows: list[Row], title: str) -> str:
    """Rates of ours and of the baselines, over the rows in their order."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row.baselines) if name != "plain"]
    series = {"mimw": [rate(section, row, row.microseconds) for row in rows]}
    for name in sorted(names):
        series[name] = [rate(section, row, row.baselines[name]) if name in row.baselines else None for row in rows]
    return line_chart(title, section.unit, [place(row, rows) for row in rows], series)


def place(row: Row, rows: list[Row]) -> str:
    """What tells a row from its neighbours: its id at the end of its name, or the extents in which rows differ."""
    if len({one.name for one in rows}) == len(rows):
        return row.name.rsplit("-", 1)[-1]
    differing = [name for name in row.shape if len({one.shape.get(name) for one in rows}) > 1]
    return " x ".join(str(row.shape[name]) for name in differing)


def in_order(rows: list[Row]) -> list[Row]:
    """Names and then shapes, both counted upward as numbers are."""
    return sorted(rows, key=lambda row: (counted_name(row.name), tuple(row.shape.values())))


def counted_name(name: str) -> tuple[tuple[str, int], ...]:
    """What a name is sorted by: its words and the numbers behind them, those that end in K or M as bytes. `all_reduce-bf16-64K` is
    (("all_reduce-bf", 16), ("-", 65536), ("", 0)): 64K comes before 1M, and 512 before 4096."""
    bytes_ = re.sub(r"(\d+)([KM])\b", lambda found: str(int(found[1]) << {"K": 10, "M": 20}[found[2]]), name)
    return tuple((word, int(number or 0)) for word, number in re.findall(r"(\D*)(\d*)", bytes_))


def alike(rows: list[Row]) -> list[Row]:
    """Those with the shape of most, one extent aside: points of one curve."""
    kept = [name for name in ("dim", "batch", "heads", "kv_heads", "experts") if all(name in row.shape for row in rows)]
    kinds: dict[tuple, list[Row]] = {}
    for row in rows:
        kinds.setdefault(tuple(row.shape[name] for name in kept), []).append(row)
    return max(kinds.values(), key=len)


def other_page(other: OtherChip) -> dict[str, str]:
    """The page of another chip: tables and goals of what ran there."""
    with mock.patch.object(measured, "chip_in_use", lambda: other.full_name):       # the library's choices on that chip
        files = newest(ROOT / "benchmarks" / "results" / other.folder, shipped)
    about = ["## How these figures are made", "",
             f"Made by `python docs/support/performance.py` from benchmarks/results/{other.folder}/*.jsonl, as [the page of the "
             f"H200](performance.md), which says what rows, ratios and `shipped` are. The ceiling's bytes are over "
             f"{other.memory / 1e9:.0f} GB/s, what a copy reaches. Configurations are those that were searched on an H200, "
             "but where benchmarks/notes says otherwise.", ""]
    lines = [f"# Performance on {other.name}", "",
             "Times of the baselines over ours, in the same run: above 1 we are faster. "
             "[How these figures are made](#how-these-figures-are-made) stands below the tables.", ""]
    for section in SECTIONS:
        rows = in_order([row for file in section.files for row in files.get(file, []) if row.name.startswith(section.starts)])
        if rows:
            lines += [f"## {section.title}", "", f"`{section.command}`; {measured_on(rows)}.", "", *table(rows, section), "",
                      *(f"* {goal_of(goal, rows)}" for goal in section.goals), ""]
            if (other.name, section.title) in EXPLAINED_ELSEWHERE:
                lines += [" ".join(EXPLAINED_ELSEWHERE[other.name, section.title].split()), ""]
    return {f"performance-{other.folder}.md": "\n".join(lines + about)} if files else {}


def pages() -> dict[str, str]:
    """File under docs/ -> its text, of all chips."""
    made = page()
    for other in OTHERS:
        made |= other_page(other)
    return {name: reflow(text) if name.endswith(".md") else text for name, text in made.items()}


def provenance(operations: dict[str, float], memory: float) -> list[str]:
    """Paragraphs on where rows come from, and what their columns mean."""
    return [
        "Made by `python docs/support/performance.py` from benchmarks/results/*.jsonl, where the benchmarks keep what they "
        "measured. A "
        "row is the newest run of its shape; where that run tried several configurations (`tried`), the one that the library "
        "chooses today, else the fastest: `shipped` says whether a row is of that choice, and a row that is not shows what an "
        "earlier form or a candidate did. Rows of one `run` (the day, and a digest of the package's sources where it was kept) "
        "may be compared with each other, those of several runs are named with each goal. Ratios are times of "
        "one run, ours and the baseline in turn with a cold L2: above 1 we are faster. Only ratios within a row may be "
        "compared: the "
        "GPU is limited by its power, and clocks drift by several percent from run to run.", "",
        f"The ceiling is the longer of two times: bytes over {memory / 1e9:.0f} GB/s, and operations over what the tensor "
        f"cores sustain "
        f"at 700 W with normal numbers, {operations['bf16'] / 1e12:.0f} TFLOP/s (bf16, fp16) and "
        f"{operations['fp8'] / 1e12:.0f} (fp8) and {operations['tf32'] / 1e12:.0f} (tf32). "
        "Bytes are the least there are: each operand and each result once. What was tried, with predictions and failures, is in "
        "benchmarks/notes; what the words cost, in TIMING.md. Lines \"Counters\" are of one launch under ncu, with "
        "cold caches and the clock as it is (`python -m benchmarks.counters`): shares of what each unit can do while the kernel "
        "runs, the reasons for which warps wait (shares of their time), and how even their work is. Under "
        "ncu a kernel runs alone on a cooler chip than in the tables.", ""]


def page() -> dict[str, str]:
    """File under docs/ -> its text."""
    results = ROOT / "benchmarks" / "results"
    files, counted, (operations, memory) = newest(results, shipped), newest_counters(results / "counters.jsonl"), limits()
    pictures, taken = {}, set()
    shown, days = peers.standings(), peers.days()
    pictures["performance/glance.svg"] = glance.chart(shown, f"{peers.measured_on()}; rows of {days}.")
    lines = ["# Performance", "",
             "![Time of each peer over ours, an operator a line](performance/glance.svg)", "",
             "## At a glance", "", peers.table(), "",
             "[How these figures are made](#how-these-figures-are-made) says which rows count, what a ceiling is, and how "
             "to measure again.", ""]
    for section in SECTIONS:
        rows = in_order([row for file in section.files for row in files.get(file, []) if row.name.startswith(section.starts)])
        taken.update(section.files)
        if not rows:
            continue
        if section.published:
            rows = [replace(row, baselines=section.published(row) | row.baselines) for row in rows]
        lines += [f"## {section.title}", "", f"`{section.command}`; {measured_on(rows)}.", ""]
        for name, starts in section.curves:
            points = alike([row for row in rows if re.match(starts, row.name)] or rows)
            if len(points) > 1:
                pictures[f"performance/{name}.svg"] = chart(section, points, f"{section.title}: {name}")
                lines += [f"![{name}](performance/{name}.svg)", ""]
        lines += [*table(rows, section), ""]
        lines += [f"**Ceiling.** {' '.join(section.bound.split())}", ""]
        lines += [*(f"* {goal_of(goal, rows)}" for goal in section.goals), ""]
        if section.title in EXPLAINED:
            by = "times" if section.of_several else "counters"
            lines += [f"**By {by}.** {' '.join(EXPLAINED[section.title].split())}", ""]
        lines += [*(counters := said_of(rows, counted, said, shipped)), *[""] * bool(counters)]
    for name, rows in files.items():
        if name not in taken:
            lines += [f"## {name}", "", f"{measured_on(rows)}.", "", *table(in_order(rows), None), ""]
    lines += ["## How these figures are made", "", *provenance(operations, memory)]
    return {"performance.md": "\n".join(lines)} | pictures


def main(arguments: list[str]) -> int:
    made, stale = pages(), []
    for name, text in made.items():
        file = DOCS / name
        if arguments == ["--check"]:
            stale += [name] if not file.exists() or file.read_text() != text else []
            continue
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    stale += [f"performance/{file.name}" for file in (DOCS / "performance").glob("*.svg") if f"performance/{file.name}" not in made]
    stale += ["../README.md"] * peers.main(arguments)
    if stale:
        print(f"stale: {', '.join(stale)}. Run python docs/support/performance.py, and remove pictures that it does not make")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
