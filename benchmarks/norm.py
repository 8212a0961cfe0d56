"""LayerNorm and RMSNorm against torch, torch.compile and a copy of as many bytes, on one GPU.

    python -m benchmarks.norm                           the table: LN1 to LN7, forward, bf16
    python -m benchmarks.norm LN4 LN5 --kind rms_norm   some of them
    python -m benchmarks.norm --backward                the gradients, from mean and rstd as the forward launch leaves them
    python -m benchmarks.norm --tune --jobs 12          every candidate of every shape, compiled by 12 processes at first

Inputs are standard normal. Few rows are bound by their launches, so there each side is a CUDA graph of ten calls; the time is that
of one call. Ours and the baselines take turns (`mimw.testing.benchmark.alternate`), with a cold L2 before each call or graph. Every
timed result is compared with torch's in fp64. `copy` moves as many bytes as a norm does at best: x read and y written, or x and dy
read and dx written.
"""

from __future__ import annotations

import ctypes
from dataclasses import asdict, replace

from mimw.kernels import norm, norm_backward
from mimw.kernels.norm import Configuration
from mimw.kernels.norm.configs import SHARED, as_row
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import CALLS, graphed

from .driver import command, some_of
from .gpu import compiled_before, keep, parsed, row_of, summary, torch, write_configurations
from .progress import each

SHAPES = {"LN1": (4, 16384), "LN2": (4, 32768), "LN3": (4, 65536), "LN4": (1152, 16384), "LN5": (1152, 32768),
          "LN6": (1152, 65536), "LN7": (1152, 131072)}
EPS = 1e-5


def by_torch(kind: str, x, w, b):
    """The norm by torch, in the types of its arguments."""
    shape = x.shape[1:]
    if kind == "layer_norm":
        return torch.nn.functional.layer_norm(x, shape, w, b, EPS)
    return torch.nn.functional.rms_norm(x, shape, w, EPS)


def expected_of(kind: str, x, w, b, dy=None) -> list:
    """[y], or where there is a dy [dx, dw, db], in fp64: in pieces, as of the longest rows whole ones would take 5 GB each."""
    wide_w, wide_b, found, sums = w.double(), b.double(), [], None
    for at in range(0, len(x), 128):
        part = x[at:at + 128].double()
        if dy is None:
            found.append(by_torch(kind, part, wide_w, wide_b).float())
            continue
        leaves = [leaf.detach().requires_grad_() for leaf in (part, wide_w, wide_b)][:3 if kind == "layer_norm" else 2]
        y = by_torch(kind, leaves[0], leaves[1], leaves[-1])
        dx, *rest = torch.autograd.grad(y, leaves, dy[at:at + 128].double())
        found.append(dx.float())
        sums = rest if sums is None else [one + other for one, other in zip(sums, rest)]
    return [torch.cat(found), *(sums or [])]


def error_of(results: list, expected: list) -> float:
    """The largest ||result - expected|| / ||expected||."""
    return max(((one.float() - other.float()).norm() / other.float().norm()).item() for one, other in zip(results, expected))


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


class Problem:
    """Tensors of one shape, and launches on them."""

    def __init__(self, kind: str, rows: int, n: int, backward: bool):
        torch.manual_seed(0)
        normal = dict(device="cuda", dtype=torch.bfloat16)
        self.kind, self.rows, self.n = kind, rows, n
        self.x, self.w, self.b = torch.randn(rows, n, **normal), torch.randn(n, **normal), torch.randn(n, **normal)
        self.dy = torch.randn(rows, n, **normal) if backward else None
        self.counter = torch.zeros(1, device="cuda", dtype=torch.int32)
        self.bias = self.b if kind == "layer_norm" else None
        self.y, self.dw, self.db = torch.empty_like(self.x), torch.empty_like(self.w), torch.empty_like(self.w)
        if backward:
            wide = self.x.float()
            self.mean = wide.mean(1) if kind == "layer_norm" else None
            centred = wide if self.mean is None else wide - self.mean[:, None]
            self.rstd = centred.square().mean(1).add(EPS).rsqrt()

    def results(self) -> list:
        """What a launch fills."""
        if self.dy is None:
            return [self.y]
        return [self.y, self.dw, self.db][:3 if self.bias is not None else 2]

    def chosen(self) -> Configuration:
        """The library's own choice."""
        if self.dy is None:
            return norm.configuration(self.rows, self.n, 2, kept_bytes=4 if self.bias is not None else 2)
        return norm_backward.chosen_for(self.x, self.dy, self.w, self.y)

    def launches(self, chosen: Configuration, room: int | None) -> list[tuple]:
        """(kernel, grid, args, meta) of each."""
        if self.dy is None:
            return [norm.arguments(self.x, self.w, self.bias, self.y, eps=EPS, centred=self.bias is not None, chosen=chosen,
                                   room=room, counter=self.counter)]
        parts = torch.empty(2, norm_backward.parts_of(self.rows, self.n, chosen, room), self.n, device="cuda")
        return norm_backward.arguments(self.x, self.dy, self.w, self.mean, self.rstd, self.y, self.dw,
                                       None if self.bias is None else self.db, parts, chosen=chosen, room=room)

    def run(self, chosen: Configuration) -> tuple:
        """(a call that launches, how many clusters run at a time or None)."""
        room = None
        if chosen.form == "ring":
            kernel, grid, args, meta = self.launches(chosen, None)[0]
            room = resident(kernel[grid](*args, **meta), chosen.ctas)
        # Frozen: two launches with fifteen arguments each take the host longer than the flush of L2 hides.
        launches = [kernel.freeze(grid, *args, **meta) for kernel, grid, args, meta in self.launches(chosen, room)]

        def call():
            for launch in launches:
                launch()

        return call, room


def gradients_by_torch(kind: str, dy, x, w, b, mean, rstd):
    """[dx, dw, db] or [dx, dw] by torch's own operator, from the same statistics as ours."""
    shape = x.shape[1:]
    if kind == "layer_norm":
        return torch.ops.aten.native_layer_norm_backward(dy, x, shape, mean[:, None], rstd[:, None], w, b, [True] * 3)
    return torch.ops.aten._fused_rms_norm_backward(dy, x, shape, rstd[:, None], w, [True] * 2)


def baselines(problem: Problem, compiled: bool) -> dict:
    """What we are held against."""
    kind, x, w, b, dy = problem.kind, problem.x, problem.w, problem.b, problem.dy
    source = torch.cat((x, x[:len(x) // 2])) if dy is not None else x
    copied = torch.empty_like(source)
    found = {"copy": lambda: copied.copy_(source)}
    for name in ("torch", "torch.compile") if compiled else ("torch", ):
        call, args = (by_torch, (x, w, b)) if dy is None else (gradients_by_torch, (dy, x, w, b, problem.mean, problem.rstd))
        call = call if name == "torch" else torch.compile(call, dynamic=False)
        found[name] = lambda call=call, args=args: call(kind, *args)
    return found


def measure(kind: str, name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0, compiled: bool = True,
            backward: bool = False) -> Row:
    """One row, checked: of the library's own choice, or another one."""
    row, = side_by_side(kind, name, [chosen], at_least_ms, compiled, backward)
    return row


def side_by_side(kind: str, name: str, choices: list[Configuration | None], at_least_ms: float = 200.0, compiled: bool = True,
                 backward: bool = False, go_on: bool = False) -> list[Row]:
    """A row of each choice, checked, all of them and the baselines in turn; one that fails is an error or, to `go_on`, a line."""
    problem, sides, errors, used, expected = Problem(kind, *SHAPES[name], backward), {}, {}, {}, None
    for chosen in choices:
        chosen = chosen or problem.chosen()
        try:
            run, room = problem.run(chosen)
            for one in problem.results():
                one.fill_(float("nan"))
            run()
            expected = expected or expected_of(kind, problem.x, problem.w, problem.b, problem.dy)
            error = error_of(problem.results(), expected)
            if not error < 4e-3:
                raise AssertionError(f"{kind} {name}: error {error:.2e}")
        except Exception as failed:  # one bad candidate must not end the search
            if not go_on:
                raise
            print(f"{name} {chosen}: {type(failed).__name__}: {str(failed)[:200]}", flush=True)
            continue
        side = f"mimw {len(sides)}"
        sides[side], errors[side], used[side] = run, error, asdict(chosen) | ({"room": room} if room else {})
    others = baselines(problem, compiled)
    sides |= others
    if problem.rows <= 16:
        sides = {side: graphed(call) for side, call in sides.items()}
    times = alternate(sides, at_least_ms)
    if problem.rows <= 16:
        times = {side: time / CALLS for side, time in times.items()}
    return [row_of(f"{kind}-{'backward' if backward else 'forward'}-{name}", dict(B=problem.rows, N=problem.n), used[side],
                   {"mimw": times[side]} | {other: times[other] for other in others}, error, "standard normal")
            for side, error in errors.items()]


def candidates(rows: int, n: int, backward: bool = False, centred: bool = True) -> list[Configuration]:
    """What may be good for a shape."""
    if rows <= 16:
        most = 32 if backward else 64   # numbers of a thread
        return [Configuration("direct", ctas, n // ctas, 1, warps, early=early) for ctas in (4, 8, 16) for warps in (4, 8, 16)
                for early in ((False, ) if backward else (False, True)) if 4 <= n // (ctas * warps * 32) <= most]
    if backward:
        def ring(part: int, each: int, warps: int, consumers: int, **how) -> Configuration:
            stages = min(12, (SHARED - 2 * part) // (4 * part * each))
            return Configuration("ring", n // part, 2048, part // 2048, warps, stages, consumers, keep=False, rows=each, apart=True,
                                 **how)

        found = [norm_backward.ring_configuration(rows, n, 2)]
        if n // 4096 <= 16:
            found += [ring(4096, 2, 8, 2, held=True), ring(4096, 2, 8, 2, held=True, ahead=True),
                      ring(4096, 1, 8, 2, held=True, ahead=True)]
        found += [ring(8192, 1, 8, 2), ring(8192, 1, 16, 1, ahead=True)]
        return [*found, ring(16384, 1, 16, 1, ahead=True)] if n > 65536 else found
    whole = norm.ring_configuration(rows, n, 2, 1, 4 if centred else 2)
    parts = replace(norm.ring_configuration(rows, n, 2, 1, 2), stages=4, behind=4)      # of 32 KB, with w and b or without b
    half = norm.ring_configuration(rows, n, 2, 2, 4)    # parts of 16 KB
    return [whole, parts, replace(parts, drawn=True), replace(half, stages=10)]


def line(row: Row) -> str:
    """A row for people."""
    used = " ".join(f"{name}={value}" for name, value in row.configuration.items())
    moved = (6 if "backward" in row.name else 4) * row.shape["B"] * row.shape["N"] / row.microseconds / 1e3
    others = "  ".join(f"{name} {row.baselines[name]:.2f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    return f"{row.name:<25} {row.microseconds:8.2f} us {moved:5.0f} GB/s  {others}  error {row.error:.1e}  {used}"


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0, jobs=True)
    some_of(parser, "shapes", SHAPES)
    parser.add_argument("--kind", choices=("layer_norm", "rms_norm"), default="layer_norm")
    parser.add_argument("--backward", action="store_true", help="the gradients")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parsed(parser)
    names, ratios, best = options.shapes or list(SHAPES), [], []
    choices = {name: candidates(*SHAPES[name], options.backward, options.kind == "layer_norm") if options.tune else [None]
               for name in names}
    compiled_before(options.jobs, measure, [(options.kind, name, chosen, options.ms, False, options.backward)
                                            for name in names for chosen in choices[name]])
    for name in each(names):
        rows = side_by_side(options.kind, name, choices[name], options.ms, not options.no_compile, options.backward, options.tune)
        for row in rows:
            keep(row, options.results / "norm.jsonl")
            print(line(row), flush=True)
        if rows:
            fastest = min(rows, key=lambda row: row.microseconds)
            to = "copy" if SHAPES[name][0] > 16 else "torch"
            ratios.append(fastest.ratios()[to])
            used = {field: value for field, value in fastest.configuration.items() if field != "room"}
            best.append(as_row(*SHAPES[name], 2, 2 if options.backward else 1, Configuration(**used)))
    if options.tune and best:
        command_line = f"python -m benchmarks.norm --tune{' --backward' if options.backward else ''}"
        write_configurations(options.results / "norm.configs.json", command_line, best)
    print(summary(ratios, "the copy, of few rows to torch"))


if __name__ == "__main__":
    main()
