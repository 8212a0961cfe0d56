"""Faults on two real GPUs: `python -m tests.faults [names]`, a line each, exit status 1 if one did not end as it should.

Input: names of tests/faults/cases.py, by default all. Output, for example:

    right     9.1 s  killed        A process is killed while kernels of both ranks meet
          rank 0 ended with 124: mimw: PeerLost: rank 0 of group '0' does not go on: ...

Each fault has processes of its own, forked from this one, which has loaded torch and touched no GPU; all of it ends within LIMIT
seconds.
"""

import argparse
import sys
import time
from functools import partial
from importlib import import_module

import torch  # noqa: F401  the processes that are forked have it
import triton  # noqa: F401

from tests.ranks import RankFailed, at_ranks

from .cases import CASES

LIMIT = 100         # seconds of all
EACH = 45


def _program(name: str, rank: int):
    return getattr(import_module("tests.faults.programs"), name)(rank)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("names", nargs="*", choices=[*CASES, []], default=[])
    names = parser.parse_args().names or list(CASES)
    began, bad = time.monotonic(), []
    for name in names:
        case, start, stderr = CASES[name], time.monotonic(), []
        left = LIMIT - (start - began)
        try:
            found = at_ranks(2, partial(_program, name), limit=min(EACH, left), timeout=case.timeout, failing=True, gpus=True,
                             stderr=stderr)
            problem = case.judge(found, stderr)
        except RankFailed as error:
            found, problem = [], f"{error}: {stderr}"
        bad += [name] if problem else []
        print(f"{'WRONG' if problem else 'right'}  {time.monotonic() - start:6.1f} s  {name:<22} {case.what}", flush=True)
        for rank, value in enumerate(found):
            lines = [line for line in stderr[rank].splitlines() if "mimw:" in line or " rank " in f" {line} "]
            print(f"      rank {rank} ended with {value}" + "".join(f"\n          {line}" for line in lines), flush=True)
        if problem:
            print(f"      {problem}", flush=True)
    print(f"{len(names) - len(bad)} of {len(names)} faults ended as they should, in {time.monotonic() - began:.0f} s")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
