"""Cross entropy of large vocabularies against torch, torch.compile, Quack and a copy of as many bytes, on one GPU.

    python -m benchmarks.cross_entropy                          five shapes, bf16: losses and gradients in one launch
    python -m benchmarks.cross_entropy 8192x128256 --kind forward      losses and logarithms of sums alone
    python -m benchmarks.cross_entropy --kind backward          the gradients from the logarithms
    python -m benchmarks.cross_entropy --tune                   every candidate configuration of every shape

Logits are standard normal times 3. Ours writes the gradient beside the logits, since in place a second run would begin with
gradients; `in place` is that run, on what the first one left. torch and torch.compile take autograd. All
take turns (`mimw.testing.benchmark.alternate`) with a cold L2; losses and gradients are compared with fp64 on 64 rows.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product

from mimw.kernels import cross_entropy
from mimw.kernels.cross_entropy import Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import keep, parsed, row_of, summary, torch, tried
from .norm import resident
from .progress import each

SHAPES = {"8192x32000": (8192, 32000), "8192x50257": (8192, 50257), "8192x128256": (8192, 128256), "4096x151936": (4096, 151936),
          "4096x262144": (4096, 262144)}
KINDS = ("fused", "forward", "backward")
MOVED = {"fused": 2, "forward": 1, "backward": 2}     # times that a logit is read or written


class Problem:
    """Tensors of one shape, and launches on them."""

    def __init__(self, rows: int, n: int):
        torch.manual_seed(0)
        self.rows, self.n = rows, n
        self.x = torch.randn(rows, n, device="cuda", dtype=torch.bfloat16).mul_(3)
        self.target = torch.randint(0, n, (rows, ), device="cuda")
        self.target[::17] = -100
        self.losses, self.lses = torch.full((2, rows), float("nan"), device="cuda")
        self.count = (self.target >= 0).sum(0, keepdim=True, dtype=torch.float32)
        self.dx = torch.full_like(self.x, float("nan"))

    def fused(self, x, dx, chosen: Configuration, room: int | None = None):
        """A call, and the clusters that run at a time."""
        kernel, grid, args, meta = cross_entropy.arguments(x, self.target, self.losses, self.lses, dx, self.count, chosen=chosen,
                                                           room=room)
        compiled = kernel[grid](*args, **meta)
        if chosen.form == "ring" and room is None:
            return self.fused(x, dx, chosen, resident(compiled, chosen.ctas))
        return kernel.freeze(grid, *args, **meta), room

    def gradient(self):
        """The gradients from the logarithms, as a call."""
        each = (1 / self.count).expand(self.rows)
        kernel, grid, args, meta = cross_entropy.gradient_arguments(self.x, self.target, self.lses, each, self.dx)
        return kernel.freeze(grid, *args, **meta)

    def error(self, kind: str) -> float:
        """The largest ||found - expected|| / ||expected|| of losses and gradients, of some rows."""
        some = torch.arange(0, self.rows, self.rows // 64, device="cuda")[:64]
        leaf = self.x[some].double().requires_grad_()
        losses = torch.nn.functional.cross_entropy(leaf, self.target[some], reduction="none")
        expected = [losses] if kind == "forward" else [torch.autograd.grad(losses.sum() / self.count[0].double(), leaf)[0]]
        found = [self.losses[some]] if kind == "forward" else [self.dx[some]]
        if kind == "fused":
            expected.append(losses)
            found.append(self.losses[some])
        return max(((one.double() - other).norm() / other.norm()).item() for one, other in zip(found, expected))


def baselines(kind: str, problem: Problem, compiled: bool) -> dict:
    """What we are held against."""
    source = problem.x[:len(problem.x) * MOVED[kind] // 2]
    copied = torch.empty_like(source)
    found = {"copy": lambda: copied.copy_(source)}
    function = torch.nn.functional.cross_entropy
    leaf = problem.x.detach().requires_grad_()
    for name in ("torch", "torch.compile") if compiled else ("torch", ):
        call = function if name == "torch" else torch.compile(function, dynamic=False)
        if kind == "forward":
            found[name] = lambda call=call: call(problem.x, problem.target)
        elif kind == "fused":
            found[name] = lambda call=call: torch.autograd.grad(call(leaf, problem.target), leaf)
        else:
            torch._functorch.config.donated_buffer = False      # a compiled backward may run again
            loss = call(leaf, problem.target)
            found[name] = lambda loss=loss: torch.autograd.grad(loss, leaf, retain_graph=True)
    if kind != "backward" and (quack := _quack()) and problem.n % 8 == 0:
        found["Quack"] = (lambda: quack.cross_entropy_fwd(problem.x, problem.target)) if kind == "forward" else (
            lambda: torch.autograd.grad(quack.cross_entropy(leaf, problem.target).sum(), leaf))
    return found


def _quack():
    """Its module, which has a launch forward and one backward; None where it is not installed."""
    try:
        import quack.cross_entropy as module
    except ImportError:
        return None
    return module


def measure(kind: str, name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0, compiled: bool = True) -> Row:
    """One row, checked."""
    problem, room = Problem(*SHAPES[name]), None
    chosen = chosen or cross_entropy.configuration(problem.rows, problem.n, 2)
    run, room = problem.fused(problem.x, None if kind == "forward" else problem.dx, chosen)
    if kind == "backward":
        run, room, chosen = problem.gradient(), None, None
        problem.dx.fill_(float("nan"))
    run()
    error = problem.error(kind)
    if not error < 5e-3:
        raise AssertionError(f"{kind} {name}: error {error:.2e}")
    sides = {"mimw": run, **baselines(kind, problem, compiled)}
    if kind == "fused":
        sides["in place"] = problem.fused(problem.dx, problem.dx, chosen, room)[0]
    times = alternate(sides, at_least_ms)
    used = {} if chosen is None else asdict(chosen) | ({"room": room} if room else {})
    return row_of(f"cross_entropy-{kind}-{name}", dict(B=problem.rows, N=problem.n), used, times, error, "3 x standard normal")


def candidates(rows: int, n: int) -> list[Configuration]:
    """What may be good for a shape."""
    ring, direct = cross_entropy.configs.ring_configuration, cross_entropy.configs.direct_configuration(rows, n)
    whole, half, one = ring(rows, n, 2), ring(rows, n, 2, 32768), ring(rows, n, 2, warps=16, consumers=1)
    found = [direct, *(one for one in (whole, half, one) if one)]
    if whole:
        found += [replace(whole, chunk=2048, chunks=-(-n // (whole.ctas * 2048))), replace(whole, stages=3)]
    if half:
        found.append(replace(half, stages=4))
    return list(dict.fromkeys(found))


def line(row: Row) -> str:
    """A row for people."""
    used = " ".join(f"{name}={value}" for name, value in row.configuration.items() if name in (
        "form", "ctas", "chunk", "chunks", "warps", "stages", "consumers", "room"))
    moved = MOVED[row.name.split("-")[1]] * 2 * row.shape["B"] * row.shape["N"] / row.microseconds / 1e3
    others = "  ".join(f"{name} {row.baselines[name]:.1f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    return f"{row.name:<34} {row.microseconds:8.1f} us {moved:5.0f} GB/s  {others}  error {row.error:.1e}  {used}"


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0)
    some_of(parser, "shapes", SHAPES)
    parser.add_argument("--kind", choices=KINDS, nargs="*", default=["fused"])
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parsed(parser)
    ratios = []
    for kind, name in each(product(options.kind, options.shapes or SHAPES)):
        rows = []
        for row in tried(name, candidates(*SHAPES[name]) if options.tune else [None],
                         lambda chosen: measure(kind, name, chosen, options.ms, not options.no_compile), options.tune):
            rows.append(row)
            keep(row, options.results / "cross_entropy.jsonl")
            print(line(row), flush=True)
        if rows:
            ratios.append(min(rows, key=lambda row: row.microseconds).ratios()["copy"])
    print(summary(ratios, "the copy"))


if __name__ == "__main__":
    main()
