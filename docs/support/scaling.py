"""docs/SCALING.md: what the constants measured between two GPUs make of 8, 64 and 1024, on paper.

    python docs/support/scaling.py                                        write the tables of the page
    python docs/support/scaling.py --check                                1 if they are stale
    python docs/support/scaling.py --network-gb-per-s 100 --print         the tables for another network, printed

Input: benchmarks/results/distributed_constants.jsonl, and what has not been measured, as parameters: how many GPUs have links to
each other, and a network's bandwidth and latency beyond them. Output: tables of times that are computed, not measured. Needs only
Python.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.support.marked import write_or_check

ROOT = Path(__file__).parents[2]
ROWS, PAGE = ROOT / "benchmarks" / "results" / "distributed_constants.jsonl", ROOT / "docs" / "SCALING.md"
BEGIN, END = "<!-- computed by docs/support/scaling.py -->\n", "<!-- end of what is computed -->\n"
RANKS = (2, 8, 64, 1024)
MIB = 1 << 20
FLOPS, DRAM = 650e6, 4.3e6      # a GPU's bf16 products, and its memory, an us: docs/performance.md, costs/sm_90a.toml


@dataclass(frozen=True)
class Constants:
    """Microseconds and bytes a microsecond.

    signal, barrier   from a release at a peer's word to the end of its wait; from the last rank's arrival at a barrier to its end
    link              bytes a us out of a GPU, and into one, by puts while the other direction is at work; `sms` fill it
    domain            how many GPUs have such links to each other
    network, far      bytes a us of a GPU's way out of the domain, and us of a message there: parameters, not measured
    """

    signal: float
    barrier: float
    link: float
    sms: int
    of: int
    domain: int = 8
    network: float = 50e3
    far: float = 5.0

    def nodes(self, ranks: int) -> int:
        """How many domains the ranks fill."""
        return max(1, ranks // self.domain)

    def within(self, ranks: int) -> int:
        """How many ranks of a domain take part."""
        return min(ranks, self.domain)


def constants(rows: list[dict]) -> Constants:
    """The figures that the rows of benchmarks/distributed_constants.py say, of the newest date."""
    newest = max(row["date"] for row in rows)
    rows = [row for row in rows if row["date"] == newest and row.get("right", True)]

    def one(name: str, **facts) -> dict:
        return next(row for row in rows if row["name"] == name and all(row.get(key) == value for key, value in facts.items()))

    puts = {row["sms"]: row["gb_per_s"] for row in rows if row["name"] == "bandwidth" and row["direction"] == "put"
            and row["both"] and row["way"] == "TMA"}
    most = max(puts)
    fills = min(sms for sms, rate in puts.items() if rate > 0.95 * puts[most])
    return Constants(one("signal")["one_way_us"], one("world_barrier", programs=most)["us"], puts[most] * 1e3, fills, most)


# ---- the formulas: microseconds, p ranks, bytes -----------------------------------------------------------------------

def all_gather(c: Constants, p: int, size: float) -> float:
    """Every rank gets `size` bytes, of which it has 1/p: from its likes of the other domains first, then from its own domain."""
    nodes, near = c.nodes(p), c.within(p)
    inside = size * (near - 1) / near / c.link
    outside = size * (nodes - 1) / p / c.network
    return max(inside, outside) + c.signal + (c.far if nodes > 1 else 0.0)


reduce_scatter = all_gather     # the same bytes the other way round


def one_shot(c: Constants, p: int, size: float) -> float:
    """Every rank puts all it has at every other one, and adds up p parts."""
    nodes, near = c.nodes(p), c.within(p)
    return max(size * (near - 1) / c.link, size * (p - near) / c.network) + p * size / DRAM + c.signal + (
        c.far if nodes > 1 else 0.0)


def two_shot(c: Constants, p: int, size: float) -> float:
    """A reduce-scatter in the domain, a sum of the parts across domains, an all-gather in the domain."""
    nodes, near = c.nodes(p), c.within(p)
    inside = 2 * (c.signal + size * (near - 1) / near / c.link) + size / DRAM
    across = 2 * (c.far + size / near * (nodes - 1) / nodes / c.network) if nodes > 1 else 0.0
    return inside + across


def crossover(c: Constants, p: int) -> float:
    """The bytes up to which one shot is faster than two, in a domain of p."""
    low, high = 1.0, 1e9
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if one_shot(c, p, middle) <= two_shot(c, p, middle) else (low, middle)
    return low


def product(m: float, n: float, k: float, sms: int = 0, of: int = 132) -> float:
    """A product of bf16 by what the copies leave of the SMs."""
    return 2 * m * n * k / FLOPS * of / (of - sms)


def gathered_product(c: Constants, p: int, m: int, n: int, k: int, sms: int) -> float:
    """C[p m, n] = A[p m, k] B[k, n], of whose A every rank has m rows: tiles of what has come are computed while the rest comes."""
    whole = product(p * m, n, k, sms, c.of)
    return max(whole, all_gather(c, p, 2.0 * p * m * k) + whole / p)


def scattered_product(c: Constants, p: int, m: int, n: int, k: int, sms: int) -> float:
    """C[p m, n] = A[p m, k / p] B[k / p, n] summed over ranks, of which every rank keeps m rows."""
    whole = product(p * m, n, k / p, sms, c.of)
    size = 2.0 * p * m * n
    return max(whole, reduce_scatter(c, p, size) + whole / p) + size / DRAM


def dispatch(c: Constants, p: int, tokens: int, hidden: int, chosen: int) -> float:
    """Every token of bf16 goes to `chosen` experts, spread evenly over the ranks; those of the own rank stay."""
    near, size = c.within(p), 2.0 * tokens * hidden * chosen
    far = size * (p - near) / p / c.network + c.far if p > near else 0.0
    return max(size * (near - 1) / p / c.link + c.signal, far)


def ring_attention(c: Constants, p: int, rows: int, heads: int, groups: int, dim: int) -> float:
    """`rows` of a sequence at each rank, full attention: in p steps keys and values go once around."""
    step = 4.0 * rows * rows * heads * dim / FLOPS
    slowest = c.network if c.nodes(p) > 1 else c.link
    passed = 2 * 2.0 * rows * groups * dim / slowest + c.signal + (c.far if c.nodes(p) > 1 else 0.0)
    return p * step if p == 1 else step + (p - 1) * max(step, passed)


# ---- the tables -------------------------------------------------------------------------------------------------------

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
        ("MoE dispatch: 4096 tokens a rank of 7168, 8 experts each", lambda p: _us(dispatch(c, p, 4096, 7168, 8))),
        ("MoE dispatch: 128 tokens a rank of 7168, 8 experts each", lambda p: _us(dispatch(c, p, 128, 7168, 8))),
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
    return write_or_check(PAGE, BEGIN, END, text(found), options.check)


if __name__ == "__main__":
    sys.exit(main())
