"""Linear attention's forward at the shapes of published tables, beside flash-linear-attention in the same run.

    python -m benchmarks.linear_attention_published                 all cells
    python -m benchmarks.linear_attention_published gdn-1x65536 kda-1x8192x16 --ms 50 --jobs 14
    python -m benchmarks.linear_attention_published --alone         without fla, which takes minutes to tune itself

Gated DeltaNet: FlashInfer's own table of an H100 (flashinfer pull requests 3866 and 3788): heads of the Qwen3.5 models, fp16, keys
of length 1, gates whose exponentials are uniform between 0 and 1, states given and wanted. Kimi delta attention: the ten shapes by
which cudnn-frontend compares its kernels, FlashKDA's and fla's on an H100 (pull request 1017): bf16, rows of q and k divided by
their norms, gates made of numbers, A_log and dt_bias with a lower bound of -5, betas by sigmoids, all in the call; several
sequences have the same length here, as only their count is published. Each cell is timed as a call, with what its launch takes on
the host where the GPU waits for it, and as a CUDA graph. Before that o and the last states of the last sequence's first heads are
checked against the recurrence in fp64. A line has the times in us; what is published, of the other chip, stands behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log
from typing import Any

from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import graphed

from .driver import command, some_of
from .gpu import compiled_before, keep, parsed, row_of, summary, torch
from .progress import each

COLUMNS, LOWER_BOUND, ALLOWED = 128, -5.0, 2e-2
TAIL = 2048             # rows of a longer sequence that are checked: its gates leave nothing of a state after half of them


@dataclass(frozen=True)
class Cell:
    """A shape: the family, heads of q and k, heads of v, rows of each sequence; what is published, us of an H100, by whom."""

    family: str
    heads: int
    of_values: int
    lengths: tuple[int, ...]
    published: dict[str, float]


def _gdn(heads: int, of_values: int, flashinfer: dict[tuple[int, ...], tuple[float, float]]) -> dict[str, Cell]:
    """Cells of FlashInfer's table: milliseconds of FlashInfer and of fla, by lengths."""
    def named(lengths: tuple[int, ...]) -> str:
        return "+".join(map(str, lengths)) if len(set(lengths)) > 1 else f"{len(lengths)}x{lengths[0]}"
    return {f"gdn-{heads}x{of_values}-{named(lengths)}":
            Cell("gdn", heads, of_values, lengths, {"FlashInfer": ours * 1e3, "fla": fla * 1e3})
            for lengths, (ours, fla) in flashinfer.items()}


CELLS: dict[str, Cell] = {
    **_gdn(2, 8, {(65536, ): (0.399, 1.954), (32768, ): (0.239, 0.997), (16384, ): (0.156, 0.508), (8192, ): (0.114, 0.259),
                  (4096, ): (0.079, 0.144), (2048, ): (0.061, 0.086), (6144, 2048): (0.114, 0.221), (4096, 4096): (0.115, 0.184),
                  (2048, 6144): (0.116, 0.222)}),
    **_gdn(16, 64, {(65536, ): (3.022, 8.633), (32768, ): (1.541, 4.273), (16384, ): (0.747, 2.090), (8192, ): (0.404, 1.045),
                    (4096, ): (0.231, 0.536), (2048, ): (0.143, 0.279), (6144, 2048): (0.281, 1.049),
                    (4096, 4096): (0.192, 1.055), (2048, 6144): (0.282, 1.059), (1024, 7168): (0.325, 1.060),
                    (2048, ) * 4: (0.203, 1.068), (1024, ) * 8: (0.220, 1.089)}),
    **_gdn(16, 16, {(2048, ) * 4: (0.170, 0.294), (1024, ) * 8: (0.062, 0.305), (8192, ) * 8: (0.380, 2.179),
                    (8192, ) * 16: (0.852, 4.356), (8192, ) * 32: (1.711, 8.707)}),
    **_gdn(32, 32, {(65536, ): (1.734, 4.405), (32768, ): (0.879, 2.208), (16384, ): (0.472, 1.089), (8192, ): (0.272, 0.552),
                    (4096, ): (0.172, 0.287), (2048, ): (0.117, 0.152), (6144, 2048): (0.274, 0.561),
                    (4096, 4096): (0.274, 0.559)})}
# rows, heads, sequences: FlashKDA and fla, us
KDA = {(2048, 12, 1): (278.6, 768.4), (2048, 16, 1): (287.4, 772.4), (4096, 8, 1): (462.8, 768.1), (4096, 12, 1): (481.9, 742.5),
       (8192, 12, 4): (344.8, 802.0), (8192, 16, 1): (937.7, 933.3), (1024, 4, 1): (153.0, 758.4),
       (3072, 10, 1): (377.6, 822.7), (8192, 24, 1): (1003.2, 1153.9), (16384, 16, 8): (503.0, 1371.8)}
CELLS |= {f"kda-{heads}-{count}x{rows // count}":
          Cell("kda", heads, heads, (rows // count, ) * count, {"FlashKDA": ours, "fla": fla})
          for (rows, heads, count), (ours, fla) in KDA.items()}


def inputs(cell: Cell) -> dict[str, Any]:
    """The arguments of fla's call."""
    torch.manual_seed(1)
    rows, kind = sum(cell.lengths), torch.float16 if cell.family == "gdn" else torch.bfloat16
    normal = lambda *shape: torch.randn(shape, device="cuda")           # noqa: E731
    q, k = normal(1, rows, cell.heads, COLUMNS), normal(1, rows, cell.heads, COLUMNS)
    given = dict(v=normal(1, rows, cell.of_values, COLUMNS).to(kind), output_final_state=True,
                 initial_state=normal(len(cell.lengths), cell.of_values, COLUMNS, COLUMNS))
    if len(cell.lengths) > 1:
        given["cu_seqlens"] = torch.tensor([0, *accumulate(cell.lengths)], device="cuda", dtype=torch.int64)
    beta = normal(1, rows, cell.of_values)
    if cell.family == "gdn":
        k = torch.nn.functional.normalize(k, dim=-1)
        gates = torch.rand(1, rows, cell.of_values, device="cuda").clamp(min=1e-30).log()
        return given | dict(q=q.to(kind), k=k.to(kind), g=gates, beta=torch.rand_like(beta).sigmoid())
    return given | dict(q=q.to(kind), k=k.to(kind), g=normal(1, rows, cell.of_values, COLUMNS).to(kind), beta=beta.to(kind),
                        use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True, safe_gate=True,
                        lower_bound=LOWER_BOUND, A_log=torch.randn(cell.heads, device="cuda") * 0.5,
                        dt_bias=normal(cell.heads * COLUMNS))


def calls(family: str, alone: bool) -> dict[str, Callable]:
    """fla's call, by ours and unless alone by fla, if it is installed."""
    from mimw.integrations.fla import linear
    found = {"mimw": linear.gated_delta_rule if family == "gdn" else linear.kda}
    if alone:
        return found
    try:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
        from fla.ops.kda import chunk_kda
    except ImportError:
        return found
    return found | {"fla": chunk_gated_delta_rule if family == "gdn" else chunk_kda}


def error_of(cell: Cell, o, final, given: dict[str, Any]) -> float:
    """The largest relative error of o and of the final states of the last sequence, of the first head of q and its heads of v,
    against fp64, token by token; of a long one, of the rows in the second half of its TAIL."""
    from tests.kernels.linear_attention_reference import gates_of_raw, recurrence
    of_values, rows = cell.of_values // cell.heads, min(cell.lengths[-1], TAIL)
    q, k, v, g, beta = (given[name][:, -rows:, :count].cpu() for name, count in (
        ("q", 1), ("k", 1), ("v", of_values), ("g", of_values), ("beta", of_values)))
    if cell.family == "kda":
        g = gates_of_raw(g, given["A_log"][:1].cpu(), given["dt_bias"][:COLUMNS].cpu(), LOWER_BOUND)
        beta = beta.double().sigmoid()
    whole = rows == cell.lengths[-1]
    exact, state = recurrence(q, k, v, g, beta, initial_state=given["initial_state"][-1:, :of_values].cpu() if whole else None,
                              use_qk_l2norm=cell.family == "kda")
    compared = rows if whole else rows // 2
    pairs = (o[:, -compared:, :of_values], exact[:, -compared:]), (final[-1:, :of_values], state)
    return max(((one.double().cpu() - other).norm() / other.norm()).item() for one, other in pairs)


def captured(run: Callable[[], Any]) -> Callable[[], None] | None:
    """A CUDA graph of a call; None of one that cannot be captured, as fla's may wait for numbers of the GPU."""
    try:
        return graphed(run, 1)
    except RuntimeError as error:
        print(f"no graph: {str(error).splitlines()[0]}", flush=True)
        return None


def measure(name: str, at_least_ms: float, alone: bool = False) -> Row:
    """The row of a cell: its time is that of a call; baselines are our graph, and fla's call and graph."""
    cell = CELLS[name]
    given = inputs(cell)
    with torch.no_grad():
        error = error_of(cell, *calls(cell.family, True)["mimw"](**given), given)
        if not error <= ALLOWED:
            raise AssertionError(f"{name}: the relative error is {error:.1e}; at most {ALLOWED:.1e} is allowed")
        runs = {who: lambda call=call: call(**given) for who, call in calls(cell.family, alone).items()}
        runs |= {f"{who}, a graph": graph for who, run in runs.items() if (graph := captured(run)) is not None}
        times = alternate(runs, at_least_ms)
    shape = dict(heads=cell.heads, value_heads=cell.of_values, columns=COLUMNS, sequences=len(cell.lengths), rows=sum(cell.lengths))
    return row_of(f"linear-attention-published-{name}", shape, {"lengths": cell.lengths, "published, H100": cell.published}, times,
                  error, "as the published benchmark")


def line(name: str, row: Row) -> str:
    """A row for people."""
    times = ", ".join(f"{who} {time:.0f}" for who, time in row.baselines.items())
    published = ", ".join(f"{who} {time:.0f}" for who, time in CELLS[name].published.items())
    return f"{name:24} {row.microseconds:7.0f} us ({times}); published, H100: {published}; error {row.error:.1e}"


def mean(times: list[float]) -> float:
    """Their geometric mean."""
    return exp(sum(map(log, times)) / len(times))


def main() -> None:
    parser = command(__doc__, ms=20.0, jobs=True)
    some_of(parser, "cells", CELLS)
    parser.add_argument("--alone", action="store_true", help="without fla, which takes minutes to tune itself")
    options = parsed(parser)
    names, rows = options.cells or list(CELLS), {}
    compiled_before(options.jobs, measure, [(name, 0.0, True) for name in names])
    for name in each(names, str):
        rows[name] = measure(name, options.ms, options.alone)
        keep(rows[name], options.results / "linear-attention-published.jsonl")
        print(line(name, rows[name]), flush=True)
    for family in sorted({CELLS[name].family for name in rows}):
        of = [name for name in rows if CELLS[name].family == family]
        print(f"{family}: geometric means of {len(of)} cells: call {mean([rows[name].microseconds for name in of]):.0f} us, graph "
              f"{mean([rows[name].baselines['mimw, a graph'] for name in of]):.0f}; published, H100: "
              + ", ".join(f"{who} {mean([CELLS[name].published[who] for name in of]):.0f}" for who in CELLS[of[0]].published))
    if ratios := [row.baselines["fla"] / row.microseconds for row in rows.values() if "fla" in row.baselines]:
        print(summary(ratios, "fla"))


if __name__ == "__main__":
    main()
