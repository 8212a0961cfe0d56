"""The product of picked rows, sent where they belong, against gather, cuBLAS and scatter, on one GPU.

    python -m benchmarks.gather_matmul_scatter               4096 rows times 4096 x 4096 in bf16, and other sizes
    python -m benchmarks.gather_matmul_scatter 4096          some sizes
    python -m benchmarks.gather_matmul_scatter --tune        every candidate configuration

The rows that are read are random, those that are written a permutation. The baseline is torch: index_select, matmul, index_copy_,
each into memory that is there already. `product` is its matmul alone. All are timed in turn with a cold L2
(`mimw.testing.benchmark.alternate`); the result is checked against the baseline's, and on some rows against fp64.
"""

from __future__ import annotations

from mimw.kernels import gather_matmul_scatter as fused
from mimw.kernels.gather_matmul_scatter import Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gemm_error import allowed
from .gpu import keep, multiprocessors, parsed, row_of, summary, torch, tried
from .progress import each

SIZES = (1024, 2048, 4096, 8192)
CANDIDATES = [Configuration(load_warps=warps, group_m=group) for warps in (1, 2, 4) for group in (4, 8, 16)] + [
    Configuration(bn=128, stages=6), Configuration(bm=256, bn=128, staging=1), Configuration(staging=1)]


def problem(size: int):
    """(a, b, c, source, target): standard normal, random rows, a permutation of the rows of c."""
    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    source = torch.randint(0, size, (size, ), device="cuda", dtype=torch.int32)
    target = torch.randperm(size, device="cuda").int()
    return a, b, torch.zeros_like(a), source, target


def baseline(a, b, source, target):
    """(its three launches in a row, its product alone, the tensor that it fills)."""
    picked, product, c = torch.empty_like(a), torch.empty_like(a), torch.zeros_like(a)
    places = target.long()

    def whole():
        torch.index_select(a, 0, source, out=picked)
        torch.matmul(picked, b, out=product)
        c.index_copy_(0, places, product)

    return whole, lambda: torch.matmul(picked, b, out=product), c


def check(a, b, c, source, target, expected) -> float:
    """The error of c on 64 of its rows against fp64; an error if it is larger than the types allow."""
    some = torch.randperm(source.shape[0], device="cuda")[:64]
    exact = a[source[some].long()].double() @ b.double()
    error = ((c[target[some].long()].double() - exact).norm() / exact.norm()).item()
    whole = ((c.double() - expected.double()).norm() / expected.double().norm()).item()
    most = allowed(2, 2, a.shape[1])
    if not (error < most and whole < 2 * most):
        raise AssertionError(f"wrong: error {error:.2e} against fp64 on rows, {whole:.2e} against the baseline (allowed {most:.2e} "
                             "and twice that)")
    return error


def measure(size: int, chosen: Configuration | None = None, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    a, b, c, source, target = problem(size)
    grid, args, meta = fused.arguments(a, b, c, source, target, multiprocessors(), chosen)
    launch = fused.kernel.freeze(grid, *args, **meta)
    whole, product, expected = baseline(a, b, source, target)
    launch(), whole()
    torch.cuda.synchronize()
    error = check(a, b, c, source, target, expected)
    times = alternate({"mimw": launch, "gather, cuBLAS, scatter": whole, "product": product}, at_least_ms)
    return row_of("gather_matmul_scatter-bf16", dict(M=size, N=size, K=size), vars(chosen or Configuration()), times, error,
                  "standard normal, random rows")


def line(row: Row) -> str:
    """A row for people."""
    size, used = row.shape["M"], row.configuration
    flops = 2 * size**3
    rates = "  ".join(f"{name} {flops / time / 1e6:4.0f}" for name, time in row.baselines.items())
    tile = f"{used['bm']}x{used['bn']}, {used['stages']} stages, band {used['group_m']}, {used['load_warps']} warps load"
    return (f"{size:>5}^3 {row.microseconds:8.1f} us {flops / row.microseconds / 1e6:4.0f} TFLOP/s  {rates}  "
            f"ratio {row.ratios()['gather, cuBLAS, scatter']:.3f}  error {row.error:.1e}  {tile}")


def main() -> None:
    parser = command(__doc__, tune=True)
    some_of(parser, "sizes", SIZES, int)
    options = parsed(parser)
    ratios = []
    for size in each(options.sizes or SIZES):
        rows = []
        for row in tried(str(size), CANDIDATES if options.tune else [None],
                         lambda chosen: measure(size, chosen, 40.0 if options.tune else 200.0), options.tune):
            rows.append(row)
            keep(row, options.results / "gather_matmul_scatter.jsonl")
            print(line(row), flush=True)
        ratios.append(max(row.ratios()["gather, cuBLAS, scatter"] for row in rows))
    print(summary(ratios, "gather, cuBLAS and scatter"))


if __name__ == "__main__":
    main()
