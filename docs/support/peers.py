"""The README's table against the peers: by how much each operator is faster or slower, by the rows of docs/performance.md.

    python docs/support/peers.py             write the table
    python docs/support/peers.py --check     1 if it is stale

Input: benchmarks/results/*.jsonl, of every shape the newest row (performance_rows.py). Output: a line for an operator and a peer:
the geometric mean and the lowest of the ratios of one run, and how many of the rows are below 1. Needs nothing but Python.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.support.marked import write_or_check
from docs.support.performance_choices import shipped
from docs.support.performance_rows import Row, mean, newest

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- made by docs/support/peers.py -->\n", "<!-- end of what is made -->\n"


@dataclass(frozen=True)
class Peer:
    """`operator` as the table calls it; `files` and `rows` say which rows; `baseline` as they name it, `name` as the table does."""

    operator: str
    files: tuple[str, ...]
    baseline: str
    name: str = ""
    rows: str = ""


GEMM, FA4 = ("gemm-bf16", "gemm-fp16", "gemm-tf32"), "FlashAttention-4"
PEERS = (
    Peer("GEMM, bf16, fp16, tf32", GEMM, "cuBLAS"),
    Peer("", ("gemm_peers", ), "Triton", "Triton 3.9, best of 8 configurations"),
    Peer("", ("gemm_peers", ), "Gluon", "Gluon, the same schedule"),
    Peer("GEMM, fp8", ("gemm-fp8", ), "cuBLAS"),
    Peer("GEMM of few rows", ("skinny_gemm", ), "cuBLAS"),
    Peer("grouped GEMM", ("grouped_gemm", ), "torch"),
    Peer("attention, forward", ("attention-bf16", "attention-fp16"), "cuDNN"),
    Peer("", ("attention-bf16", "attention-fp16"), "FlashAttention", FA4),
    Peer("attention, backward", ("attention-backward-bf16", ), "cuDNN"),
    Peer("", ("attention-backward-bf16", ), "FlashAttention", FA4),
    Peer("attention, packed sequences", ("attention_varlen-bf16", "attention_varlen_backward-bf16"), "torch varlen",
         "torch's varlen"),
    Peer("attention, decoding", ("attention_decode", ), "cuDNN"),
    Peer("", ("attention_decode", ), "Triton", "a split kernel in Triton 3.9"),
    Peer("layer norm, RMS norm", ("norm", ), "torch"),
    Peer("softmax", ("softmax", ), "torch"),
    Peer("cross entropy", ("cross_entropy", ), "torch"),
    Peer("rotary embedding", ("rope", ), "torch.compile", "torch.compile (Triton 3.9)"),
    Peer("top-k", ("topk", ), "torch"),
    Peer("mixture of experts, bf16, fp8", ("moe-bf16", "moe-fp8"), "triton", "kernels in Triton 3.9"),
    Peer("linear attention", ("linear_attention", "linear_attention_step"), "fla", "flash-linear-attention 0.6"),
    Peer("2-simplicial attention", ("simplicial_attention", ), "Triton, second keys outside", "a kernel in Triton 3.9"),
    Peer("all-reduce, 2 GPUs", ("distributed_collectives", ), "NCCL", rows="all_reduce"),
    Peer("all-gather, reduce-scatter, 2 GPUs", ("distributed_collectives", ), "NCCL", rows="all_gather|reduce_scatter"),
    Peer("GEMM with a gather or a sum, 2 GPUs", ("distributed-gemm", ), "NCCL and cuBLAS"),
    Peer("attention and its gradients, 2 GPUs", ("distributed-attention", ), "NCCL, cuDNN", "NCCL and cuDNN"),
    Peer("tokens to experts and back, 2 GPUs", ("distributed_moe", ), "NCCL"),
)
ALIKE = {"NCCL and cuBLAS": ("NCCL, cuBLAS", "cuBLAS, NCCL")}      # one peer, whose parts come in either order


def ratio(row: Row, baseline: str) -> float | None:
    """How many times faster than the peer a row is."""
    return next((found for name in ALIKE.get(baseline, (baseline, )) if (found := row.ratio(name)) is not None), None)


@dataclass(frozen=True)
class Standing:
    """How an operator stands against a peer: ratios of times, above 1 ours is the shorter one; of when the rows are."""

    peer: Peer
    shapes: int
    mean: float
    lowest: float
    below: int
    dates: str

    def cells(self) -> list[str]:
        """The row of the table."""
        return [self.peer.operator, self.peer.name or self.peer.baseline, str(self.shapes), f"**{self.mean:.2f}**",
                f"{self.lowest:.2f}", str(self.below) if self.below else "-", self.dates]


def standing(peer: Peer, files: dict[str, list[Row]]) -> Standing:
    rows = [row for file in peer.files for row in files[file] if re.match(peer.rows, row.name)]
    found = {(row.name, *row.shape.items()): value for row in rows if (value := ratio(row, peer.baseline)) is not None}
    dates = sorted({row.date[5:] for row in rows if ratio(row, peer.baseline) is not None})
    return Standing(peer, len(found), mean(list(found.values())), min(found.values()), sum(value < 1 for value in found.values()),
                    dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}")


@cache
def standings() -> tuple[Standing, ...]:
    """Of all peers, in the table's order."""
    return tuple(standing(peer, _files()) for peer in PEERS)


@cache
def _files() -> dict[str, list[Row]]:
    return newest(ROOT / "benchmarks" / "results", shipped)


@cache
def measured_on() -> str:
    """The chip, the years and the versions of the rows."""
    used = [row for peer in PEERS for file in peer.files for row in _files()[file]]
    (chip, ) = {row.chip for row in used}
    years = sorted({row.date[:4] for row in used})
    versions = max((row.versions for row in used), key=[row.versions for row in used].count)
    return f"{chip}, {' and '.join(years)}, {versions}"


@cache
def days() -> str:
    """The first and the last day on which a row was measured."""
    dates = [row.date for peer in PEERS for file in peer.files for row in _files()[file] if ratio(row, peer.baseline) is not None]
    return f"{min(dates)} to {max(dates)}"


def rows_of(found: Iterable[Standing]) -> str:
    """The lines of a table."""
    head = [["operator", "against", "shapes", "mean", "lowest", "below 1", "measured"], ["---"] * 2 + ["--:"] * 5]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in head + [one.cells() for one in found])


def table() -> str:
    """The table, and of which chip and when."""
    said = f"{measured_on()}: time of the peer over ours, in the same run; above 1 we are faster."
    return f"{said}\n\n{rows_of(standings())}"


def main(arguments: list[str]) -> int:
    return write_or_check(ROOT / "README.md", BEGIN, END, table(), "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
