"""Products of real models by the library's operators against torch's, on one GPU: 60 shapes of model_shapes.py.

    python -m benchmarks.models                                     the table
    python -m benchmarks.models --only deepseek-v3 --only fp8       rows whose names have both words
    python -m benchmarks.models --ms 60 --jobs 12                   briefly; kernels compiled by 12 processes before

bf16 is `mimw.ops.matmul` against `torch.matmul`, fp8 (e4m3) `mimw.ops.scaled_mm` against `torch._scaled_mm`, both with a scale for
each row of either operand and sums left in the tensor cores. Inputs are standard normal, scales from 0.5 to 1.5. Both alternate
with a cold L2; each result is checked against fp64 on some of its rows, by what the types and K allow (`mimw.testing.gemm_error`).
"""

from __future__ import annotations

from collections.abc import Callable

from mimw import ops
from mimw.testing.benchmark import Row, alternate

from .driver import command
from .gemm_error import allowed
from .gpu import compiled_before, keep, parsed, row_of, summary, torch
from .model_shapes import SHAPES, Shape
from .progress import each

CHECKED = 64        # rows of a result that are compared with fp64


def problem(shape: Shape) -> tuple[Callable, Callable, Callable]:
    """(our call, torch's, the same of some rows in fp64)."""
    (m, n, k), cuda = shape.extents, dict(device="cuda")
    torch.manual_seed(0)
    a, b = torch.randn(m, k, **cuda), torch.randn(n, k, **cuda)
    if shape.dtype == "bf16":
        a, b = a.bfloat16(), b.bfloat16().T
        return lambda: ops.matmul(a, b), lambda: a @ b, lambda some: a[some].double() @ b.double()
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).T
    rows, columns = torch.rand(m, 1, **cuda) + 0.5, torch.rand(1, n, **cuda) + 0.5
    return (lambda: ops.scaled_mm(a, b, rows, columns, None, torch.bfloat16, True),
            lambda: torch._scaled_mm(a, b, rows, columns, out_dtype=torch.bfloat16, use_fast_accum=True),
            lambda some: a[some].double() @ b.double() * rows[some].double() * columns.double())


def measure(name: str, at_least_ms: float) -> Row:
    """One row, checked."""
    shape = SHAPES[name]
    ours, theirs, exact = problem(shape)
    some = torch.linspace(0, shape.m - 1, min(CHECKED, shape.m), device="cuda").long()
    want = exact(some)
    error = ((ours()[some].double() - want).norm() / want.norm()).item()
    limit = allowed(2 if shape.dtype == "bf16" else 1, 2, shape.layer.k)
    if not error <= limit:
        raise AssertionError(f"{name} is wrong: error {error:.2e}, allowed {limit:.2e}")
    times = alternate({"mimw": ours, "torch": theirs}, at_least_ms)
    return row_of(f"models-{name.replace(' ', '-')}", dict(zip("MNK", shape.extents)), {"source": shape.layer.source}, times, error,
                  "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    m, n, k = row.shape.values()
    rate = 2 * m * n * k / row.microseconds / 1e6
    return (f"{row.name:<44} {m:>5} x {n:>5} x {k:>5} {row.microseconds:8.1f} us {rate:6.0f} TFLOP/s  torch "
            f"{row.baselines['torch']:8.1f} us  ratio {row.ratios()['torch']:.3f}  error {row.error:.1e}")


def summaries(ratios: dict[str, float]) -> list[str]:
    """The last lines of a table: of all rows, and of each type and phase."""
    lines = [summary(list(ratios.values()), "torch")]
    for words in (("bf16", "prefill"), ("fp8", "prefill"), ("bf16", "decode"), ("fp8", "decode")):
        some = [ratio for name, ratio in ratios.items() if all(word in name for word in words)]
        if some and len(some) < len(ratios):
            lines.append(f"    {' '.join(words)}: {summary(some, 'torch')}")
    return lines


def main() -> None:
    parser = command(__doc__, ms=200.0, jobs=True)
    parser.add_argument("--only", action="append", default=[], metavar="WORD",
                        help="rows whose names have this word, and every other one that is given")
    options = parsed(parser)
    names = [name for name in SHAPES if all(word in name for word in options.only)]
    if not names:
        parser.error(f"no row has all of {', '.join(options.only)} in its name; names are like {next(iter(SHAPES))!r}")
    compiled_before(options.jobs, measure, [(name, options.ms) for name in names])
    ratios = {}
    for name in each(names):
        row = measure(name, options.ms)
        keep(row, options.results / f"models-{SHAPES[name].dtype}.jsonl")
        print(line(row), flush=True)
        ratios[name] = row.ratios()["torch"]
    print("\n".join(summaries(ratios)))


if __name__ == "__main__":
    main()
