"""python -m tests.long_run --launches 100000 --seed 1: random calls of all operators, each held against torch on the same GPU.

    --processes 8       that share the GPU, and the cases among them
    --journal FILE      what is done, so that a run that was ended goes on where it was
    --only 4711         one case, with what it is
    --repeats 4         calls of each case, each compared
    --families 4        kinds of arguments of an operator in the run: what is compiled; shapes and values are new in each case

Each case is drawn from the seed and its number (draws.py): torch in fp64 says what is right. With few families nearly all of the
time goes into launches, and another seed takes others. Prints rates; at the first wrong result, error or hang all stop, and the
last line is the one that repeats it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from pathlib import Path

from .worker import Plan, Report, only, work

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
    parser.add_argument("--repeats", type=int, default=Plan.repeats)
    parser.add_argument("--families", type=int, default=Plan.families)
    return parser.parse_args(arguments)


def run_of(options: argparse.Namespace) -> dict:
    """What a journal has to agree in for a run to go on."""
    return {name: getattr(options, name) for name in ("seed", "processes", "families")}


def done_before(options: argparse.Namespace) -> dict[int, int]:
    """Process -> the first of its cases that is not done."""
    if options.journal is None or not options.journal.exists():
        return {}
    rows = [json.loads(line) for line in options.journal.read_text().splitlines()]
    return {row["process"]: row["next"] for row in rows if run_of(options).items() <= row.items()}


def repeating(options: argparse.Namespace, number: int) -> str:
    chosen = f" --operators {' '.join(options.operators)}" if options.operators else ""
    families = f" --families {options.families}" if options.families != Plan.families else ""
    return f"python -m tests.long_run --seed {options.seed} --only {number}{chosen}{families}"


def main(arguments=None) -> int:
    options = parsed(arguments)
    plan = Plan(options.seed, options.device, tuple(options.operators), options.repeats, options.families)
    if options.only is not None:
        return 1 if only(plan, options.only) else 0
    context, before = multiprocessing.get_context("spawn"), done_before(options)
    reports, until = context.Queue(), time.time() + options.seconds
    cases = -(-options.launches // (options.repeats * options.processes))      # of each process
    workers = [context.Process(target=work, daemon=True, args=(
        reports, plan, process, options.processes, before.get(process, 0), cases, until)) for process in range(options.processes)]
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
    launches = options.repeats * sum(at.values())
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
                launches += options.repeats
                by_operator[report.operator] = by_operator.get(report.operator, 0) + options.repeats
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
        file.write(json.dumps(run_of(options) | {"process": process, "next": case}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
