"""LayerNorm and RMSNorm against torch, torch.compile and a copy of as many bytes, on one GPU.

    python -m benchmarks.norm                           the table: LN1 to LN7, forward, bf16
    python -m benchmarks.norm LN4 LN5 --kind rms_norm   some of them
    python -m benchmarks.norm --tune --jobs 12          every candidate of every shape, compiled by 12 processes at first

Inputs are standard normal. Few rows are bound by their launches, so there each side is a CUDA graph of ten calls; the time is that
of one call. Ours and the baselines take turns (`mimw.testing.benchmark.alternate`), with a cold L2 before each call or graph. Every
timed result is compared with torch's in fp64. `copy` reads and writes each byte once, as a norm does at best.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from dataclasses import asdict, replace
from pathlib import Path

from mimw.kernels import norm
from mimw.kernels.norm import Configuration
from mimw.kernels.norm.configs import as_row
from mimw.testing.benchmark import Row, alternate

from .driver import RESULTS, command, some_of
from .gpu import keep, parsed, row_of, summary, torch, tried, write_configurations

SHAPES = {"LN1": (4, 16384), "LN2": (4, 32768), "LN3": (4, 65536), "LN4": (1152, 16384), "LN5": (1152, 32768),
          "LN6": (1152, 65536), "LN7": (1152, 131072)}
CALLS = 10
EPS = 1e-5


def graphed(run):
    """CALLS calls as a graph: its replay."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            run()
    return graph.replay


def expected_of(kind: str, x, w, b):
    """The result in fp64, in pieces: of the longest rows a whole one would take 5 GB."""
    n, wide_w, wide_b = x.shape[1], w.double(), b.double()
    for part in x.split(128):
        wide = part.double()
        yield (torch.nn.functional.layer_norm(wide, (n, ), wide_w, wide_b, EPS) if kind == "layer_norm" else
               torch.nn.functional.rms_norm(wide, (n, ), wide_w, EPS))


def error_of(kind: str, y, x, w, b) -> float:
    """||y - expected|| / ||expected||."""
    off = size = 0.0
    for part, expected in zip(y.split(128), expected_of(kind, x, w, b)):
        off += (part.double() - expected).square().sum().item()
        size += expected.square().sum().item()
    return (off / size) ** 0.5


def baselines(kind: str, x, w, b, compiled: bool) -> dict:
    """What we are held against."""
    n, copied = x.shape[1], torch.empty_like(x)
    functional = torch.nn.functional

    def run():
        return functional.layer_norm(x, (n, ), w, b, EPS) if kind == "layer_norm" else functional.rms_norm(x, (n, ), w, EPS)

    found = {"torch": run, "copy": lambda: copied.copy_(x)}
    if compiled:
        found["torch.compile"] = torch.compile(run, dynamic=False)
    return found


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of the CUDA driver API."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute, as long as the cluster's extents are the value."""
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


def resident(kernel, size: int) -> int:
    """How many clusters of `size` CTAs of a compiled kernel, as a launch returns it, the GPU runs at a time."""
    attribute = _Attribute(4, 0, (ctypes.c_uint * 16)(size, 1, 1))  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    config = _LaunchConfig((size, 1, 1), (32 * kernel.metadata.num_warps, 1, 1), kernel.metadata.shared, None,
                           ctypes.addressof(attribute), 1)
    clusters = ctypes.c_int()
    failed = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveClusters(ctypes.byref(clusters), ctypes.c_void_p(kernel.function),
                                                                      ctypes.byref(config))
    if failed:
        raise RuntimeError(f"cuOccupancyMaxActiveClusters gives error {failed}")
    return clusters.value


def launch_of(kind: str, rows: int, n: int, chosen: Configuration | None):
    """(run, room, x, w, b, y): a launch that is compiled, with as many clusters as run at a time."""
    torch.manual_seed(0)
    x, w, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((rows, n), n, n))
    y = torch.empty_like(x)
    bias = b if kind == "layer_norm" else None

    def made(room):
        kernel, grid, args, meta = norm.arguments(x, w, bias, y, eps=EPS, centred=kind == "layer_norm", chosen=chosen, room=room)
        return lambda: kernel[grid](*args, **meta), meta["CLUSTER"], kernel is norm.kernel

    run, ctas, ring = made(None)
    room = resident(run(), ctas) if ring else None
    return made(room)[0], room, x, w, b, y


def measure(kind: str, name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0, compiled: bool = True) -> Row:
    """One row, checked."""
    rows, n = SHAPES[name]
    run, room, x, w, b, y = launch_of(kind, rows, n, chosen)
    y.fill_(float("nan"))
    run()
    error = error_of(kind, y, x, w, b)
    if not error < 4e-3:
        raise AssertionError(f"{kind} {name}: error {error:.2e}")
    sides = {"mimw": run, **baselines(kind, x, w, b, compiled)}
    if rows <= 16:
        sides = {side: graphed(call) for side, call in sides.items()}
    times = alternate(sides, at_least_ms)
    if rows <= 16:
        times = {side: time / CALLS for side, time in times.items()}
    used = asdict(chosen or norm.configuration(rows, n, 2, kept_bytes=4 if kind == "layer_norm" else 2))
    used |= {"room": room} if room else {}
    return row_of(f"{kind}-forward-{name}", dict(B=rows, N=n), used, times, error, "standard normal")


def candidates(rows: int, n: int) -> list[Configuration]:
    """What may be good for a shape."""
    found = []
    if rows <= 16:
        for ctas in (4, 8, 16):
            for warps in (4, 8, 16):
                if 4 <= n // (ctas * warps * 32) <= 64:
                    found += [Configuration("direct", ctas, n // ctas, 1, warps, early=early) for early in (False, True)]
        return found
    whole = norm.ring_configuration(rows, n, 2, 1, 4)
    half = norm.ring_configuration(rows, n, 2, 2, 4)    # parts of 16 KB
    half = replace(half, stages=10) if half else None
    return [one for one in (whole, replace(whole, keep=False), replace(whole, stages=4), replace(whole, stages=3),
                            replace(whole, chunk=2 * whole.chunk, chunks=whole.chunks // 2, warps=16, consumers=1),
                            half, half and replace(half, stages=6), half and replace(half, keep=False),
                            half and replace(half, chunk=half.chunk // 2, chunks=2 * half.chunks, warps=4, consumers=4),
                            half and replace(half, chunk=half.chunk // 2, chunks=2 * half.chunks, warps=4, consumers=3),
                            half and replace(half, stages=4), Configuration("direct", whole.ctas, 16384, 1, 16)) if one]


def compile_some(kind: str, work: list) -> None:
    """Launch each (shape, configuration) once: a process of its own fills the cache of compiled kernels."""
    for (rows, n), chosen in work:
        try:
            launch_of(kind, rows, n, chosen)
        except Exception as error:  # the search says it again
            print(f"{chosen}: {type(error).__name__}", flush=True)


def compiled_before(kind: str, names: list[str], jobs: int) -> None:
    """All candidates compiled, by `jobs` processes."""
    work = [((rows, n), chosen) for rows, n in map(SHAPES.get, names) for chosen in candidates(rows, n)]
    begun = [multiprocessing.get_context("spawn").Process(target=compile_some, args=(kind, work[at::jobs])) for at in range(jobs)]
    for one in begun:
        one.start()
    for one in begun:
        one.join()


def line(row: Row) -> str:
    """A row for people."""
    used = " ".join(f"{name}={value}" for name, value in row.configuration.items())
    moved = 4 * row.shape["B"] * row.shape["N"] / row.microseconds / 1e3
    others = "  ".join(f"{name} {row.baselines[name]:.2f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    return f"{row.name:<24} {row.microseconds:8.2f} us {moved:5.0f} GB/s  {others}  error {row.error:.1e}  {used}"


def main() -> None:
    parser = command(__doc__, results=RESULTS / "norm.jsonl", tune=True, ms=200.0)
    some_of(parser, "shapes", SHAPES)
    parser.add_argument("--kind", choices=("layer_norm", "rms_norm"), default="layer_norm")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile the candidates of --tune")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parsed(parser)
    names, ratios, best = options.shapes or list(SHAPES), [], []
    if options.tune and options.jobs > 1:
        compiled_before(options.kind, names, options.jobs)
    for name in names:
        rows = []
        for row in tried(name, candidates(*SHAPES[name]) if options.tune else [None],
                         lambda chosen: measure(options.kind, name, chosen, options.ms, not options.no_compile), options.tune):
            rows.append(row)
            keep(row, options.results)
            print(line(row), flush=True)
        if rows:
            fastest = min(rows, key=lambda row: row.microseconds)
            to = "copy" if SHAPES[name][0] > 16 else "torch"
            ratios.append(fastest.ratios()[to])
            used = {field: value for field, value in fastest.configuration.items() if field != "room"}
            best.append(as_row(*SHAPES[name], 2, 1, Configuration(**used)))
    if options.tune and best:
        write_configurations(Path(options.results).with_suffix(".configs.json"), "python -m benchmarks.norm --tune", best)
    print(summary(ratios, "the copy, of few rows to torch"))


if __name__ == "__main__":
    main()
