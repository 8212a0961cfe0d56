"""The top-k selector against torch.topk and against the published figures of an H800, on one GPU: fp32, whole rows.

    python -m benchmarks.topk_selector                  the published sizes: 1 row and 64 rows
    python -m benchmarks.topk_selector 64x524288:2048   some of them
    python -m benchmarks.topk_selector --tune           every candidate configuration

Inputs are standard normal. Each side is a CUDA graph of 20 calls, replayed in turn with the other one, so that host time does not
count; the time is that of one call, with a warm L2 where the rows fit into it. Every timed result is checked: the values there are
those of torch.topk, and no index comes twice, which is a recall of 1. Published are the best kernel of others, and the better form
of TLE's own (`do_bench` on an H800). They are scaled by the ratio of the memories' bandwidths, 3.35 to 4.8 TB/s, times 0.70,
although one row is bound by latency, and the chips' clocks and multiprocessors are the same: the demand is never too low.
"""

from __future__ import annotations

from mimw.kernels import topk_selector
from mimw.kernels.topk_selector import Configuration
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import graphed

from .driver import command, some_of
from .gpu import keep, parsed, row_of, summary, torch, tried
from .progress import each

CALLS, SCALE = 20, 3.35 / 4.8
# rows, length, k -> microseconds on an H800: the best of TensorRT-LLM, FlashInfer and TileLang; TLE, the better of its two forms
PUBLISHED = {(1, 8192, 256): (10.4, 10.848), (1, 32768, 1024): (18.592, 21.952), (1, 131072, 2048): (44.544, 29.984),
             (1, 262144, 2048): (48.16, 38.448), (1, 524288, 2048): (48.064, 54.832),
             (64, 4096, 128): (9.84, 10.144), (64, 8192, 256): (11.488, 12.304), (64, 32768, 1024): (20.416, 24.0),
             (64, 131072, 2048): (61.152, 63.04), (64, 262144, 2048): (106.656, 112.032), (64, 524288, 2048): (183.168, 198.592)}


def candidates(size: tuple[int, int, int]) -> list[Configuration]:
    """What may be good for a size."""
    m, n, k = size
    room = topk_selector.configuration(m, n, k).candidates
    return [Configuration(ctas, warps, chunks, room) for ctas in (1, 2, 4, 8, 16) for warps in (16, 32) for chunks in (2, 4)
            if ctas == 1 or n // ctas >= 4096 and m * ctas <= 1024]


def check(x, places) -> None:
    """An error unless these are places of the largest of each row."""
    expected = torch.topk(x, places.shape[1]).values
    found = x.gather(1, places.long()).sort(descending=True).values
    if not (found.equal(expected) and (places.sort().values.diff() > 0).all()):
        raise AssertionError(f"wrong places of the {places.shape[1]} largest of {tuple(x.shape)}")


def measure(size: tuple[int, int, int], chosen: Configuration | None = None, at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    m, n, k = size
    torch.manual_seed(0)
    x = torch.randn(m, n, device="cuda")
    starts, ends = (torch.full((m, ), value, device="cuda", dtype=torch.int32) for value in (0, n))
    places, values, sorted_places = (torch.empty(m, k, device="cuda", dtype=dtype) for dtype in (torch.int32, x.dtype, torch.int64))
    grid, args, meta = topk_selector.arguments(x, starts, ends, places, None, chosen)
    launch = topk_selector.kernel[grid]
    ours = graphed(lambda: launch(*args, **meta), CALLS)
    baseline = graphed(lambda: torch.topk(x, k, out=(values, sorted_places)), CALLS)
    places.fill_(-7)
    ours()
    check(x, places)
    times = {name: time / CALLS for name, time in alternate({"mimw": ours, "torch": baseline}, at_least_ms).items()}
    for name, published in zip(("others, H800 scaled", "TLE, H800 scaled"), PUBLISHED[size]):
        times[name] = published * SCALE
    return row_of("topk_selector", dict(M=m, N=n, K=k), vars(chosen or topk_selector.configuration(m, n, k)), times, 0.0,
                  "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    size = "{M}x{N}:{K}".format(**row.shape)
    used = " ".join(f"{name} {value}" for name, value in row.configuration.items())
    ratios = "  ".join(f"{name} {ratio:.2f}" for name, ratio in row.ratios().items())
    rate = 4 * row.shape["M"] * row.shape["N"] / row.microseconds / 1e3
    return f"{size:<16} {row.microseconds:7.2f} us {rate:5.0f} GB/s  ratios: {ratios}  {used}"


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0)
    some_of(parser, "sizes", list(map("{0[0]}x{0[1]}:{0[2]}".format, PUBLISHED)))
    options = parsed(parser)
    lowest = []
    for size in each(size for size in PUBLISHED if not options.sizes or "{}x{}:{}".format(*size) in options.sizes):
        rows = []
        for row in tried(str(size), candidates(size) if options.tune else [None],
                         lambda chosen, size=size: measure(size, chosen, options.ms), options.tune):
            rows.append(row)
            keep(row, options.results / "topk_selector.jsonl")
        for row in sorted(rows, key=lambda row: row.microseconds)[:3]:
            print(line(row), flush=True)
        lowest.append(max((min(list(row.ratios().values())[1:]) for row in rows), default=0.0))
    print(summary(lowest, "the best published figure, scaled", digits=2))


if __name__ == "__main__":
    main()
