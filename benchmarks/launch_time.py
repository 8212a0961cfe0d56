"""Host time of a warm launch: kernels of `mimw.jit` against the same kernel of `triton.jit`, with the same arguments.

    python -m benchmarks.launch_time [--rounds 40] [--out benchmarks/results/launch_time.jsonl]

Needs a GPU and torch. Each round times one block of launches of every candidate in turn, without waiting for the device
inside a block; the kernels do next to nothing, so the device keeps up and only the host is measured. Medians of the blocks
and their ratios to stock go to a file of one JSON object a line. The goal is a ratio of at most 1.05.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .driver import RESULTS, command, in_turn, keep_row
from .gpu import parsed, torch

LAUNCHES = 500


def body(x, y, n, stride, scale, BLOCK: tl.constexpr, FLAG: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at * stride, tl.load(x + at, mask=at < n) * scale, mask=at < n)


def body_with_a_word(x, y, n, stride, scale, BLOCK: tl.constexpr, FLAG: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tlx.fence("gpu")
    tl.store(y + at * stride, tl.load(x + at, mask=at < n) * scale, mask=at < n)


CANDIDATES = {
    "triton.jit": triton.jit(body),
    "mimw.jit, plain kernel": mimw.jit(body),
    "mimw.jit, kernel with a word": mimw.jit(body_with_a_word),
}


def block_of_launches(kernel, x, y) -> float:
    """Microseconds a launch on the host."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        kernel[(1, )](x, y, 128, 1, 2.0, BLOCK=128, FLAG=True, num_warps=4)
    seconds = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * seconds / LAUNCHES


def main() -> None:
    options = parsed(command(__doc__, rounds=40, out=RESULTS / "launch_time.jsonl"))
    x, y = torch.randn(128, device="cuda"), torch.zeros(128, device="cuda")
    for kernel in CANDIDATES.values():
        y.zero_()
        block_of_launches(kernel, x, y)
        torch.testing.assert_close(y, 2 * x)
    times = in_turn({name: partial(block_of_launches, kernel, x, y) for name, kernel in CANDIDATES.items()}, options.rounds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    keep_row(dict(name="launch_time", launches=LAUNCHES, rounds=options.rounds,
                  microseconds={n: round(t, 2) for n, t in medians.items()},
                  ratios={n: round(t / medians["triton.jit"], 3) for n, t in medians.items() if n != "triton.jit"},
                  chip=torch.cuda.get_device_name(), torch=torch.__version__), options.out)


if __name__ == "__main__":
    main()
