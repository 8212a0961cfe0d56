"""docs/SCALING.md: what the constants measured between two GPUs make of 4, 8, 64 and 1024, on paper; and what was measured.

    python docs/support/scaling.py                                        write the tables of the page
    python docs/support/scaling.py --check                                1 if they are stale
    python docs/support/scaling.py --network-gb-per-s 100 --print         the tables for another network, printed

Input: benchmarks/results/distributed_constants.jsonl, and what has not been measured, as parameters: how many GPUs have links to
each other, and a network's bandwidth and latency beyond them; the rows of the benchmarks of several GPUs. Output: tables of times
that are computed, and of those beside what was measured. Needs only Python.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.support.marked import write_or_check
from docs.support.performance_rows import newest_of
from docs.support.scaling_held import HELD, held
from docs.support.scaling_model import (
    DRAM,
    FLOPS,
    Constants,
    all_gather,
    constants,
    crossover,
    dispatch,
    gathered_product,
    one_shot,
    product,
    ring_attention,
    scattered_product,
    two_shot,
)

ROOT = Path(__file__).parents[2]
ROWS, PAGE = ROOT / "benchmarks" / "results" / "distributed_constants.jsonl", ROOT / "docs" / "SCALING.md"
BEGIN, END = "<!-- computed by docs/support/scaling.py -->\n", "<!-- end of what is computed -->\n"
HELD_BEGIN, HELD_END = "<!-- held by docs/support/scaling.py -->\n", "<!-- end of what is held -->\n"
H100_BEGIN, H100_END = "<!-- held on H100s by docs/support/scaling.py -->\n", "<!-- end of what is held on H100s -->\n"
H100_DRAM = 3.0e6       # bytes an us that a copy reaches there
RANKS = (2, 4, 8, 64, 1024)
MIB = 1 << 20


def _efficient(alone: Callable[[int], float], time: Callable[[int], float]) -> Callable[[int], str]:
    return lambda p: f"{_us(time(p))}, {100 * alone(p) / time(p):.0f} %"


def table(c: Constants) -> str:
    """What each does at RANKS; of the overlapped ones also the share of the time in which the tensor cores could not do better."""
    def ring(p: int) -> float:
        return ring_attention(c, p, 4096, 32, 8, 128)

    rows = [
        ("all-gather, 64 MiB in all", lambda p: _us(all_gather(c, p, 64 * MIB))),
        ("all-reduce of 16 KiB, one-shot", lambda p: _us(one_shot(c, p, 1 << 14))),
        ("all-reduce of 16 KiB, two-shot", lambda p: _us(two_shot(c, p, 1 << 14))),
        ("all-reduce of 64 MiB, two-shot", lambda p: _us(two_shot(c, p, 64 * MIB))),
        ("all-gather GEMM: 2048 rows a rank, N = 2048, K = 16384, by the copy engines",
         _efficient(lambda p: product(2048 * p, 2048, 16384), lambda p: gathered_product(c, p, 2048, 2048, 16384, 0))),
        (f"the same by {c.sms} SMs",
         _efficient(lambda p: product(2048 * p, 2048, 16384), lambda p: gathered_product(c, p, 2048, 2048, 16384, c.sms))),
        ("the same with N = 8192, by the copy engines",
         _efficient(lambda p: product(2048 * p, 8192, 16384), lambda p: gathered_product(c, p, 2048, 8192, 16384, 0))),
        ("GEMM reduce-scatter: 2048 rows a rank, N = 8192, K = 8192 a rank, by the copy engines",
         _efficient(lambda p: product(2048 * p, 8192, 8192), lambda p: scattered_product(c, p, 2048, 8192, 8192 * p, 0))),
        ("MoE dispatch, or combine: 4096 tokens a rank of 7168, 8 experts each", lambda p: _us(dispatch(c, p, 4096, 7168, 8))),
        ("MoE dispatch, or combine: 128 tokens a rank of 7168, 8 experts each", lambda p: _us(dispatch(c, p, 128, 7168, 8))),
        ("ring attention: 4096 rows a rank, 32 heads over 8, of 128", _efficient(
            lambda p: p * ring_attention(c, 1, 4096, 32, 8, 128), ring)),
    ]
    lines = ["| " + " | ".join(["", *(f"{p} GPUs" for p in RANKS)]) + " |", "|---|" + "---|" * len(RANKS)]
    return "\n".join(lines + ["| " + " | ".join([name, *map(cell, RANKS)]) + " |" for name, cell in rows])


def text(c: Constants) -> str:
    """What stands between the marks of the page."""
    shots = ", ".join(f"{crossover(c, p) / 1024:,.0f} KiB on {p}" for p in (4, 8))
    return (f"**Computed, not measured**, from: a signal {c.signal:.2f} us, a barrier of ranks {c.barrier:.2f} us, "
            f"{c.link / 1e3:.0f} GB/s a direction, filled by {c.sms} of {c.of} SMs (measured between two GPUs); {c.domain} GPUs "
            f"with such links to each other, beyond them {c.network / 1e3:.0f} GB/s a GPU and {c.far:g} us a message (parameters); "
            f"products at {FLOPS / 1e6:.0f} TFLOP/s, memory at {DRAM / 1e6:.1f} TB/s.\n\n{table(c)}\n\nPercentages: of the time "
            f"of the product, or of attention, alone. All-reduce by one shot is faster than by two up to {shots}.\n")


def _us(time: float) -> str:
    return f"{time / 1e3:,.2f} ms" if time >= 1e3 else f"{time:.1f} us"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="1 if the page is stale")
    parser.add_argument("--print", action="store_true", help="print the tables instead of writing them")
    parser.add_argument("--domain", type=int, default=Constants.domain, help="GPUs that have links to each other")
    parser.add_argument("--network-gb-per-s", type=float, default=Constants.network / 1e3, help="of a GPU, beyond the domain")
    parser.add_argument("--network-us", type=float, default=Constants.far, help="of a message beyond the domain")
    options = parser.parse_args(words)
    found = replace(constants([json.loads(line) for line in ROWS.read_text().splitlines()]), domain=options.domain,
                    network=options.network_gb_per_s * 1e3, far=options.network_us)
    if options.print:
        print(text(found))
        return 0
    return (write_or_check(PAGE, BEGIN, END, text(found), options.check)
            or write_or_check(PAGE, HELD_BEGIN, HELD_END, held(found, rows_of(ROWS.parent)) + "\n", options.check)
            or write_or_check(PAGE, H100_BEGIN, H100_END, on_h100s(found, ROWS.parent / "h100"), options.check))


def rows_of(folder: Path) -> dict[str, list]:
    """File -> the newest row of each shape, of the benchmarks of several GPUs."""
    return {name: newest_of((folder / f"{name}.jsonl").read_text()) for name in {one.file for one in HELD}}


def on_h100s(c: Constants, folder: Path) -> str:
    """The same of H100s, whose links are those of H200s."""
    return held(replace(c, memory=H100_DRAM), rows_of(folder)) + "\n"


if __name__ == "__main__":
    sys.exit(main())
