"""Softmax and its gradient against torch, torch.compile and a copy of as many bytes, on one GPU.

    python -m benchmarks.softmax                        the rows of LN1 to LN7 of the norms, forward, bf16
    python -m benchmarks.softmax LN4 LN6 --backward     gradients, from y as the forward launch leaves it
    python -m benchmarks.softmax --log --no-compile     the logarithm

Inputs are standard normal times 3. Few rows are bound by their launches, so there each side is a CUDA graph of ten calls. `direct`
is ours without the ring of bulk copies, where the library takes the ring. Ours and the baselines take turns with a cold L2
(`mimw.testing.benchmark.alternate`); results are compared with torch's in fp64 on 64 rows.
"""

from __future__ import annotations

from dataclasses import asdict

from mimw.kernels import softmax
from mimw.kernels.norm_backward.configs import direct_configuration as direct_gradient_configuration
from mimw.kernels.softmax.configs import Configuration, direct_configuration
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import CALLS, graphed

from .driver import command, some_of
from .gpu import parsed, row_of, table, torch
from .norm import SHAPES, resident
from .progress import each


class Problem:
    """Tensors of one shape, and launches on them."""

    def __init__(self, rows: int, n: int, backward: bool, log: bool):
        torch.manual_seed(0)
        self.rows, self.n, self.backward, self.log = rows, n, backward, log
        self.x = torch.randn(rows, n, device="cuda", dtype=torch.bfloat16).mul_(3)
        self.function = torch.log_softmax if log else torch.softmax
        self.result = torch.full_like(self.x, float("nan"))
        if backward:
            self.y, self.dy = self.function(self.x, 1), torch.randn_like(self.x)

    def run(self, chosen: Configuration) -> tuple:
        """(a call that launches, how many clusters run at a time or None)."""
        def made(room=None):
            if self.backward:
                return softmax.gradient_arguments(self.y, self.dy, self.result, self.log, chosen, room)
            return softmax.arguments(self.x, self.result, self.log, chosen, room)

        room, (kernel, grid, args, meta) = None, made()
        compiled = kernel[grid](*args, **meta)
        if chosen.form == "ring":
            room = resident(compiled, chosen.ctas)
            kernel, grid, args, meta = made(room)
        return kernel.freeze(grid, *args, **meta), room

    def choices(self) -> dict[str, Configuration]:
        """The library's choice, and the direct form where that is another one."""
        ring = (softmax.gradient_configuration if self.backward else softmax.configuration)(self.rows, self.n, 2)
        direct = (direct_gradient_configuration if self.backward else direct_configuration)(self.rows, self.n)
        return {"mimw": ring} | ({"direct": direct} if ring.form == "ring" else {})

    def baselines(self, compiled: bool) -> dict:
        """What we are held against."""
        source = torch.cat((self.x, self.x[:self.rows // 2])) if self.backward else self.x
        copied = torch.empty_like(source)
        found = {"copy": lambda: copied.copy_(source)}
        gradient = torch.ops.aten._log_softmax_backward_data if self.log else torch.ops.aten._softmax_backward_data

        def by_torch(*given):
            return gradient(given[1], given[0], 1, torch.bfloat16) if self.backward else self.function(given[0], 1)

        given = (self.y, self.dy) if self.backward else (self.x, )
        for name in ("torch", "torch.compile") if compiled else ("torch", ):
            call = by_torch if name == "torch" else torch.compile(by_torch, dynamic=False)
            found[name] = lambda call=call: call(*given)
        return found

    def error(self) -> float:
        """||found - expected|| / ||expected|| of some rows."""
        some = slice(0, 64)
        if self.backward:
            y, dy = self.y[some].double(), self.dy[some].double()
            expected = dy - y.exp() * dy.sum(1, keepdim=True) if self.log else y * (dy - (y * dy).sum(1, keepdim=True))
        else:
            expected = self.function(self.x[some].double(), 1)
        return ((self.result[some].double() - expected).norm() / expected.norm()).item()


def measure(name: str, at_least_ms: float = 200.0, compiled: bool = True, backward: bool = False, log: bool = False) -> Row:
    """One row, checked."""
    problem, sides, room = Problem(*SHAPES[name], backward, log), {}, None
    choices, errors = problem.choices(), []
    for side, chosen in choices.items():
        sides[side], room_of = problem.run(chosen)
        room = room_of or room
        problem.result.fill_(float("nan"))
        sides[side]()
        errors.append(problem.error())
    if not max(errors) < 5e-3:
        raise AssertionError(f"{name}: errors {errors}")
    sides |= problem.baselines(compiled)
    few = problem.rows <= 16
    times = alternate({side: graphed(call) for side, call in sides.items()} if few else sides, at_least_ms)
    if few:
        times = {side: time / CALLS for side, time in times.items()}
    used = asdict(choices["mimw"]) | ({"room": room} if room else {})
    kind = f"{'log_softmax' if log else 'softmax'}-{'backward' if backward else 'forward'}"
    return row_of(f"{kind}-{name}", dict(B=problem.rows, N=problem.n), used, times, max(errors), "3 x standard normal")


def line(row: Row) -> str:
    """A row for people."""
    moved = (6 if "backward" in row.name else 4) * row.shape["B"] * row.shape["N"] / row.microseconds / 1e3
    others = "  ".join(f"{name} {row.baselines[name]:.2f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    used = " ".join(f"{name}={row.configuration[name]}" for name in ("form", "ctas", "chunk", "chunks", "warps", "stages"))
    return f"{row.name:<26} {row.microseconds:8.2f} us {moved:5.0f} GB/s  {others}  error {row.error:.1e}  {used}"


def main() -> None:
    parser = command(__doc__, ms=200.0)
    some_of(parser, "shapes", SHAPES)
    parser.add_argument("--backward", action="store_true", help="the gradients")
    parser.add_argument("--log", action="store_true", help="the logarithm")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parsed(parser)
    rows = (measure(name, options.ms, not options.no_compile, options.backward, options.log)
            for name in each(options.shapes or SHAPES))
    table(rows, options.results / "softmax.jsonl", line, lambda row: "copy" if row.shape["B"] > 16 else "torch",
          "the copy, of few rows to torch")


if __name__ == "__main__":
    main()
