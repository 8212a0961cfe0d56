"""The operator of linear attention beside flash-linear-attention, forward and forward + backward, on one GPU.

    python -m benchmarks.linear_attention gdn                       all shapes of Gated DeltaNet
    python -m benchmarks.linear_attention gdn kda --shapes 1x65536x16x128 --ms 50 --jobs 14
    python -m benchmarks.linear_attention gdn --ways forward --alone        without fla, which takes a minute to tune itself
    python -m benchmarks.linear_attention gdn --tune-ms 20                  fla_ahead.py has the minutes of compiling before

Shapes are those of fla's own benchmark (batch, rows, heads, columns of keys and values), and one long sequence; so are inputs:
normal q, k and v, gates and betas by sigmoids, in bf16. Such gates, `random`, forget a state within few chunks, which ours then
does not carry on; with `slow` ones, whose sums over a chunk are -0.5, every chunk counts. A row names its gates. q and k are
divided by their norms by the operator where fla's benchmark has it so, and k for DeltaNet ahead of it. Before anything is timed,
o, the final states and all gradients of a small call are checked against the recurrence in fp64, ours and fla's. A line has the
times in ms, and fla's over ours; fla is left out where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import product

import mimw
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import keep, parsed, row_of, summary, torch
from .progress import each

# gates, the delta rule, whether the operator divides q and k by their norms, fla's module and function
FAMILIES = {"gdn": ("head", True, True, "gated_delta_rule", "chunk_gated_delta_rule"),
            "kda": ("key", True, True, "kda", "chunk_kda"), "gla": ("key", False, False, "gla", "chunk_gla"),
            "simple": ("head", False, False, "simple_gla", "chunk_simple_gla"),
            "delta": ("none", True, False, "delta_rule", "chunk_delta_rule")}
SHAPES = {"1x8192x96x128": (1, 8192, 96, 128), "2x16384x16x128": (2, 16384, 16, 128), "4x2048x16x128": (4, 2048, 16, 128),
          "4x4096x64x128": (4, 4096, 64, 128), "8x2048x32x256": (8, 2048, 32, 256), "8x1024x8x64": (8, 1024, 8, 64),
          "1x65536x16x128": (1, 65536, 16, 128)}
SMALL, ALLOWED = (1, 150, 2, 64), 2e-2       # of the call that is checked, and its largest error
NAMES, WAYS = ("q", "k", "v", "g", "beta"), ("forward", "training")
GATES = {"random": lambda x: torch.nn.functional.logsigmoid(x).clamp(min=-5), "slow": lambda x: x.sigmoid() / -64}


def inputs(family: str, batch: int, rows: int, heads: int, columns: int, drawn: str = "random") -> dict:
    """q, k, v, g, beta, which require grad."""
    gates, delta, normed, *_ = FAMILIES[family]
    torch.manual_seed(1)
    made = {name: torch.randn(batch, rows, heads, columns, device="cuda") for name in "qkv"}
    if delta and not normed:
        made["k"] = torch.nn.functional.normalize(made["k"], dim=-1)
    shape = {"none": None, "head": (batch, rows, heads), "key": (batch, rows, heads, columns)}[gates]
    made["g"] = None if shape is None else GATES[drawn](torch.randn(shape, device="cuda"))
    made["beta"] = torch.rand(batch, rows, heads, device="cuda").sigmoid() if delta else None
    return {name: None if one is None else one.bfloat16().requires_grad_() for name, one in made.items()}


def calls(family: str, alone: bool) -> dict[str, Callable]:
    """Functions of q, k, v, g and beta to (o, final states): ours, and unless alone fla's if it is installed."""
    from mimw import ops
    gates, delta, normed, module, name = FAMILIES[family]
    found = {"mimw": lambda q, k, v, g, beta: ops.linear_attention(q, k, v, g, beta, output_final_state=True, use_qk_l2norm=normed)}
    if alone:
        return found
    try:
        theirs = getattr(__import__(f"fla.ops.{module}", fromlist=[name]), name)
    except ImportError:
        return found
    options = dict(output_final_state=True) | (dict(use_qk_l2norm_in_kernel=True) if normed else {})
    options |= dict(safe_gate=True, lower_bound=-5) if family == "kda" else {}

    def fla(q, k, v, g, beta):
        return theirs(q, k, v, **({} if g is None else {"g": g}), **({} if beta is None else {"beta": beta}), **options)

    return found | {"fla": fla}


def both_ways(family: str, shape: tuple[int, ...], who: str) -> None:
    """A call, and its backward pass from the gradients of both results, of which none is kept."""
    given = inputs(family, *shape)
    o, final = calls(family, who == "mimw")[who](*(given[name] for name in NAMES))
    torch.autograd.grad((o, final), [one for one in given.values() if one is not None],
                        (torch.empty_like(o), torch.empty_like(final)))


def compile_ours(families: list[str], shapes: list[str], jobs: int) -> None:
    """By so many processes, what our calls launch, forward and backward."""
    def rehearse() -> None:
        for family in families:
            for shape in (SMALL, *(SHAPES[name] for name in shapes)):
                both_ways(family, shape, "mimw")
    if jobs:
        mimw.compile_ahead(rehearse, jobs=jobs)


def errors_of(family: str, alone: bool) -> dict[str, float]:
    """The largest relative error of o, the final states and each gradient of a small call, against fp64."""
    from tests.kernels.linear_attention_reference import gradients, recurrence
    given, normed = inputs(family, *SMALL), FAMILIES[family][2]
    exact = {name: None if one is None else one.detach().cpu() for name, one in given.items()}
    o, final = recurrence(**exact, use_qk_l2norm=normed)
    do, dfinal = torch.randn(o.shape).bfloat16(), torch.randn(final.shape)
    wanted = gradients(do, dfinal, **exact, use_qk_l2norm=normed)
    found = {}
    for who, call in calls(family, alone).items():
        ours, last = call(*(given[name] for name in NAMES))
        leaves = {name: given[name] for name in wanted}
        got = dict(zip(leaves, torch.autograd.grad((ours, last), list(leaves.values()), (do.cuda(), dfinal.cuda()))))
        pairs = [(ours, o), (last, final), *((got[name], wanted[name]) for name in wanted)]
        found[who] = max(((one.double().cpu() - other).norm() / other.norm()).item() for one, other in pairs)
    if not found["mimw"] < ALLOWED:
        raise AssertionError(f"{family}: relative error {found['mimw']:.2e} against fp64, {ALLOWED} is allowed")
    return found


def measure(family: str, shape: str, error: float, at_least_ms: float = 50.0, ways: Collection[str] = WAYS,
            alone: bool = False, drawn: str = "random") -> Iterator[Row]:
    """A row each, as it is measured: the forward pass, and with the backward pass, for which fla tunes itself for minutes more."""
    batch, rows, heads, columns = SHAPES[shape]
    given = inputs(family, *SHAPES[shape], drawn)
    plain, leaves = [given[name] for name in NAMES], [one for one in given.values() if one is not None]
    do = torch.randn_like(given["v"])

    def forward(call):
        def run():
            with torch.no_grad():
                call(*plain)
        return run

    def training(call):
        return lambda: torch.autograd.grad(call(*plain)[0], leaves, do)

    for name, way in (("forward", forward), ("training", training)):
        if name not in ways:
            continue
        times = alternate({who: way(call) for who, call in calls(family, alone).items()}, at_least_ms)
        of = dict(batch=batch, rows=rows, heads=heads, columns=columns)
        gates = "none" if given["g"] is None else drawn
        named = f"linear_attention-{family}-{name}{'-slow' if gates == 'slow' else ''}"
        yield row_of(named, of, {"gates": gates}, times, error, f"normal; gates: {gates}")


def tune_within(ms: float) -> None:
    """From now on Triton's autotuners take so long for a configuration, a fifth of it to warm up; by default 125 ms."""
    from triton.runtime.autotuner import Autotuner
    from triton.testing import do_bench

    def bench(tuner: Autotuner, call: Callable, quantiles: tuple[float, ...]) -> list[float]:
        return do_bench(call, warmup=ms / 5, rep=ms * 4 / 5, quantiles=quantiles)

    Autotuner.do_bench = bench


def line(row: Row) -> str:
    """A row for people."""
    shape = "x".join(map(str, row.shape.values()))
    peer = row.baselines.get("fla")
    rest = "" if peer is None else f"  fla {peer / 1e3:8.3f} ms, {peer / row.microseconds:.2f}"
    name = row.name.removeprefix("linear_attention-")
    gates = row.configuration["gates"]
    return f"{name:<16} {shape:<16} gates {gates:<6} {row.microseconds / 1e3:8.3f} ms{rest}  error {row.error:.1e}"


def main() -> None:
    parser = command(__doc__, ms=50.0, jobs=True)
    some_of(parser, "families", FAMILIES)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS, help="the forward pass, or it and the backward pass")
    parser.add_argument("--gates", nargs="*", choices=GATES, default=list(GATES), help="how they are drawn; by default both")
    parser.add_argument("--alone", action="store_true", help="without fla")
    parser.add_argument("--tune-ms", type=float, help="time in which fla's autotuners try a configuration; by default Triton's")
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES), help="some of them; by default all")
    options = parsed(parser)
    if options.tune_ms is not None:
        tune_within(options.tune_ms)
    ratios = []
    compile_ours(options.families or list(FAMILIES), options.shapes, options.jobs)
    for family in each(options.families or FAMILIES):
        errors = errors_of(family, options.alone)
        said = ", ".join(f"{who} {error:.1e}" for who, error in errors.items())
        print(f"{family}: relative errors against fp64: {said}", flush=True)
        gates = options.gates if FAMILIES[family][0] != "none" else options.gates[:1]
        for shape, drawn in product(options.shapes, gates):
            for row in measure(family, shape, errors["mimw"], options.ms, options.ways, options.alone, drawn):
                keep(row, options.results / "linear_attention.jsonl")
                print(line(row), flush=True)
                ratios += [row.baselines["fla"] / row.microseconds] if "fla" in row.baselines else []
    if ratios:
        print(summary(ratios, "fla"))


if __name__ == "__main__":
    main()
