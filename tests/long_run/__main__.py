"""python -m tests.long_run --launches 100000 --seed 1: random calls of all operators, each held against torch on the same GPU.

    --processes 8       that share the GPU, and the cases among them
    --journal FILE      what is done, so that a run that was ended goes on where it was
    --only 4711         one case, with what it is

Each case is drawn from the seed and its number (draws.py), called REPEATS times, and compared each time: torch in fp64 says what is
right. Prints rates; at the first wrong result, error or hang all stop, and the last line is the one that repeats it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from pathlib import Path

from .worker import REPEATS, Report, only, work

STUCK = 90.0        # seconds without a case


def parsed(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.long_run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so many")
    parser.add_argument("--journal", type=Path, help="a file of one JSON object a line")
    parser.add_argument("--operators", nargs="*", default=[], help="some of them")
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--device", default="cuda", help="cpu: in the simulator")
    return parser.parse_args(arguments)


def done_before(journal: Path | None, seed: int, processes: int) -> dict[int, int]:
    """Process -> the first of its cases that is not done."""
    if journal is None or not journal.exists():
        return {}
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    return {row["process"]: row["next"] for row in rows if (row["seed"], row["processes"]) == (seed, processes)}


def repeating(options: argparse.Namespace, number: int) -> str:
    chosen = f" --operators {' '.join(options.operators)}" if options.operators else ""
    return f"python -m tests.long_run --seed {options.seed} --only {number}{chosen}"


def main(arguments=None) -> int:
    options = parsed(arguments)
    if options.only is not None:
        wrong = only(options.seed, options.only, options.device, tuple(options.operators))
        return 1 if wrong else 0
    context, before = multiprocessing.get_context("spawn"), done_before(options.journal, options.seed, options.processes)
    reports, until = context.Queue(), time.time() + options.seconds
    cases = -(-options.launches // (REPEATS * options.processes))      # of each process
    workers = [context.Process(target=work, daemon=True, args=(
        reports, process, options.processes, options.seed, before.get(process, 0), cases, until, options.device,
        tuple(options.operators))) for process in range(options.processes)]
    for one in workers:
        one.start()
    status = follow(options, reports, before)
    for one in workers:
        one.terminate()
    return status


def follow(options: argparse.Namespace, reports, before: dict[int, int]) -> int:
    """Read what the processes report until all have ended, or one found something."""
    begun = said = time.time()
    heard = dict.fromkeys(range(options.processes), begun)
    at = {process: before.get(process, 0) for process in heard}
    launches = REPEATS * sum(at.values())
    first, ended, by_operator = launches, set(), {}
    while len(ended) < options.processes:
        try:
            report: Report | None = reports.get(timeout=1.0)
        except Exception:  # nothing within the second; spawned queues raise their own class
            report = None
        now = time.time()
        if report is not None:
            heard[report.process], at[report.process] = now, report.case
            if report.problem:
                number = report.case * options.processes + report.process
                print(f"WRONG: case {number}, {report.operator}: {report.problem}\n{repeating(options, number)}", flush=True)
                return 1
            if report.operator is None:
                ended.add(report.process)
            else:
                launches += REPEATS
                by_operator[report.operator] = by_operator.get(report.operator, 0) + REPEATS
                if options.journal and report.case % 16 == 15:
                    keep(options, report.process, report.case + 1)
        stuck = [process for process in heard if process not in ended and now - heard[process] > STUCK]
        if stuck:
            number = at[stuck[0]] * options.processes + stuck[0]
            print(f"STUCK: nothing for {STUCK:.0f} s since case {number}; the next is\n"
                  f"{repeating(options, number + options.processes)}", flush=True)
            return 1
        if now - said > 10:
            said = now
            print(f"{launches} launches, {(launches - first) / (now - begun):.0f} a second", flush=True)
    for process, case in at.items():
        if options.journal:
            keep(options, process, case)
    print(" ".join(f"{name} {count}" for name, count in sorted(by_operator.items())))
    rate = (launches - first) / (time.time() - begun)
    print(f"{launches} launches of {len(by_operator)} operators, {rate:.0f} a second: none is wrong")
    return 0


def keep(options: argparse.Namespace, process: int, case: int) -> None:
    with options.journal.open("a") as file:
        file.write(json.dumps({"seed": options.seed, "processes": options.processes, "process": process, "next": case}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
