"""Faults on two real GPUs, or two ranks of one: `python -m tests.faults [names]`; a line each, exit status 1 for a wrong end.

Input: names of tests/faults/cases.py, by default all. Output, for example:

    right  after   9 s  killed        A process is killed while kernels of both ranks meet
          rank 0 ended with 124: mimw: PeerLost: rank 0 of group '0' does not go on: ...

Processes are forked from this one, which has loaded all but kernels and touched no GPU. Faults that end processes have their own,
all at once; the others follow each other in two processes. All of it ends within GENTLE + ROUGH seconds, times `--slower`: for two
ranks on one GPU, which runs them in turns.
"""

import argparse
import sys
import time
from functools import partial
from importlib import import_module

from triton.runtime.cache import triton_key

from tests.ranks import RankFailed, Ranks

from .cases import CASES

# What the processes that are forked have: no kernel, since making one looks for a GPU.
LOADED = ("torch", "torch.distributed", "triton.backends.nvidia.compiler", "mimw.distributed", "mimw.compiler.pipeline",
          "mimw.runtime.jit", "mimw.tlx")
GENTLE, ROUGH = 60.0, 35.0      # seconds for those of each kind together


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("names", nargs="*", choices=[*CASES, []], default=[])
    parser.add_argument("--slower", type=float, default=1.0, metavar="TIMES", help="give it so many times the seconds")
    options = parser.parse_args()
    names = options.names or list(CASES)
    rough = [name for name in names if CASES[name].ends_processes]
    gentle = [name for name in names if name not in rough]
    began = time.monotonic()
    for name in LOADED:
        import_module(name)
    triton_key(), import_module("mimw.compiler.pipeline").compiler_hash()
    print(f"loaded after {time.monotonic() - began:.0f} s", flush=True)
    running = [(Ranks(2, partial(_programs, [name]), ROUGH * options.slower, gpus=True), [name]) for name in rough]
    bad = sum((_told(*one, began) for one in running), [])
    if gentle:
        bad += _told(Ranks(2, partial(_programs, gentle), GENTLE * options.slower, gpus=True), gentle, began)
    print(f"{len(names) - len(bad)} of {len(names)} faults ended as they should, in {time.monotonic() - began:.0f} s", flush=True)
    return int(bool(bad))


def _programs(names: list[str], rank: int) -> list:
    """What each case returns at a rank."""
    programs = import_module("tests.faults.programs")
    return [getattr(programs, name)(rank) for name in names]


def _told(ranks: Ranks, names: list[str], began: float) -> list[str]:
    """Print how cases of the same processes ended; the names of those that should not have ended so."""
    try:
        found, late = ranks.found(failing=True), ""
    except RankFailed as error:
        found, late = [None, None], str(error)
    bad = []
    for number, name in enumerate(names):
        ends = [one[number] if isinstance(one, list) else one for one in found]
        problem = late or CASES[name].judge(ends, ranks.stderr)
        bad += [name] if problem else []
        after = f"after {time.monotonic() - began:3.0f} s"
        print(f"{'WRONG' if problem else 'right'}  {after}  {name:<22} {CASES[name].what}", flush=True)
        for rank, (end, text) in enumerate(zip(ends, ranks.stderr)):
            lines = text.splitlines() if problem else [line for line in text.splitlines() if "mimw:" in line or "rank" in line]
            print(f"      rank {rank} ended with {end}" + "".join(f"\n          {line}" for line in lines), flush=True)
        if problem:
            print(f"      {problem}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
