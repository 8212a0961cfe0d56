"""How many planted edits of TTGIR does `mimw.check_ttgir` find? Each wait, fence, index, phase, arrival, count, predicate, mask,
swizzle and initialisation of a kernel's module is broken, one at a time (ttgir_planted.py).

    python -m benchmarks.ttgir_edits [--kernels TEXT...] [--out docs/TTGIR_EDITS.md]
    python -m benchmarks.ttgir_edits --list [--kernels TEXT...]     each edit that was not found, with the reason, by the rows

Input: the kernels of ttgir_edit_kernels.py, compiled by stock Triton for chips of NVIDIA and AMD; no GPU is needed. Output: rows in
`--results`, and a page. An edit is *found* if a check of one of the kernel's launches says something, results compared, or if the
module is refused; *harmless* if ttgir_edit_reasons.py can say why, by a further check where one can tell; else *missed*.
`--kernels` runs only the kernels whose names hold one of the texts: rows of the others stay, and the page is of all.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import triton

import mimw
from mimw.errors import MimwError, TtgirError

from .driver import with_results
from .mutations import read_rows
from .progress import each
from .ttgir_edit_kernels import CASES, Case, Made
from .ttgir_edit_reasons import reason
from .ttgir_edit_table import listing, page
from .ttgir_planted import Edit, edits

ROWS = Path(__file__).parent / "results" / "ttgir_edits.jsonl"
SEEDS, RUNS = 8, 8      # random interleavings, and then systematic ones


def found(made: Made, text: str, seeds: int = SEEDS, runs: int = RUNS) -> str:
    """The class of what a check of the module finds in the launches, the first one; "" for nothing."""
    for given in made.launches:
        try:
            report = mimw.check_ttgir(text, made.grid, *given.args, file="<edited>", seeds=seeds, search="both", late_fences=False,
                                      limit=runs, shrink=False, jobs=1, expected=given.expected)
        except TtgirError:
            return "TtgirError (MLIR's verifier)"
        except MimwError as error:
            return f"{error.kind} (reader)"
        if report.findings:
            return report.findings[0].kind
    return ""


def judge(made: Made, edit: Edit) -> tuple[str, str]:
    """(found, harmless or missed; the class that found it, or the reason)."""
    if by := found(made, edit.text):
        return "found", by
    why = reason(edit, made, partial(found, made))
    return ("harmless", why) if why else ("missed", "")


def measure(case: Case) -> list[dict]:
    """The rows of one kernel: its sums first, then one for each edit."""
    start, made = time.perf_counter(), case.made()
    alarm = found(made, made.text, 50)
    rows = []
    for edit in edits(made.text):
        verdict, by = judge(made, edit)
        rows.append({"row": "edit", "kernel": case.name, "kind": edit.kind, "op": edit.op, "line": edit.line, "change": edit.change,
                     "verdict": verdict, "by": by})
    return [{"row": "kernel", "kernel": case.name, "target": case.target, "lines": len(made.text.splitlines()), "alarm": alarm,
             "launches": len(made.launches), "triton": triton.__version__, "date": datetime.date.today().isoformat(),
             "seconds": round(time.perf_counter() - start), **Counter(row["verdict"] for row in rows)}, *rows]


def main(words: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kernels", nargs="*", default=[""], metavar="TEXT")
    options.add_argument("--out", type=Path)
    with_results(options)
    options.add_argument("--list", action="store_true", help="print the edits that were not found by the rows, and run nothing")
    options = options.parse_args(words)
    chosen = [case for case in CASES.values() if any(text.lower() in case.name.lower() for text in options.kernels)]
    file = options.results / ROWS.name
    if options.list:
        sys.stdout.write(listing(read_rows(file), [case.name for case in chosen]))
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    for case in each(chosen, lambda case: case.name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = measure(case)
        kept = [row for row in read_rows(file) if row["kernel"] != case.name]
        file.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in (*kept, *new)))
        print(json.dumps(new[0], sort_keys=True), flush=True)
    text = page(read_rows(file), list(CASES))
    if options.out:
        options.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
