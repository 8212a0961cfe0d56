"""The rows on a real GPU: `python -m tests.gpu_faults [names]`; a line each, exit status 1 for an end that is not as said.

Input: names of tests/gpu_faults/rows.py, or parts of them, by default all. Output, for example:

    right  store at a negative row: fault: an illegal instruction
    right  load at negative rows: defined: rows begin with [0, 0, 0, 0, 1, 65, 129, 193]

A fault takes the CUDA context with it, so each row has a process of its own, forked from this one, which has loaded what is needed
and touched no GPU. One that does not end in time is killed: it hangs.
"""

import argparse
import multiprocessing
import sys
import time
from importlib import import_module

import numpy as np

from .rows import HANGS, ROWS, Row

LOADED = ("torch", "triton.backends.nvidia.compiler", "mimw.compiler.pipeline", "mimw.runtime.jit", "mimw.tlx",
          "mimw.testing.machines")
READY, HUNG = 120.0, 40.0   # seconds for starting CUDA, and then for compiling and the launch, which take two
FAULTS = ("an illegal instruction", "misaligned address", "an illegal memory access", "unspecified launch failure",
          "an invalid program counter", "invalid address space", "an illegal barrier", "device-side assert triggered")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu_faults")
    parser.add_argument("names", nargs="*", help="parts of rows' names")
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    names = [name for name in ROWS if not options.names or any(part in name for part in options.names)]
    for one in LOADED:
        import_module(one)
    began, bad, waiting, running = time.monotonic(), 0, list(names), []
    while waiting or running:
        while waiting and len(running) < options.jobs:
            running.append(Running(waiting.pop(0)))
        time.sleep(0.02)
        for one in [one for one in running if one.outcome() is not None]:
            running.remove(one)
            outcome, row = one.outcome(), ROWS[one.name]
            bad += not row.right(outcome)
            print(f"{'right' if row.right(outcome) else 'WRONG'}  {one.name}: {outcome}"
                  + ("" if row.right(outcome) else f"     (should be: {row.ends})"), flush=True)
    print(f"{len(names) - bad} of {len(names)} rows ended as they should, in {time.monotonic() - began:.0f} s", flush=True)
    return int(bool(bad) or not names)


class Running:
    """One row in its process."""

    def __init__(self, name: str):
        self.name, self.found = name, None
        context = multiprocessing.get_context("fork")
        self.told, there = context.Pipe(duplex=False)
        self.process = context.Process(target=_run, args=(name, there), daemon=True)
        self.process.start()
        there.close()
        self.limit = time.monotonic() + READY

    def outcome(self) -> str | None:
        """How the row ended; None while it runs. The process says "launching", then how it ended."""
        if self.found is not None:
            return self.found
        try:
            while self.told.poll():
                word = self.told.recv()
                if word != "launching":
                    self.found = word
                    return self._over()
                self.limit = time.monotonic() + HUNG
        except EOFError:
            self.process.join(5)
            self.found = f"ended with {self.process.exitcode}, without a word"
            return self._over()
        if time.monotonic() > self.limit:
            self.found = HANGS
            return self._over()
        return None

    def _over(self) -> str:
        self.process.kill()
        self.process.join()
        return self.found


def _run(name: str, there) -> None:
    """In the row's process: compile, tell that the launch begins, launch, tell how it ended."""
    try:
        row = ROWS[name]
        there.send(_launched(row, there))
    except BaseException as error:  # whatever it is, the parent prints it
        there.send(_named(error))


def _launched(row: Row, there) -> str:
    import torch

    from mimw.testing.machines import Gpu

    kernel = getattr(import_module("tests.gpu_faults.kernels"), row.kernel)
    torch.zeros(1, device="cuda")
    there.send("launching")
    arguments = row.arguments()
    Gpu().launch(kernel, row.grid, *arguments, **row.meta)
    return f"defined: {row.says(result_of(arguments))}"


def result_of(arguments: tuple):
    """The last array, of some besides lists of row numbers."""
    arrays = [one.base.array if hasattr(one, "block_shape") else one for one in arguments]
    arrays = [one for one in arrays if hasattr(one, "dtype")]
    return [one for one in arrays if one.dtype != np.int32 or len(arrays) == 1][-1]


def _named(error: BaseException) -> str:
    text = str(error)
    for fault in FAULTS:
        if fault in text.lower():
            return f"fault: {fault}"
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


if __name__ == "__main__":
    sys.exit(main())
