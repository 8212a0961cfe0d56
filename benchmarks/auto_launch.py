"""Host time of a launch of `mimw.auto`, against the same kernel of `triton.jit`.

    python -m benchmarks.auto_launch [--rounds 20] [--results DIR]
    python -m benchmarks.auto_launch --fake         without a GPU: Triton's own launch code on a driver that does nothing

The kernel is a GEMM by pointers, which takes three arrays, nine numbers and four constants; orchestrated, its host makes three
descriptors of them. "same arguments" launches one set of arrays again and again, "other arrays" the next of eight sets each time,
"looked at" a launch of which nothing is known but its decision, as the first two of each size are. "kept plain" is decided for the
plain kernel. Blocks of launches of each, in turn; medians, with --fake of CPU time. Goal: 20 us beyond triton.jit at most where
arguments come again.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import triton

import mimw
from mimw.compiler.orchestrate.plan import Plan
from mimw.tools.orchestrate import Candidate, Orchestration, Search
from mimw.tools.orchestrate.auto import AutoFunction, Decision
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.written import Written, written
from tests.freeze.fake_gpu import Held, standing_in
from tests.orchestrate.cases import gemm_pointers

from .driver import command, in_turn, keep_row

LAUNCHES, SETS = 500, 8
M, N, K = 128, 256, 192


def block(launch: Callable[[], object], wait: Callable[[], object], clock: Callable[[], float]) -> float:
    """Microseconds a launch on the host."""
    wait()
    start = clock()
    for _ in range(LAUNCHES):
        launch()
    seconds = clock() - start
    wait()
    return 1e6 * seconds / LAUNCHES


def orchestrated() -> Written:
    kernel, grid, args, meta, _ = gemm_pointers.case(M, N, K)
    return written(plain_of(kernel, grid, args, meta), Plan(consumers=2, stages=2))


def decided(one: Written | None) -> AutoFunction:
    """The kernel of which all launches are decided alike."""
    kernel = mimw.auto(gemm_pointers.gemm_pointers.fn)
    kernel._decided = lambda *given: Decision(one, "for a benchmark")
    return kernel


def launches(arrays: Callable[[], tuple], one: Written) -> dict[str, Callable[[], object]]:
    """Launches by their names; `arrays` makes three for the kernel."""
    _, grid, args, meta, _ = gemm_pointers.case(M, N, K)
    mine, sets, numbers = arrays(), itertools.cycle([arrays() for _ in range(SETS)]), args[3:]
    found = Orchestration(one.plain, Search(), Candidate(one), None, True, "for a benchmark")
    stock, auto, plain, new = triton.jit(gemm_pointers.gemm_pointers.fn), decided(one), decided(None), decided(one)

    def looked_at() -> None:
        if new.repeated is not None:
            new.repeated.forget()
        new[grid](*mine, *numbers, **meta)

    return {"triton.jit": lambda: stock[grid](*mine, *numbers, **meta),
            "triton.jit, other arrays": lambda: stock[grid](*next(sets), *numbers, **meta),
            "mimw.auto, orchestrated, same arguments": lambda: auto[grid](*mine, *numbers, **meta),
            "mimw.auto, orchestrated, other arrays": lambda: auto[grid](*next(sets), *numbers, **meta),
            "mimw.orchestrate, same arguments": lambda: found[grid](*mine, *numbers, **meta),
            "mimw.auto, kept plain": lambda: plain[grid](*mine, *numbers, **meta),
            "mimw.auto, looked at": looked_at}


@contextmanager
def fake() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, standing_in(patch) as gpu:
        gpu.utils.launch = lambda *given: None
        gpu.utils.get_device_properties = lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132}
        gpu.utils.load_binary = lambda *given: ("module", 2, 0, 0, 1024)
        gpu.utils.fill_tma_descriptor_tiled = lambda *given: "CUtensorMap"
        yield


def _held() -> tuple:
    addresses = _held.__dict__.setdefault("addresses", itertools.count(1 << 32, 1 << 20))
    return tuple(Held(next(addresses), "float16", shape) for shape in ((M, K), (K, N), (M, N)))


def _on_the_gpu() -> tuple:
    torch = sys.modules["torch"]
    return tuple(torch.zeros(shape, dtype=torch.float16, device="cuda") for shape in ((M, K), (K, N), (M, N)))


def main() -> None:
    parser = command(__doc__, rounds=20)
    parser.add_argument("--fake", action="store_true", help="on a driver that does nothing")
    options = parser.parse_args()
    one, about = orchestrated(), dict(chip="a driver that does nothing")
    wait, clock, arrays = lambda: None, time.process_time, _held
    if not options.fake:
        import torch
        wait, clock, arrays = torch.cuda.synchronize, time.perf_counter, _on_the_gpu
        about = dict(chip=torch.cuda.get_device_name(), torch=torch.__version__)
    with fake() if options.fake else nullcontext():
        found: dict[str, Any] = launches(arrays, one)
        for launch in found.values():
            block(launch, wait, clock)
        times = in_turn({name: partial(block, launch, wait, clock) for name, launch in found.items()}, options.rounds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:45} {median:7.2f} us   {median - medians['triton.jit']:+7.2f} beyond triton.jit")
    keep_row(dict(name="auto_launch", launches=LAUNCHES, rounds=options.rounds, numpy=np.__version__,
                  microseconds={name: round(median, 2) for name, median in medians.items()}, **about),
             options.results / "auto_launch.jsonl")


if __name__ == "__main__":
    main()
