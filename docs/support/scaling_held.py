"""What was measured on several GPUs beside what the formulas of scaling_model.py say: a table of docs/SCALING.md.

    held(constants(rows), newest(Path("benchmarks/results")))       | all-reduce, 2 GPUs: 16 KiB, ... | 1.5, ... us | 2.6, ... us |

Input: the constants, and the newest row of each shape of the benchmarks of several GPUs. Output: a line for each kernel and number
of GPUs; times, or where a kernel hides what travels, its time over that of the same work on one GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docs.support import scaling_model as model
from docs.support.performance_rows import Row
from docs.support.scaling_model import Constants

Rows = dict[str, list[Row]]


@dataclass(frozen=True)
class Held:
    """Rows of a file whose names begin with `begins`: what to call them, what a row's formula gives, what it measured."""

    what: str
    file: str
    begins: str
    label: Callable[[Row], str]
    computed: Callable[[Constants, Row], float]
    measured: Callable[[Row], float]
    unit: str = " us"


def _bytes(row: Row) -> str:
    size = row.shape["bytes"]
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def ranks(row: Row) -> int:
    """How many GPUs took part."""
    return row.shape["ranks"] if "ranks" in row.shape else row.shape["gpus"]


def _product(row: Row) -> tuple[int, int, int, int]:
    return ranks(row), row.shape["M"] // ranks(row), row.shape["N"], row.shape["K"]


def _gathered(c: Constants, row: Row) -> float:
    p, m, n, k = _product(row)
    return model.gathered_product(c, p, m, n, k, 0) / model.product(p * m, n, k)


def _scattered(c: Constants, row: Row) -> float:
    p, m, n, k = _product(row)
    return model.scattered_product(c, p, m, n, k, 0) / model.product(p * m, n, k / p)


def _ring(c: Constants, row: Row) -> float:
    p, one = ranks(row), row.shape
    facts = one["seq"] // p, one["heads"], one["kv_heads"], one["dim"]
    return model.ring_attention(c, p, *facts) / (p * model.ring_attention(c, 1, *facts))


def _all_reduce(c: Constants, row: Row) -> float:
    return min(form(c, ranks(row), row.shape["bytes"]) for form in (model.one_shot, model.two_shot))


def _dispatch(c: Constants, row: Row) -> float:
    return model.dispatch(c, ranks(row), *(row.shape[name] for name in ("tokens", "hidden", "k")))


def _all_gather(c: Constants, row: Row) -> float:
    return model.all_gather(c, ranks(row), row.shape["bytes"])


def _time(row: Row) -> float:
    return row.microseconds


def _over(baseline: str) -> Callable[[Row], float]:
    return lambda row: 1 / row.ratio(baseline)


def _sizes(row: Row) -> str:
    return " x ".join(str(row.shape[name]) for name in ("M", "N", "K"))


def _tokens(row: Row) -> str:
    return f"{row.shape['tokens']} tokens of {row.shape['hidden']}, {row.shape['k']} experts"


COLLECTIVES, PRODUCTS, ATTENTION, TOKENS = "distributed_collectives", "distributed-gemm", "distributed-attention", "distributed_moe"
HELD = [
    Held("all-reduce, bf16", COLLECTIVES, "all_reduce-bf16", _bytes, _all_reduce, _time),
    Held("all-gather, bf16", COLLECTIVES, "all_gather-bf16", _bytes, _all_gather, _time),
    Held("reduce-scatter, bf16", COLLECTIVES, "reduce_scatter-bf16", _bytes, _all_gather, _time),
    Held("all-gather GEMM over the GEMM alone", PRODUCTS, "distributed-gemm-gather", _sizes, _gathered,
         _over("mimw GEMM alone"), ""),
    Held("GEMM reduce-scatter over the GEMM alone", PRODUCTS, "distributed-gemm-scatter", _sizes, _scattered,
         _over("mimw GEMM alone"), ""),
    Held("attention over attention alone", ATTENTION, "distributed-attention-bf16",
         lambda row: f"{row.name.rpartition('-')[2]} {row.shape['seq']}", _ring, _over("mimw alone"), ""),
    Held("MoE dispatch, rows stay", TOKENS, "moe_dispatch_rows-", _tokens, _dispatch, _time),
    Held("MoE dispatch, rows by expert", TOKENS, "moe_dispatch-", _tokens, _dispatch, _time),
    Held("MoE combine", TOKENS, "moe_combine-", _tokens, _dispatch, _time),
]


def held(c: Constants, rows: Rows) -> str:
    """The table: computed beside measured, of every kernel and number of GPUs that there are rows of."""
    lines = ["| | GPUs | computed | measured | measured / computed |", "|---|---|---|---|---|"]
    for one in HELD:
        found = [row for row in rows[one.file] if row.name.startswith(one.begins) and not row.name.endswith("fp8")]
        for p in sorted({ranks(row) for row in found}):
            these = [row for row in found if ranks(row) == p]
            thought, came = [one.computed(c, row) for row in these], [one.measured(row) for row in these]
            over = ", ".join(f"{b / a:.2f}" for a, b in zip(thought, came))
            lines.append(f"| {one.what}: {'; '.join(map(one.label, these))} | {p} | {_said(thought, one.unit)} "
                         f"| {_said(came, one.unit)} | {over} |")
    return "\n".join(lines)


def _said(figures: list[float], unit: str) -> str:
    return ", ".join(f"{one:.2f}" if not unit else f"{one:.1f}" if one < 100 else f"{one:.0f}" for one in figures) + unit
