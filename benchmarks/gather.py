"""Rows gathered by TMA, by cp.async, by `tl.load`, and by torch's index_select, on one GPU: GB/s over widths of rows.

    python -m benchmarks.gather               rows of 32 bytes to 4 KB, kept in global memory, and brought on chip only
    python -m benchmarks.gather 128 1024      some widths, in bytes

Random rows of fp16. `copy` gathers 256 MB out of 1 GB into another tensor, as index_select does: the memory's bandwidth both ways
bounds it. `read` gathers 2 GB out of 24 MB, which the L2 cache holds, into shared memory (`tl.load`: into registers, and sums):
what the way itself can bring. GB/s count the gathered bytes once. All candidates of a row are timed in turn with a cold L2
(`mimw.testing.benchmark.alternate`); every copy is compared with index_select's, byte by byte, before it is timed.
"""

from __future__ import annotations

from itertools import product

from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gather_kernels import STAGES, TILE_BYTES, WAYS, launch_of, rows_of_tile
from .gpu import multiprocessors, parsed, row_of, table, torch
from .progress import each

WIDTHS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
SIZES = {"copy": (1 << 30, 256 << 20), "read": (24 << 20, 2 << 30)}      # bytes of the tensor, bytes that are gathered
CTAS = 3        # programs of each SM


def problem(kind: str, width: int):
    """(x, rows, y): the tensor, random row numbers, and room for what is gathered (of one number a tile where nothing is kept)."""
    held, gathered = SIZES[kind]
    torch.manual_seed(0)
    block = rows_of_tile(width)
    count = gathered // width // block * block
    x = torch.randint(-100, 100, (held // width, width // 2), device="cuda", dtype=torch.int16).view(torch.float16)
    rows = torch.randint(0, x.shape[0], (count, ), device="cuda", dtype=torch.int32)
    kept = count if kind == "copy" else count // block
    return x, rows, torch.empty(max(kept, block), width // 2, device="cuda", dtype=torch.float16)


def candidates(kind: str, x, rows, y) -> dict:
    """What to time by name; the results of `copy` have been compared."""
    runs = {}
    for way in WAYS:
        grid, kernel, args, meta = launch_of(way, x, rows, y, CTAS * multiprocessors(), kind == "copy")
        launch = kernel[grid]
        runs[way] = lambda launch=launch, args=args, meta=meta: launch(*args, **meta)
    if kind != "copy":
        return runs
    expected = torch.index_select(x, 0, rows)
    for way, run in runs.items():
        y.fill_(0)
        run()
        torch.cuda.synchronize()
        if not torch.equal(y.view(torch.int16), expected.view(torch.int16)):
            raise AssertionError(f"{way} gathers other bytes than index_select, in rows of {2 * x.shape[1]} bytes")
    return runs | {"index_select": lambda: torch.index_select(x, 0, rows, out=expected)}


def measure(kind: str, width: int, at_least_ms: float = 200.0) -> Row:
    """One row; ours is the gather by TMA."""
    x, rows, y = problem(kind, width)
    times = alternate(candidates(kind, x, rows, y), at_least_ms)
    shape = dict(row_bytes=width, rows=rows.shape[0], of_rows=x.shape[0])
    used = dict(tile_rows=rows_of_tile(width), tile_bytes=TILE_BYTES, stages=STAGES, ctas=CTAS)
    return row_of(f"gather-{kind}", shape, used, times, 0.0, "random rows", ours="TMA")


def line(row: Row) -> str:
    """A row for people, in GB/s."""
    size = row.shape["row_bytes"] * row.shape["rows"]
    rates = {"TMA": row.microseconds, **row.baselines}
    shown = "  ".join(f"{name} {size / time / 1e3:6.0f}" for name, time in rates.items())
    return f"{row.name:<12} rows of {row.shape['row_bytes']:>4} bytes, GB/s:  {shown}"


def main() -> None:
    parser = command(__doc__, ms=200.0)
    some_of(parser, "widths", WIDTHS, int)
    options = parsed(parser)
    rows = (measure(kind, width, options.ms) for kind, width in each(product(SIZES, options.widths or WIDTHS)))
    table(rows, options.results / "gather.jsonl", line, lambda row: "cp.async", "cp.async")


if __name__ == "__main__":
    main()
