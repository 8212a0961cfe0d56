"""What the GPU's counters say of one launch: ours and the baselines, by Nsight Compute (`ncu`), on one GPU.

    python -m benchmarks.counters                               every case: compiled by 8 processes, then profiled by one
    python -m benchmarks.counters gemm-fp16-GH3 --jobs 0        some of them, compiled before
    python -m benchmarks.counters --compile                     fill the caches of compiled kernels, and no more

A case is a row of another benchmark: its `measure` makes the calls and checks their results, but instead of being timed each call
runs once to warm up and once under ncu, with cold caches and the clock as it is. An empty kernel with as many CTAs as the call's
number comes before each call, so that every launch is known. A row for each launch of 5 % of its call or more goes to `--results`;
docs/performance.md says them beside the tables. Under ncu a kernel runs alone and the chip is cooler than in a benchmark: compare
the shares, and times only with each other.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from glob import glob
from pathlib import Path

from .counter_cases import CASES, Case
from .driver import append, command, read_rows, some_of
from .gpu import parsed, torch

MARK = "counters_mark"
PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
LEAST_SHARE = 0.05
GRACE = 20.0        # seconds that a case may take more than there are
FACTS = "MIMW_COUNTERS_FACTS"      # the variable that names the file for what is known of each call
STALLS = ("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
          "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "short_scoreboard", "sleeping",
          "tex_throttle", "wait")
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
# what a row calls it -> what ncu calls it
METRICS = {
    "nanoseconds": "gpu__time_duration.sum", "clock": "sm__cycles_elapsed.avg.per_second",
    "tensor": f"sm__pipe_tensor_cycles_active.{OF_PEAK}", "memory": f"gpu__dram_throughput.{OF_PEAK}",
    "bytes_read": "dram__bytes_read.sum", "bytes_written": "dram__bytes_write.sum",
    "l2": f"lts__throughput.{OF_PEAK}", "l2_hits": "lts__t_sector_hit_rate.pct",
    "shared": f"l1tex__data_pipe_lsu_wavefronts.{OF_PEAK}",
    "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "issue": f"sm__issue_active.{OF_PEAK}",
    "warps": "sm__warps_active.avg.pct_of_peak_sustained_active", "registers": "launch__registers_per_thread",
    "elapsed": "sm__cycles_elapsed.max", "active_least": "sm__cycles_active.min", "active": "sm__cycles_active.avg",
    "active_most": "sm__cycles_active.max", "local_read": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_written": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    **{f"stalled_{stall}": STALLED.format(stall) for stall in STALLS},
}


def ncu() -> str:
    """Where it is."""
    found = shutil.which("ncu") or next((file for place in PLACES for file in sorted(glob(place))), None)
    if found is None:
        sys.exit(f"ncu is neither in PATH nor in {', '.join(PLACES)}: it comes with the CUDA toolkit, as Nsight Compute")
    return found


# In the process under ncu: the launches


@cache
def mark() -> Callable:
    """A kernel of no effect, whose CTAs are a number."""
    import triton

    @triton.jit
    def counters_mark():
        pass

    return lambda number: counters_mark[(number, )](num_warps=1)


@contextmanager
def instead_of_times(take: Callable) -> Iterator[None]:
    """In every benchmark `alternate` gives its calls to `take`, and what would be a graph of calls is one call."""
    modules = [module for name, module in sys.modules.items() if name.startswith("benchmarks.") and hasattr(module, "alternate")]
    names = "alternate", "graphed"
    kept = [(module, name, getattr(module, name)) for module in modules for name in names if hasattr(module, name)]
    try:
        for module, name, _ in kept:
            setattr(module, name, take if name == "alternate" else lambda call, calls=1: call)
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


def milliseconds(call: Callable) -> float:
    """Of one call, the second."""
    call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def run_here(case: Case, first: int) -> list[dict]:
    """Each wanted call of a case, once warm and once for ncu; what is known of it, its number among that, from `first` on."""
    sides: list[tuple[str, str]] = []

    def take(calls: dict[str, Callable], *_) -> dict[str, float]:
        for side in case.sides:
            names = [name for name in calls if name.partition(" ")[0] == side or name == side]
            if not names:
                print(f"no {side} among {', '.join(calls)}", flush=True)
                continue
            name = min(names, key=lambda name: milliseconds(calls[name])) if len(names) > 1 else names[0]
            calls[name]()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()    # what is allocated ncu saves before each pass
            torch.cuda.profiler.start()
            mark()(first + len(sides))
            calls[name]()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            sides.append((side, name))
        return dict.fromkeys(calls, 1.0)

    with instead_of_times(take):
        rows = case.measure()
    facts = []
    for number, (side, name) in enumerate(sides):
        row = next((one for one in rows if one.name.endswith(f"-{side}")), rows[0]) if isinstance(rows, list) else rows
        facts.append(dict(number=first + number, side=side, call=name, name=row.name, shape=dict(row.shape), chip=row.chip,
                          configuration=dict(row.configuration), versions=dict(row.versions), date=row.date))
    return facts


def run_all_here(names: list[str], facts: Path | None, seconds: float) -> None:
    """The cases one after the other until the time is over; a case that fails is a printed line."""
    end = time.monotonic() + seconds
    last = threading.Timer(seconds + GRACE, os._exit, [3])      # a launch that hangs must not take the other cases' counters along
    last.daemon = True
    last.start()
    for place, name in enumerate(names):
        if time.monotonic() > end:
            print(f"{name}: no time left", flush=True)
            continue
        try:
            found = run_here(CASES[name], 1 + 10 * place)
        except Exception as error:  # the other cases go on
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        print(f"{name}: {', '.join(one['call'] for one in found)}", flush=True)
        for one in found if facts else ():
            append(one, facts)
    last.cancel()


# In the process that starts it: what ncu prints, and rows


def launches_of(text: str) -> dict[int, list[dict]]:
    """Number of a call -> its launches, in what ncu prints: a table of one launch a line behind the lines of the program."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if not lines:
        return {}
    names, _, *rows = csv.reader(lines)
    found, number = {}, 0
    for row in (dict(zip(names, row)) for row in rows):
        if MARK in row["Kernel Name"]:
            number = int(row["Grid Size"].strip("() ").split(",")[0])
            continue
        found.setdefault(number, []).append(
            {"kernel": row["Kernel Name"], "grid": row["Grid Size"], "block": row["Block Size"]}
            | {name: number_of(row.get(metric, "")) for name, metric in METRICS.items()})
    return found


def number_of(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:      # n/a, no data
        return None


def told(launch: dict) -> dict:
    """A launch as a row has it: shares of 1, microseconds, MHz; the three reasons for which warps wait most."""
    one = {name: value or 0.0 for name, value in launch.items() if name in METRICS}
    waits = {stall: one[f"stalled_{stall}"] for stall in STALLS}
    total = sum(waits.values()) or 1.0
    leading = sorted(waits, key=waits.get, reverse=True)[:3]
    shares = {name: round(one[name] / 100, 4) for name in ("tensor", "memory", "l2", "l2_hits", "shared", "issue", "warps")}
    return {"kernel": launch["kernel"], "grid": launch["grid"], "block": launch["block"], **shares,
            "microseconds": round(one["nanoseconds"] / 1e3, 3), "mhz": round(one["clock"] / 1e6),
            "bytes": round(one["bytes_read"] + one["bytes_written"]), "registers": round(one["registers"]),
            "conflicts": round(one["conflicts"] / max(one["wavefronts"], 1.0), 4),
            "local_bytes": round(32 * (one["local_read"] + one["local_written"])),
            "sm_active": [round(one[name] / max(one["elapsed"], 1.0), 4) for name in ("active_least", "active", "active_most")],
            "stalls": {stall: round(waits[stall] / total, 4) for stall in leading if waits[stall]}}


def rows_of(facts: list[dict], launches: dict[int, list[dict]]) -> list[dict]:
    """The rows of all calls that ncu saw."""
    rows = []
    for fact in facts:
        found = [told(launch) for launch in launches.get(fact["number"], [])]
        whole = sum(one["microseconds"] for one in found)
        known = {name: value for name, value in fact.items() if name != "number"}
        rows += [known | one | {"launches": len(found), "share": round(one["microseconds"] / whole, 4)}
                 for one in found if whole and one["microseconds"] >= LEAST_SHARE * whole]
    return rows


def started(names: list[str], seconds: float, *words: str) -> str:
    """What a process with these cases printed; `words` come before its command line."""
    line = [*words, sys.executable, "-m", "benchmarks.counters", *names, "--seconds", str(seconds), "--here"]
    return subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def profiled(names: list[str], seconds: float, report: Path | None) -> list[dict]:
    """The rows of the cases, all of them in one process under ncu."""
    with tempfile.TemporaryDirectory() as folder:
        facts = Path(folder) / "facts.jsonl"
        os.environ[FACTS] = str(facts)
        text = started(names, seconds, ncu(), "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw",
                       "--print-units", "base", "--metrics", ",".join(METRICS.values()))
        known = read_rows(facts)
    if report:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(text + "\n" + "\n".join(map(json.dumps, known)) + "\n")
    print("\n".join(line for line in text.splitlines() if not line.startswith(('"', "==PROF=="))), flush=True)
    run = datetime.datetime.now().isoformat(timespec="seconds")     # what rows of one run have in common
    return [row | {"run": run} for row in rows_of(known, launches_of(text))]


def line(row: dict) -> str:
    """A row for people."""
    shares = "  ".join(f"{name} {row[name]:.0%}" for name in ("tensor", "memory", "l2", "shared", "issue"))
    waits = ", ".join(f"{stall} {share:.0%}" for stall, share in row["stalls"].items())
    least, _, most = row["sm_active"]
    return (f"{row['name']:<28} {row['side']:<8} {row['kernel'][:28]:<28} {row['share']:4.0%} {row['microseconds']:9.1f} us "
            f"{row['mhz']} MHz  {shares}  L2 hits {row['l2_hits']:.0%}  SMs {least:.0%} to {most:.0%}  {waits}")


def main() -> None:
    parser = command(__doc__)
    some_of(parser, "cases", CASES)
    parser.add_argument("--jobs", type=int, default=8, help="processes that compile before; 0 for none")
    parser.add_argument("--compile", action="store_true", help="compile, and profile nothing")
    parser.add_argument("--seconds", type=float, default=600.0, help="after which no further case is begun")
    parser.add_argument("--report", type=Path, help="a file for all that ncu printed")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parsed(parser)
    names = options.cases or list(CASES)
    if options.here:
        facts = os.environ.get(FACTS)
        return run_all_here(names, Path(facts) if facts else None, options.seconds)
    jobs = min(options.jobs, len(names))
    with ThreadPoolExecutor(max(1, jobs)) as threads:
        parts = [names[at::jobs] for at in range(jobs)]
        for text in threads.map(lambda part: started(part, options.seconds), parts):
            print(text, end="", flush=True)
    for row in [] if options.compile else profiled(names, options.seconds, options.report):
        append(row, options.results / "counters.jsonl")
        print(line(row), flush=True)


if __name__ == "__main__":
    main()
