"""Ranks of candidates: predicted beside measured, without a GPU.

    python -m benchmarks.ranks [GROUP...]           each group's candidates and Kendall's tau; the table of docs/TIMING.md

Input: rows of results/ranks.jsonl, where the candidates of a group were timed in turn (`mimw.testing.benchmark.alternate`, cold L2,
each result checked), and the forward attention of results/attention-variants.jsonl. Output: Markdown. Tau is the share of the
pairs that are in the same order, less that of the pairs that are not; a tie is neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np

import mimw
from mimw.kernels.attention.configs import Configuration as Attention
from mimw.kernels.gemm.configs import Configuration as Gemm
from mimw.tuning.operator import Problem
from mimw.tuning.operators import attention, gemm

from .driver import RESULTS, command, some_of
from .plain_gemm import by_pointers
from .progress import each

CHIP, SMS = "sm_90a", 132
# What the rows of attention-variants.jsonl call the forms that there still are: tiles of 128 x 128, two consumers.
VARIANTS = {"v3": Attention(v_stages=3), "k3": Attention(k_stages=3), "k3pp": Attention(k_stages=3, ping_pong=True),
            "nopp": Attention(), "pp": Attention(ping_pong=True), "noahead": Attention(ping_pong=True, ahead=False)}
_VARIANTS_RUN = "3"         # the run that timed all of them
_LONGEST = 4096


@dataclass(frozen=True)
class Candidate:
    """A launch that was measured: its name, what `mimw.predict` takes, and microseconds."""

    name: str
    launch: tuple[Any, Any, Sequence, Mapping]
    microseconds: float


def groups() -> dict[str, list[Candidate]]:
    """The candidates of each group by its name."""
    found: dict[str, list[Candidate]] = {}
    for row in _rows("ranks.jsonl"):
        made = _plain if row["name"] == "plain-gemm" else _gemm if row["name"].startswith("gemm") else _attention
        shape = "x".join(map(str, row["shape"]))
        found.setdefault(f"{row['name'].split()[0].split('-' + shape)[0]}-{shape}", []).append(made(row))
    for row in _rows("attention-variants.jsonl"):
        if row["run"] == _VARIANTS_RUN and row["shape"]["seq"] <= _LONGEST:
            found[f"attention-{row['shape']['seq']}"] = list(_variants(row))
    return found


def predicted(one: Candidate):
    """The prediction of a candidate's launch."""
    kernel, grid, args, meta = one.launch
    return mimw.predict(kernel, grid, *args, target=CHIP, **meta)


def tau(pairs: Sequence[tuple[float, float]]) -> float:
    """Kendall's tau of (predicted, measured) pairs."""
    def order(a: float, b: float) -> int:
        return (a > b) - (a < b)

    both = [order(one[0], other[0]) * order(one[1], other[1]) for one, other in combinations(pairs, 2)]
    return sum(both) / len(both)


def _rows(file: str) -> Iterator[dict]:
    return map(json.loads, (RESULTS / file).read_text().splitlines())


def _gemm(row: dict) -> Candidate:
    chosen = Gemm(**row["configuration"])
    (launch, ) = gemm.Gemm().launches(Problem("gemm", tuple(row["shape"]), "bf16"), chosen, SMS)
    how = "ping-pong" if chosen.ping_pong else f"{chosen.consumers} together" if chosen.consumers > 1 else "one consumer"
    band = f", bands of {chosen.group_m}" if chosen.group_m != Gemm().group_m else ""
    return Candidate(f"{chosen.bm} x {chosen.bn}, {how}, {chosen.stages} slots{band}", launch, row["microseconds"])


def _plain(row: dict) -> Candidate:
    (m, n, k), chosen = row["shape"], row["configuration"]
    a, b, c = (np.empty(shape, ml_dtypes.bfloat16) for shape in ((m, k), (k, n), (m, n)))
    grid = (-(-m // chosen["BM"]) * -(-n // chosen["BN"]), )
    name = "{BM} x {BN} x {BK}, {num_warps} warps, num_stages={num_stages}".format(**chosen)
    return Candidate(name, (by_pointers, grid, (a, b, c, m, n, k), chosen), row["microseconds"])


def _attention(row: dict) -> Candidate:
    chosen, words = Attention(**row["configuration"]), ("causal", ) if row["name"].endswith("causal") else ()
    (launch, ) = attention.Attention().launches(Problem("attention", tuple(row["shape"]), "bf16", words), chosen, SMS)
    how = f"{chosen.bm} queries x {chosen.bn} keys, {chosen.k_stages} and {chosen.v_stages} slots"
    return Candidate(how + ", in turns" * chosen.ping_pong + ", late casts" * chosen.late, launch, row["microseconds"])


def _variants(row: dict) -> Iterator[Candidate]:
    extents = tuple(row["shape"][name] for name in ("batch", "heads", "seq", "dim"))
    operations = 4 * extents[0] * extents[1] * extents[2] ** 2 * extents[3]
    for name, chosen in VARIANTS.items():
        (launch, ) = attention.Attention().launches(Problem("attention", extents, "bf16"), chosen, SMS)
        yield Candidate(name, launch, operations / row["tflops"][name] / 1e6)


def main() -> None:
    known = groups()
    parser = command(__doc__)
    some_of(parser, "groups", known)
    chosen, taus = parser.parse_args().groups or known, {}
    print("| candidate | measured, us | predicted, us | predicted / measured | bound by, as predicted |\n|---|---|---|---|---|")
    for group in each(chosen):
        pairs = []
        for one in sorted(known[group], key=lambda one: one.microseconds):
            found = predicted(one)
            pairs.append((found.microseconds, one.microseconds))
            print(f"| {group}: {one.name} | {one.microseconds:.1f} | {found.microseconds:.1f} | "
                  f"{found.microseconds / one.microseconds:.2f} | {found.bound.split(',')[0].split(':')[0]} |", flush=True)
        taus[group] = len(pairs), tau(pairs)
    print("\n| group | candidates | Kendall's tau |\n|---|---|---|")
    for group, (count, found) in taus.items():
        print(f"| {group} | {count} | {found:.2f} |")


if __name__ == "__main__":
    main()
