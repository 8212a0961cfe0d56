"""fp8 linear layers of few rows with scales of blocks, DeepSeek-V3's shapes, on one GPU: 1 x 128 of x by 128 x 128 of w.

    python -m benchmarks.scaled_linear_few_rows                     M from 8 to 160, all six layers
    python -m benchmarks.scaled_linear_few_rows 64x2112x7168 --ms 50        one of them, M x N x K
    python -m benchmarks.scaled_linear_few_rows --rows 16 128       some M
    python -m benchmarks.scaled_linear_few_rows --tune              every candidate configuration

Each call has the next one of weights that together are not in L2, in a graph of calls that is replayed with a cold L2, in turn with
the others (`mimw.testing.benchmark.alternate`). `tiles` is `mimw.kernels.block_scaled_gemm`, whose tiles are of 128 rows; `torch`
is torch._scaled_mm with the same scales, where it takes them; `vLLM` is its kernel in Triton (`w8a8_triton_block_scaled_mm`) with
its own configurations, where vLLM is installed. Beside them stands what DeepGEMM's README publishes of an H800 (commit 7a70b43),
whose memory has 3.35 TB/s for 4.8 of an H200, and the prediction: all bytes at 4.3 TB/s. Inputs are standard normal; results are
checked against fp64, and against themselves: two calls give the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

from mimw.kernels import block_scaled_gemm, skinny_scaled_gemm
from mimw.kernels.skinny_scaled_gemm.configs import Configuration, configuration, rows_of, stages_for
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import graphed

from .driver import command, some_of
from .gemm_error import allowed
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, summary, torch, tried
from .progress import each

LAYERS = ((2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))
ROWS = (8, 16, 32, 64, 96, 128, 160)
CASES = {f"{m}x{n}x{k}": (m, n, k) for n, k in LAYERS for m in ROWS}
PUBLISHED = dict(zip([(m, *layer) for m in (64, 128) for layer in LAYERS],        # TFLOP/s
                     (206, 289, 219, 336, 287, 295, 352, 535, 358, 645, 533, 510)))
MEMORY = 4.3e6              # bytes a microsecond that an H200 reads at best
OUTSIDE_L2, MOST_WEIGHTS, LEAST_CALLS = 192 << 20, 24, 8


def candidates(m: int, n: int, k: int) -> list[Configuration]:
    """One, two and, for few rows, three consumers; tiles of 64 weights, whole and in parts."""
    tm, chosen = rows_of(m), configuration(m, n, k, multiprocessors())
    return [Configuration(tm, stages_for(tm, consumers), consumers) for consumers in ((1, 2, 3) if tm <= 96 else (1, 2))] + (
        [replace(chosen, parts=parts) for parts in (1, 2, 4, 8) if parts <= chosen.parts])


def predicted(m: int, n: int, k: int) -> float:
    """Microseconds: every byte once, at the memory's speed."""
    return (n * k + m * k + 2 * m * n) / MEMORY


def problem(m: int, n: int, k: int) -> tuple:
    """(x, x_scales along M, [(w, w_scales), ...])."""
    torch.manual_seed(0)
    count, cuda = max(2, min(MOST_WEIGHTS, -(-OUTSIDE_L2 // (n * k)))), dict(device="cuda")
    x_scales = (torch.rand(-(-k // 128), -(-m // 4) * 4, **cuda) + 0.5)[:, :m].T
    weights = [(torch.randn(n, k, **cuda).to(torch.float8_e4m3fn), torch.rand(-(-n // 128), -(-k // 128), **cuda) + 0.5)
               for _ in range(count)]
    return torch.randn(m, k, **cuda).to(torch.float8_e4m3fn), x_scales, weights


def error_of(c, x, x_scales, w, w_scales) -> float:
    """||c - reference|| / ||reference||, in fp64; an error if it is larger than bf16 allows."""
    n, k = w.shape
    spread = w_scales.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    exact = (x.double() * x_scales.repeat_interleave(128, 1)[:, :k]) @ (w.double() * spread).T
    error = ((c.double() - exact).norm() / exact.norm()).item()
    if not error < 1.5 * allowed(1, 2, 128):
        raise AssertionError(f"wrong: error {error:.2e} against fp64, allowed {1.5 * allowed(1, 2, 128):.2e}")
    return error


def frozen(kernel, launches: list[tuple]):
    """A call that makes the next of these launches."""
    turns = cycle([kernel.freeze(grid, *args, **meta) for grid, args, meta in launches])
    return lambda: next(turns)()


def peers(x, x_scales, weights) -> dict:
    """Calls of what else is installed, by name."""
    turns, lying = cycle(weights), x_scales.contiguous()

    def by_torch():
        w, w_scales = next(turns)
        return torch._scaled_mm(x, w.T, x_scales, w_scales.T, out_dtype=torch.bfloat16)

    found = {"torch": by_torch}
    try:
        from vllm.model_executor.layers.quantization.utils.fp8_utils import w8a8_triton_block_scaled_mm
    except ImportError as error:
        print(f"vLLM: {error}", flush=True)
        return found

    def by_vllm():
        w, w_scales = next(turns)
        return w8a8_triton_block_scaled_mm(x, w, lying, w_scales, [128, 128], torch.bfloat16)

    return found | {"vLLM": by_vllm}


def ours_of(m: int, n: int, k: int, chosen: Configuration | None) -> tuple:
    """(the problem, c, flags, a call of ours that makes the next launch), the first of which has been made."""
    x, x_scales, weights = problem(m, n, k)
    c = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    sizes = skinny_scaled_gemm.room_for(m, n, k, multiprocessors(), chosen)
    room, flags = torch.empty(sizes[0], device="cuda"), torch.zeros(sizes[1], device="cuda", dtype=torch.int32)
    launches = [skinny_scaled_gemm.arguments(x, w, c, x_scales, s, room, flags, multiprocessors(), chosen) for w, s in weights]
    grid, args, meta = launches[0]
    skinny_scaled_gemm.kernel[grid](*args, **meta)
    return (x, x_scales, weights), c, flags, frozen(skinny_scaled_gemm.kernel, launches)


def measure(name: str, chosen: Configuration | None = None, at_least_ms: float = 100.0) -> Row:
    """One row, checked."""
    m, n, k = CASES[name]
    (x, x_scales, weights), c, flags, ours = ours_of(m, n, k, chosen)
    results = []
    for _ in range(len(weights) + 1):
        ours()
        results.append(c.clone())
    error = error_of(results[0], x, x_scales, *weights[0])
    if not torch.equal(results[0], results[-1]) or flags.any():
        raise AssertionError("not the same bits twice, or flags are left")
    tiles = frozen(block_scaled_gemm.kernel,
                   [block_scaled_gemm.arguments(x, w, c, x_scales, s, multiprocessors()) for w, s in weights])
    count, graphs = -(-LEAST_CALLS // len(weights)) * len(weights), {}
    for candidate, call in {"mimw": ours, "tiles": tiles, **peers(x, x_scales, weights)}.items():
        try:
            graphs[candidate] = graphed(call, count)
        except (RuntimeError, ValueError) as problem_of_it:
            if candidate == "mimw":
                raise
            print(f"{candidate}: {str(problem_of_it).splitlines()[0][:150]}", flush=True)
    times = {candidate: time / count for candidate, time in alternate(graphs, at_least_ms).items()}
    published = PUBLISHED.get((m, n, k))
    times |= {} if published is None else {"DeepGEMM, H800": 2e-6 * m * n * k / published}
    used = chosen or skinny_scaled_gemm.configuration(m, n, k, multiprocessors())
    return row_of("scaled_linear_few_rows", dict(M=m, N=n, K=k), vars(used), times, error, "standard normal")


def cut(used: dict) -> str:
    """The weights of a tile, and what is cut into parts, of a configuration."""
    parts = used.get("parts", 0)
    return f"64 weights in {parts} parts" if parts else f"{64 * used['consumers']} weights"


def line(row: Row) -> str:
    """A row for people."""
    m, n, k = row.shape["M"], row.shape["N"], row.shape["K"]
    rate, used = 1 / row.microseconds / 1e3, row.configuration
    others = "  ".join(f"{name} {ratio:.2f}" for name, ratio in row.ratios().items())
    return (f"{m:>4} x {n:<5} x {k:<5} {row.microseconds:7.2f} us (predicted {predicted(m, n, k):.2f}) {n * k * rate:5.0f} GB/s "
            f"{2 * m * n * k * rate / 1e3:5.0f} TFLOP/s  ratios: {others}  error {row.error:.1e}  "
            f"{cut(used)} x {used['tm']}, {used['stages']} stages")


def main() -> None:
    parser = command(__doc__, tune=True, ms=100.0, jobs=True)
    some_of(parser, "cases", CASES)
    parser.add_argument("--rows", type=int, nargs="*", default=[], choices=ROWS, help="only cases of so many rows")
    options = parsed(parser)
    names = options.cases or [name for name, (m, _, _) in CASES.items() if not options.rows or m in options.rows]
    choices = {name: candidates(*CASES[name]) if options.tune else [None] for name in names}
    compiled_before(options.jobs, ours_of, [(*CASES[name], chosen) for name in names for chosen in choices[name]])
    ratios: dict[str, list[float]] = {}
    for name in each(names):
        rows = []
        for row in tried(name, choices[name], lambda chosen: measure(name, chosen, options.ms), options.tune):
            rows.append(row)
            keep(row, options.results / "scaled_linear_few_rows.jsonl")
            print(line(row), flush=True)
        best = min(rows, key=lambda row: row.microseconds)
        for peer, ratio in best.ratios().items():
            ratios.setdefault(peer, []).append(ratio)
    for peer, found in ratios.items():
        print(summary(found, peer))


if __name__ == "__main__":
    main()
