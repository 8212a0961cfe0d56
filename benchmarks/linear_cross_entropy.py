"""The last linear layer of a language model and its loss against Quack, Liger Kernel, torch.compile and torch, on one GPU.

    python -m benchmarks.linear_cross_entropy                                   loss and gradients, bf16, three shapes
    python -m benchmarks.linear_cross_entropy 8192x4096x128256 --kind forward   the loss alone
    python -m benchmarks.linear_cross_entropy --sides mimw Quack --ms 100       some of the sides
    python -m benchmarks.linear_cross_entropy --products                        the products of a piece, each by itself
    python -m benchmarks.linear_cross_entropy --tiles                           tiles of the forward's product and of the sums'

Shapes are tokens x hidden x classes; logits have a deviation of 3, one target in 17 is ignored. All sides take turns
(`mimw.testing.benchmark.alternate`) with a cold L2. Of each side the loss, and the gradients of some rows and classes, are compared
with fp64 of all logits. Memory is the most that torch had allocated in a call, inputs included, over the bytes of inputs and
gradients, which have to be there: 1.2 means that a fifth more was there. Sides whose package is not installed are left out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from mimw.kernels import gemm, linear_cross_entropy
from mimw.kernels.gemm import Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import keep, multiprocessors, parsed, row_of, summary, torch
from .progress import each

SHAPES = {"8192x4096x128256": (8192, 4096, 128256), "8192x2048x50304": (8192, 2048, 50304),
          "4096x5120x151936": (4096, 5120, 151936)}
KINDS = ("train", "forward")
TILES = (Configuration(bn=128, stages=6, staging=1, ping_pong=True), Configuration(), Configuration(bm=256, bn=128, staging=1),
         Configuration(bn=192, stages=4, staging=1, ping_pong=True))
ALLOWED = {"loss": 1e-3, "dx": 1.5e-2, "dw": 1.5e-2}    # of ||found - fp64|| / ||fp64||


class Problem:
    """Tensors of one shape, and what fp64 makes of some of it."""

    def __init__(self, tokens: int, hidden: int, classes: int):
        torch.manual_seed(0)
        self.x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16).requires_grad_()
        weight = torch.randn(classes, hidden, device="cuda", dtype=torch.bfloat16).mul_(3 * hidden**-0.5)
        self.weight = weight.requires_grad_()
        self.target = torch.randint(0, classes, (tokens, ), device="cuda")
        self.target[::17] = -100
        self.rows = torch.arange(1, tokens, max(1, tokens // 64), device="cuda")[:64]
        self.classes = torch.cat((self.target[1:17], torch.arange(0, classes, classes // 48, device="cuda")[:48]))
        self.expected = self._exact()

    def _exact(self) -> dict:
        """Loss, the gradient of some rows of x, and that of some rows of the weight."""
        with torch.no_grad():
            return self._by_fp64()

    def _by_fp64(self) -> dict:
        x, weight, seen = self.x, self.weight.double(), self.target >= 0
        losses, dw = [], torch.zeros(len(self.classes), x.shape[1], device="cuda", dtype=torch.float64)
        dx = []
        for first in range(0, len(x), 512):
            part, places = x[first:first + 512].double(), self.target[first:first + 512]
            logits, there = part @ weight.T, places >= 0
            losses.append(torch.nn.functional.cross_entropy(logits, places, reduction="none"))
            some = self.rows[(self.rows >= first) & (self.rows < first + 512)] - first
            logits = logits.softmax(1)
            logits[there.nonzero()[:, 0], places[there]] -= 1
            logits *= there[:, None] / seen.sum()
            dw += logits[:, self.classes].T @ part
            dx.append(logits[some] @ weight)
        return {"loss": torch.cat(losses).sum() / seen.sum(), "dx": torch.cat(dx), "dw": dw}

    def errors(self, loss, dx=None, dw=None) -> dict[str, float]:
        """||found - expected|| / ||expected|| of each."""
        found = {"loss": loss.detach(), **({} if dx is None else {"dx": dx[self.rows], "dw": dw[self.classes]})}
        exact = self.expected
        return {name: ((one.double() - exact[name]).norm() / exact[name].norm()).item() for name, one in found.items()}

    def bytes(self, kind: str) -> int:
        """Of inputs, and of gradients where there are some."""
        return (2 if kind == "train" else 1) * 2 * (self.x.numel() + self.weight.numel())


def sides(problem: Problem, wanted: list[str]) -> dict[str, Callable]:
    """Name -> loss of x, weight and targets."""
    from mimw import ops

    def whole(x, weight, target):
        return torch.nn.functional.cross_entropy(torch.nn.functional.linear(x, weight), target)

    found = {"mimw": ops.linear_cross_entropy,
             "mimw, bf16 sums": partial(ops.linear_cross_entropy, accum_dtype=torch.bfloat16), "torch": whole,
             "torch.compile": torch.compile(whole, dynamic=False)}
    if quack := _imported("quack.linear_cross_entropy"):
        # Its kernel of x's gradient takes no piece of as many rows as x has columns, and pieces have 4096 rows by default
        rows = [rows for rows in (4096, 8192, 2048) if rows != problem.x.shape[1]]
        found["Quack"] = partial(quack.chunked_linear_cross_entropy, chunk_size=rows[0])
        found[f"Quack, {rows[-1]} rows"] = partial(quack.chunked_linear_cross_entropy, chunk_size=rows[-1])
        found["Quack, base"] = partial(quack.chunked_linear_cross_entropy, use_scaled_exp=False, tuned=False)
    if liger := _imported("liger_kernel.transformers.functional"):
        found["Liger"] = liger.liger_fused_linear_cross_entropy
    return {name: call for name, call in found.items() if not wanted or name in wanted}


def _imported(name: str):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"{name} is left out: {error}", flush=True)
        return None


def runs(problem: Problem, kind: str, call: Callable) -> tuple:
    """(loss, dx, dw), or (loss, )."""
    if kind == "forward":
        with torch.no_grad():
            return call(problem.x, problem.weight, problem.target),
    loss = call(problem.x, problem.weight, problem.target)
    return loss.detach(), *torch.autograd.grad(loss, (problem.x, problem.weight))


def memory(problem: Problem, kind: str, run: Callable) -> float:
    """The most that a call had allocated, inputs included, over what has to be there."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    inputs = 2 * (problem.x.numel() + problem.weight.numel())
    return (torch.cuda.max_memory_allocated() - before + inputs) / problem.bytes(kind)


def measure(kind: str, name: str, wanted: list[str], ms: float) -> Row:
    """One row: each side checked, its memory, then times."""
    problem, calls, used, errors = Problem(*SHAPES[name]), {}, {}, {}
    for side, call in sides(problem, wanted).items():
        run = partial(runs, problem, kind, call)
        try:
            found = run()
            errors[side] = problem.errors(*found)
            del found
            used[side] = round(memory(problem, kind, run), 3)
        except Exception as error:  # a peer that fails must not end the run
            if side.startswith("mimw"):
                raise
            print(f"{side} is left out: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        print(f"  {side:<18} memory {used[side]:.3f}  errors {errors[side]}", flush=True)
        if side.startswith("mimw") and any(not errors[side][one] < ALLOWED[one] for one in errors[side]):
            raise AssertionError(f"{kind} {name}: {errors[side]}")
        calls[side] = run
    times = alternate(calls, ms)
    shape = dict(zip(("tokens", "hidden", "classes"), SHAPES[name]))
    facts = {"memory": used, "errors": {side: max(found.values()) for side, found in errors.items()}}
    return row_of(f"linear_cross_entropy-{kind}-{name}", shape, facts, times, max(errors["mimw"].values()), "logits of deviation 3")


def products(name: str, ms: float) -> None:
    """Microseconds and TFLOP/s of the products of a piece, by ours and by cuBLAS."""
    from mimw.ops.add_product import ADD_PRODUCT
    from mimw.ops.cross_entropy import IN_PLACE
    from mimw.ops.linear_pieces import rows_of
    from mimw.ops.matmul import MATMUL
    tokens, hidden, classes = SHAPES[name]
    for rows in sorted({rows_of(tokens, hidden, classes, sums, torch.bfloat16) for sums in (torch.float32, torch.bfloat16)}):
        x, weight = (torch.randn(count, hidden, device="cuda", dtype=torch.bfloat16) for count in (rows, classes))
        logits = torch.randn(rows, classes, device="cuda", dtype=torch.bfloat16)
        wide, narrow = (torch.zeros(classes, hidden, device="cuda", dtype=dtype) for dtype in (torch.float32, torch.bfloat16))
        target = torch.randint(0, classes, (rows, ), device="cuda")
        calls = {"logits": (lambda: MATMUL(x, weight.T, None), lambda: x @ weight.T),
                 "dx": (lambda: MATMUL(logits, weight, None), lambda: logits @ weight),
                 "dw": (lambda: MATMUL(logits.T, x, torch.float32), lambda: logits.T @ x),
                 "dw += fp32": (lambda: ADD_PRODUCT(wide, logits.T, x), lambda: logits.T @ x),
                 "dw += bf16": (lambda: ADD_PRODUCT(narrow, logits.T, x), lambda: narrow.addmm_(logits.T, x)),
                 "loss": (lambda: IN_PLACE(logits, target, None, -100, 0.0, 0.0), lambda: logits.mul_(1.0))}
        for what, (ours, theirs) in calls.items():
            times = alternate({"mimw": ours, "torch": theirs}, ms)
            rates = [2e-6 * rows * hidden * classes / time for time in times.values()]
            print(f"{name} {rows:>5} rows  {what:<11} {times['mimw']:9.1f} us  torch {times['torch']:9.1f}  "
                  f"{rates[0]:6.1f} and {rates[1]:6.1f} TFLOP/s", flush=True)


def tiles(name: str, ms: float) -> None:
    """Microseconds of the forward's product, and of the weight's that is added to sums, by tiles of several forms."""
    tokens, hidden, classes = SHAPES[name]
    x, weight = (torch.randn(count, hidden, device="cuda", dtype=torch.bfloat16) for count in (tokens, classes))
    weight *= hidden**-0.5
    target, programs = torch.randint(0, classes, (tokens, ), device="cuda"), multiprocessors()
    lse, own = torch.zeros(2, tokens, device="cuda")
    room = torch.empty(tokens * -(-classes // 64), device="cuda")
    rows = min(tokens, hidden)
    logits, sums = (torch.randn(rows, classes, device="cuda", dtype=torch.bfloat16),
                    torch.zeros(classes, hidden, device="cuda"))
    for chosen in TILES:
        calls = {}
        grid, args, meta = gemm.arguments(x[:rows], weight.T, logits, programs, chosen)
        calls["logits"] = gemm.kernel.freeze(grid, *args, **meta)
        first, second = (kernel.freeze(grid, *args, **meta) for kernel, grid, args, meta in linear_cross_entropy.launches(
            x, weight.T, target, lse, own, room, programs, chosen=chosen))
        calls["forward"] = lambda first=first, second=second: (first(), second())
        calls["combined"] = second
        for dtype in (torch.float32, torch.bfloat16):
            there = sums.to(dtype)
            grid, args, meta = gemm.arguments(logits.T, x[:rows], there, programs, chosen, added=True)
            calls[f"dw += {str(dtype).removeprefix('torch.')}"] = gemm.kernel.freeze(grid, *args, **meta)
        times = alternate(calls, ms)
        print(f"{name} {chosen.bm}x{chosen.bn} stages={chosen.stages} {'in turn' if chosen.ping_pong else 'together'}: "
              + "  ".join(f"{what} {time:.0f} us" for what, time in times.items()), flush=True)


def line(row: Row) -> str:
    """A row for people."""
    work = (3 if "-train-" in row.name else 1) * 2e-6 * row.shape["tokens"] * row.shape["hidden"] * row.shape["classes"]
    others = "  ".join(f"{name} {row.baselines[name]:.0f} ({ratio:.3f})" for name, ratio in row.ratios().items())
    return f"{row.name:<44} {row.microseconds:9.1f} us {work / row.microseconds:5.0f} TFLOP/s  {others}  error {row.error:.1e}"


def main() -> None:
    parser = command(__doc__, ms=400.0)
    some_of(parser, "shapes", SHAPES)
    parser.add_argument("--kind", choices=KINDS, nargs="*", default=["train"])
    parser.add_argument("--sides", nargs="*", default=[], help="by default all that are installed")
    parser.add_argument("--tiles", action="store_true", help="time products by several tiles, and nothing else")
    parser.add_argument("--products", action="store_true", help="time the products of a piece, and nothing else")
    options = parsed(parser)
    ratios = []
    for name in each(options.shapes or list(SHAPES)):
        if options.products or options.tiles:
            (products if options.products else tiles)(name, options.ms)
            continue
        for kind in options.kind:
            row = measure(kind, name, options.sides, options.ms)
            keep(row, options.results / "linear_cross_entropy.jsonl")
            print(line(row), flush=True)
            ratios.append(min(row.ratios().values(), default=1.0))
    if ratios:
        print(summary(ratios, "the quickest side"))


if __name__ == "__main__":
    main()
