"""How much of a compile is mimw's own Python.

Input: something to run. Output: CPU seconds by whose code ran, and the share of mimw's. An example:

    share(compile_once)     {"mimw": 0.07, "triton": 0.2, "passes": 0.1, "total": 1.9, "share": 0.037}

A timer interrupts the process after every millisecond of CPU time. What has passed since the last time goes to the innermost frame
of the package or of Triton's: standard library calls count for who made them. Triton's own passes (C++), called from mimw's list
of them, are `passes`; `total` has the child processes, such as ptxas, too.
"""

from __future__ import annotations

import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import triton

import mimw

ROOTS = {str(Path(mimw.__file__).parent): "mimw", str(Path(triton.__file__).parent): "triton"}
PASSES = ("passes.py", "_run")      # of src/mimw/triton_port: the call of Triton's pass manager
INTERVAL_S = 0.001


def whose(frame) -> str:
    """Whose code runs: that of the innermost frame in one of `ROOTS`."""
    while frame is not None:
        file = frame.f_code.co_filename
        for root, name in ROOTS.items():
            if file.startswith(root):
                return "passes" if (Path(file).name, frame.f_code.co_name) == PASSES else name
        frame = frame.f_back
    return "other"


def share(action: Callable[[], object]) -> dict[str, float]:
    """CPU seconds of `action` by owner, their total, and mimw's share of that."""
    seconds: Counter = Counter()
    last = 0.0

    def sample(_, frame) -> None:
        nonlocal last
        now = time.process_time()
        seconds[whose(frame)] += now - last
        last = time.process_time()      # what this took belongs to nobody

    before = signal.signal(signal.SIGPROF, sample)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = last = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        action()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert time.process_time() > start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds["children"] = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    total = sum(seconds.values())
    return {**seconds, "total": total, "share": seconds["mimw"] / total}
