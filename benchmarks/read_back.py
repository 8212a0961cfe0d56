"""Is what compiled what was simulated? Each kernel is compiled up to the TTGIR behind all passes, read back, and run both ways.

    python -m benchmarks.read_back [--kernels TEXT...] [--seeds 3] [--texts DIR] [--out FILE.md]
    python -m benchmarks.read_back --list           the table of the rows that are there: nothing is compiled

Of each kernel of `mutation_kernels.CASES` a row, in benchmarks/results/read_back.jsonl: whether the arrays that the two write are the
same byte for byte, whether the fixed effects of each task come in the same order (read_back_order.py), whether a check finds the same
on so many seeds, and why a kernel cannot be read back. `--texts` is a folder for the TTGIR: what is there is not compiled again.
Ends with 1 if two forms disagree.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from mimw.errors import MimwError, NotYet
from mimw.runtime.simulate import Launch
from mimw.simulator import run
from mimw.target import asking, wanted
from mimw.tools.check import Search
from mimw.tools.search.arrays import Arrays

from .driver import with_results
from .mutation_kernels import CASES, Case
from .progress import each
from .read_back_launches import Forms, forms_of
from .read_back_order import difference, fixed, kept, order_of_run

FILE = "read_back.jsonl"


def compared(forms: Forms, target: str, seeds: int = 2, settled=list) -> dict:
    """The part of a row that says whether the forms of one launch agree: "same", or how they differ."""
    try:
        compiled, reading = forms.read()
    except NotYet as error:
        return {"refused": _reason(error)}
    saved = Arrays(forms.simulated.arrays())
    arrays = [array for array, _ in saved.copies]
    with asking(wanted(target)):
        wanted_arrays, found_arrays = (_written(one, saved, arrays, settled) for one in (forms.simulated, compiled))
        row = {"recorded": sum(1 for _ in forms.recorded.program.walk()), "read": sum(1 for _ in compiled.program.walk()),
               "arrays": _first_wrong(wanted_arrays, found_arrays)}
        if forms.is_ours:
            row |= _order(forms, compiled, reading.numbers, saved)
        row["findings"] = _findings(forms.simulated, compiled, seeds)
    saved.restore()
    return row


def _written(launch: Launch, saved: Arrays, arrays: list, settled) -> list[np.ndarray]:
    saved.restore()
    run(launch.program, launch.grid, launch.values, seed=1, memory=launch.memory)
    return [np.array(array) for array in settled(arrays)]


def _first_wrong(wanted_arrays: list[np.ndarray], found: list[np.ndarray]) -> str:
    for place, (one, other) in enumerate(zip(wanted_arrays, found, strict=True)):
        if one.tobytes() != other.tobytes():
            wrong = one != other
            far = np.abs(one.astype(np.float64) - other.astype(np.float64))[wrong].max() if wrong.any() else 0.0
            return f"array {place}: {int(wrong.sum())} of {one.size} elements differ, by {far:.3g} at most"
    return "same"


def _order(forms: Forms, compiled: Launch, said, saved: Arrays) -> dict:
    """Whether the order of effects is the same, and which ops are dropped, doubled or added."""
    program = forms.recorded.program
    became = kept(program, compiled.program, said)
    saved.restore()
    recorded = order_of_run(forms.recorded, fixed(program))
    saved.restore()
    found = order_of_run(compiled, became.numbers)
    wrong = difference(recorded, found, list(program.walk()), set(became.numbers.values()))
    return {"order": wrong or "same", "effects": sum(map(len, recorded.values())), "dropped": dict(became.dropped),
            "doubled": dict(became.doubled), "added": dict(became.added)}


def _findings(one: Launch, other: Launch, seeds: int) -> str:
    """Whether both show the same kinds of mistakes at the same lines, on the same seeds."""
    seen = [Counter((finding.kind, finding.sites[0].line if finding.sites else 0) for finding in
                    Search(launch).all(seeds, "random", 0, False).findings) for launch in (one, other)]
    if seen[0] == seen[1]:
        return "same" + (f": {len(seen[0])}" if seen[0] else "")
    return f"recorded {_listed(seen[0])}, compiled {_listed(seen[1])}"


def _listed(found: Counter) -> str:
    return ", ".join(f"{kind} in line {line}" for kind, line in found) or "nothing"


def _reason(error: MimwError) -> str:
    """The first line of a refusal, and the op."""
    what, _, op = str(error).partition("\n")
    name = re.search(r"\b((?:ttg|ttng|tt|amdg|rocdl|scf|llvm|arith|nvg|ttg\.inline_asm)\.[\w.]+)", op)
    return f"{what.partition(': ')[2] or what}{f' ({name[1]})' if name else ''}"


def measure(case: Case, seeds: int, texts: Path | None = None) -> dict:
    """The row of one kernel."""
    begun = time.perf_counter()
    row = {"name": "read_back", "kernel": case.name, "chip": case.target}
    kept_at = texts / f"{re.sub(r'[^A-Za-z0-9]+', '_', case.name)}.ttgir" if texts else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kernel, grid, args, meta = case.make()
            row |= compared(forms_of(kernel, grid, args, meta, case.target, kept_at), case.target, seeds, case.settled)
        except (MimwError, ValueError, TypeError, KeyError, AttributeError) as error:      # each a defect, and the others still run
            row["failed"] = f"{type(error).__name__}: {error}"[:2000]
    return {**row, "seconds": round(time.perf_counter() - begun, 1)}


def disagrees(row: dict) -> bool:
    return "failed" in row or any(not row.get(what, "same").startswith("same") for what in ("arrays", "order", "findings"))


def table(rows: list[dict]) -> str:
    """The rows as a table of Markdown, and a line of sums."""
    lines = ["| Kernel | Chip | Ops recorded / read | Arrays | Order | Findings | Dropped, doubled |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if said := row.get("refused") or row.get("failed"):
            lines.append(f"| {row['kernel']} | {row['chip']} | {_cell(said)} | | | | |")
            continue
        changed = [f"{what}: " + ", ".join(f"{name} {count}" for name, count in row.get(what, {}).items())
                   for what in ("dropped", "doubled") if row.get(what)]
        order = f"{row['order']}, {row['effects']} effects" if row.get("order") == "same" else row.get("order", "of Triton's own path")
        lines.append(f"| {row['kernel']} | {row['chip']} | {row['recorded']} / {row['read']} | {row['arrays']} | {_cell(order)} | "
                     f"{_cell(row['findings'])} | {'; '.join(changed)} |")
    refused, wrong = sum("refused" in row for row in rows), sum(map(disagrees, rows))
    return "\n".join([*lines, "", f"{len(rows)} kernels: {len(rows) - refused - wrong} agree, {wrong} disagree, {refused} are refused."])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())[:240]


def _rows(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main(words: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kernels", nargs="*", default=[""], metavar="TEXT")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--texts", type=Path, metavar="DIR")
    options.add_argument("--out", type=Path)
    options.add_argument("--list", action="store_true")
    with_results(options)
    options = options.parse_args(words)
    file = options.results / FILE
    chosen = [case for case in CASES if any(text.lower() in case.name.lower() for text in options.kernels)]
    for case in each([] if options.list else chosen, lambda case: case.name):
        row = measure(case, options.seeds, options.texts)
        kept_rows = [old for old in _rows(file) if old["kernel"] != case.name]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(one, sort_keys=True) + "\n" for one in (*kept_rows, row)))
        print(json.dumps(row, sort_keys=True), flush=True)
    names = [case.name for case in chosen]
    rows = sorted((row for row in _rows(file) if row["kernel"] in names), key=lambda row: names.index(row["kernel"]))
    if options.out:
        options.out.write_text(table(rows) + "\n")
    else:
        print(table(rows))
    sys.exit(any(map(disagrees, rows)))


if __name__ == "__main__":
    main()
