"""Is what compiled what was simulated? Each kernel is compiled up to the TTGIR behind all passes, read back, and run both ways.

    python -m benchmarks.read_back [--kernels TEXT...] [--seeds 3] [--texts DIR] [--page FILE.md]
    python -m benchmarks.read_back --list           the table of the rows that are there: nothing is compiled

Of each kernel of `mutation_kernels.CASES` a row, in benchmarks/results/read_back.jsonl: whether the arrays that the two write are
the same byte for byte, whether the fixed effects of each task come in the same order (read_back_order.py), whether a check finds
the same on so many seeds, and why a kernel cannot be read back. `--texts` is a folder for the TTGIR: what is there is not compiled
again. Ends with 1 if two forms disagree.
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

from mimw.errors import MimwError, NotYet, SimulationError, SimulatorMisuse
from mimw.runtime.simulate import Launch
from mimw.simulator import run
from mimw.target import asking, wanted
from mimw.tools.check import Search
from mimw.tools.search.arrays import Arrays

from .driver import read_rows, with_results
from .mutation_kernels import CASES, Case
from .progress import each
from .read_back_launches import Forms, forms_of
from .read_back_order import difference, fixed, kept, order_of_run
from .read_back_page import disagrees, page, table

FILE = "read_back.jsonl"


def compared(forms: Forms, target: str, seeds: int = 2, settled=list) -> dict:
    """The part of a row that says whether the forms of one launch agree: "same", or how they differ."""
    try:
        compiled, reading = forms.read()
    except NotYet as error:
        return {"refused": _reason(error)}
    saved = Arrays(forms.simulated.arrays())
    row = {"recorded": sum(1 for _ in forms.recorded.program.walk()), "read": sum(1 for _ in compiled.program.walk())}
    with asking(wanted(target)):
        try:
            row["arrays"] = _arrays(forms.simulated, compiled, saved, settled)
        except SimulatorMisuse as error:        # a view, say, that memory of the simulator does not have
            saved.restore()
            return {"refused": _reason(error)}
        if forms.is_ours:
            row |= _order(forms, compiled, reading.numbers, saved)
        row["findings"] = _findings(forms.simulated, compiled, seeds)
    saved.restore()
    return row


def _arrays(one: Launch, other: Launch, saved: Arrays, settled) -> str:
    """Whether both write the same, or end in the same error."""
    written, ends = [], []
    for launch in (one, other):
        saved.restore()
        try:
            run(launch.program, launch.grid, launch.values, seed=1, memory=launch.memory)
        except SimulatorMisuse:
            raise
        except SimulationError as error:
            ends.append(error.kind)
        written.append([np.array(array) for array in settled([array for array, _ in saved.copies])])
    if ends:
        return "same" if len(ends) == 2 and ends[0] == ends[1] else f"one of the two ends in {ends[0]}"
    return _first_wrong(*written)


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
    try:
        found = order_of_run(compiled, became.numbers)
    except SimulationError as error:
        return {"order": f"the compiled kernel ends in {error.kind}", "effects": 0, "dropped": dict(became.dropped)}
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


def main(words: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kernels", nargs="*", default=[""], metavar="TEXT")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--texts", type=Path, metavar="DIR")
    options.add_argument("--page", type=Path, metavar="FILE")
    options.add_argument("--list", action="store_true")
    with_results(options)
    options = options.parse_args(words)
    file = options.results / FILE
    chosen = [case for case in CASES if any(text.lower() in case.name.lower() for text in options.kernels)]
    for case in each([] if options.list else chosen, lambda case: case.name):
        row = measure(case, options.seeds, options.texts)
        kept_rows = [old for old in read_rows(file) if old["kernel"] != case.name]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(one, sort_keys=True) + "\n" for one in (*kept_rows, row)))
        print(json.dumps(row, sort_keys=True), flush=True)
    names = [case.name for case in chosen]
    rows = sorted((row for row in read_rows(file) if row["kernel"] in names), key=lambda row: names.index(row["kernel"]))
    if options.page:
        options.page.write_text(page(rows))
    else:
        print(table(rows))
    sys.exit(any(map(disagrees, rows)))


if __name__ == "__main__":
    main()
