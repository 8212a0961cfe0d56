"""How many wrong kernels does `mimw.check` notice? Every synchronising word of a kernel is changed, one at a time.

    python -m benchmarks.mutations [--kernels TEXT...] [--seeds 200] [--out docs/MUTATIONS.md]
    python -m benchmarks.mutations --list [--kernels TEXT...]       what became of each mutant, by the rows: nothing is run

The kernel itself is checked on `--seeds` seeds. A mutant changes one source line in every place where it was inlined. One
is *caught* if the compiler refuses it or a few seeds and the systematic search find something. One that is not caught
runs on 30 interleavings and is *missed* if one of these ends in an error or another result; else it is *equivalent*, and
listed with the reason why it is no mistake (mutation_reasons.py). Rows go to `--results`; `--kernels` runs only the kernels
whose names hold one of the texts: rows of the others stay, and the table is of all.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mimw.compiler.passes import run_passes
from mimw.errors import InvalidProgram, MimwError
from mimw.runtime.simulate import Launch, prepare
from mimw.simulator import run
from mimw.target import target
from mimw.tools.check import Search
from mimw.tools.search.processes import Crew, job_count

from .driver import read_rows, with_results
from .mutants import Mutant, mutants
from .mutation_kernels import CASES, ON_SEVERAL_GPUS, Case
from .mutation_reasons import reason
from .mutation_table import listing, table
from .progress import each

ROWS = Path(__file__).parent / "results" / "mutations.jsonl"
SEEDS, RUNS = 8, 8       # seeds, and then systematic runs at most, that a mutant has to be caught in; 8 is `check`'s own number
TRIED = 30                # interleavings that one which is not caught has to be right in


@dataclass(frozen=True)
class Outcome:
    """`verdict`: caught, missed or equivalent; `by` the class that caught it, or the reason."""

    mutant: Mutant
    verdict: str
    by: str


def judge(launch: Launch, mutant: Mutant, settled: Callable = list) -> Outcome:
    """What becomes of one mutant of the program in `launch`; `settled` as a case has it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = run_passes(mutant.program, target(launch.specialisation.target))
    except InvalidProgram:
        raise
    except MimwError as error:
        return Outcome(mutant, "caught", f"{error.kind} (compiler)")
    search = Search(replace(launch, program=program))
    for seeds, how in (*(([seed], "random") for seed in range(SEEDS)), ((), "systematic")):
        report = search.all(seeds, how, RUNS, shrink=False)
        if report.findings:
            return Outcome(mutant, "caught", report.findings[0].kind)
    try:
        fault = _fault(launch, program, search, settled)
    finally:
        search.saved.restore()
    return Outcome(mutant, "missed", fault) if fault else Outcome(mutant, "equivalent", reason(mutant))


def _fault(launch: Launch, program, search: Search, settled: Callable) -> str:
    """What goes wrong with `program` on one of so many seeds; nothing if its results are those of the launch's own."""
    arrays = [array for array, _ in search.saved.copies]
    search.saved.restore()
    run(launch.program, launch.grid, launch.values, gpus=launch.gpus)
    wanted = [array.copy() for array in settled(arrays)]
    for seed in range(TRIED):
        search.saved.restore()
        try:
            run(program, launch.grid, launch.values, seed=seed, gpus=launch.gpus)
        except MimwError as error:
            return f"seed {seed}: {error.kind}"
        if any(one.tobytes() != other.tobytes() for one, other in zip(settled(arrays), wanted)):
            return (f"seed {seed}: another result, by a protocol without a fault: every access is ordered, and the data are "
                    "another's. Only comparing results shows it")
    return ""


def measure(case: Case, seeds: int) -> list[dict]:
    """The rows of one kernel: first its sums, then one for each mutant."""
    start = time.perf_counter()
    launch = prepare(*_arguments(*case.make()), case.target)
    clean = Search(launch, jobs=job_count(None)).all(seeds, "both", RUNS, shrink=False)
    rows, made = [], list(mutants(launch.recorded))

    def verdict(at: int) -> tuple[str, str]:
        outcome = judge(launch, made[at], case.settled)
        return outcome.verdict, outcome.by

    for mutant, (found, by) in zip(made, Crew(len(made), verdict, job_count(None)), strict=True):
        rows.append({"kind": "mutant", "kernel": case.name, "word": mutant.word, "line": mutant.site.line, "change": mutant.change,
                     "called_from": [site.line for site in mutant.site.chain()[1:]], "verdict": found, "by": by})
    head = {"kind": "kernel", "kernel": case.name, "file": case.file, "alarms": len(clean.findings), "runs": clean.runs,
            "seeds": seeds, "date": datetime.date.today().isoformat(), "seconds": round(time.perf_counter() - start),
            **Counter(row["verdict"] for row in rows)}
    return [head, *rows]


def _arguments(kernel, grid, args, meta):
    return kernel, grid, args, dict(meta)


def main(words: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kernels", nargs="*", default=[""], metavar="TEXT")
    options.add_argument("--seeds", type=int, default=200)
    options.add_argument("--out", type=Path)
    with_results(options)
    options.add_argument("--list", action="store_true", help="print what became of each mutant by the rows, and run nothing")
    options = options.parse_args(words)
    chosen = [case for case in (*CASES, *ON_SEVERAL_GPUS) if any(text.lower() in case.name.lower() for text in options.kernels)]
    file = options.results / ROWS.name
    if options.list:
        sys.stdout.write(listing(read_rows(file), [case.name for case in chosen]))
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    for case in each(chosen, lambda case: case.name):
        new = measure(case, options.seeds)
        kept = [row for row in read_rows(file) if row["kernel"] != case.name]
        file.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in (*kept, *new)))
        print(json.dumps(new[0], sort_keys=True), flush=True)
    text = table(read_rows(file), [case.name for case in (*CASES, *ON_SEVERAL_GPUS)])
    if options.out:
        options.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
