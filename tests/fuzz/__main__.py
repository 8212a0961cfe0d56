"""python -m tests.fuzz FIRST COUNT: so many programs from that seed on, one line for each that fails, a summary for each family."""

from __future__ import annotations

import argparse
import collections
import sys
import time

from . import rows
from .families import GROUPS, ORDINARY, WORLDS, chosen, everything
from .workers import Died, cores, run_all

FINE = ("ok", "skipped", "stays plain", "guarded", "refused", "too short", "no plain")  # most: of `ordinary` (ordinary/judge.py)


def parsed(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument(
        "--stages",
        default="sim,check",
        help="of sim, check, text (IR printed and read back), ttgir (compiled, and what came out read back), compile (all chips), "
        "'compile sm_90a' (one), gpu; 'compile sm_90a/8' "
        "of each eighth program only",
    )
    parser.add_argument(
        "--family",
        choices=[*everything(), *GROUPS, WORLDS, ORDINARY],
        help="blackwell: all that are for sm_100a; amd: for AMD's chips; worlds: programs on several GPUs; "
        "ordinary: loops in `tl` words under automatic orchestration; edges: all at the "
        "edges; all: the usual ones, the edges and worlds",
    )
    parser.add_argument("--chip", help="hold each program against that chip, not its own; what the chip lacks is skipped")
    parser.add_argument("--jobs", type=int, default=0, help="worker processes (default: the machine's cores)")
    parser.add_argument(
        "--mutants", action="store_true", help="take one synchronising line out of each program instead"
    )
    parser.add_argument("--read-back", action="store_true", help="the same as --stages ttgir")
    parser.add_argument("--shrink", action="store_true", help="write a small file for each failure into --out")
    parser.add_argument("--out", default="fuzz-failures", help="folder for those files")
    parser.add_argument("--jsonl", help="append a row about this run to that file")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no program after so many seconds")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that one program may take")
    return parser.parse_args(arguments)


def main(arguments=None) -> int:
    options = parsed(arguments)
    if options.mutants:
        from .mutants import main as mutate

        return mutate(options)
    options.stages = "ttgir" if options.read_back else options.stages
    stages = tuple(options.stages.split(","))
    began = time.time()
    found, failures = collections.Counter(), []
    seconds: dict[str, float] = collections.defaultdict(float)
    programs, loops, steps, unread = (collections.Counter() for _ in range(4))
    given = {"stages": stages, "family": options.family, "chip": options.chip}
    workers = options.jobs or cores()
    for seed, result in run_all(
        range(options.first, options.first + options.count),
        "tests.fuzz.worker:run_seed",
        workers,
        options.limit,
        began + options.seconds,
        given,
    ):
        if isinstance(result, Died):
            result = {
                "seed": seed,
                "family": chosen(seed, options.family),
                "outcomes": [(stages[-1], result.kind, result.detail)],
                "seconds": options.limit,
            }
        family = result["family"]
        programs[family] += 1
        loops.update(result.get("loops", {}))
        steps.update(result.get("steps", {}))
        seconds[family] += result["seconds"]
        for stage, kind, detail in result["outcomes"]:
            found[family, stage, kind] += 1
            if kind.startswith("unread "):
                unread[kind.removeprefix("unread ")] += 1
            elif kind not in FINE:
                failures.append((seed, family, stage, kind))
                print(
                    f"FAIL {seed} {family} {stage}: {kind}\n    " + detail.strip().replace("\n", "\n    "), flush=True
                )
    took = time.time() - began
    summary(programs, found, seconds)
    if loops:
        share = 100 * loops["orchestrated"] / max(1, loops["with products"])
        some = f"{loops['orchestrated']} of {loops['with products']} loops with products orchestrated ({share:.0f} %)"
        print(f"{some}, {loops['plans']} plans run")
    if steps:
        print("; ".join(f"{name} {took / sum(programs.values()):.2f} s" for name, took in steps.items()) + ", of each program")
    if unread:
        print(f"{sum(unread.values())} not read back: " + ", ".join(f"{op} {count}" for op, count in unread.most_common()))
    print(f"{sum(programs.values())} programs, {len(failures)} failures, {took:.0f} s, {workers} workers")
    if options.jsonl:
        rows.append(options.jsonl, rows.of_run("fuzz", options, stages, programs, found, took))
    if options.shrink and failures:
        from .shrink import shrink_all

        shrink_all(failures, options)
    return 1 if failures else 0


def summary(programs, found, seconds) -> None:
    """One line a family: how many programs, and the outcomes of each stage."""
    for family in sorted(programs):
        parts = collections.defaultdict(list)
        for (name, stage, kind), count in sorted(found.items()):
            if name == family:
                parts[stage].append(f"{kind} {count}")
        print(
            f"{family:8} {programs[family]:5} programs {seconds[family] / programs[family]:5.2f} s each   "
            + "   ".join(f"{stage}: {', '.join(texts)}" for stage, texts in parts.items())
        )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(1)
