"""A mixture of experts forward, as one call, against the best of torch and of stock Triton, on one GPU.

    python -m benchmarks.moe                            three models, 1 to 16384 tokens, bf16
    python -m benchmarks.moe qwen-1 mixtral-4096        some of them
    python -m benchmarks.moe qwen-64 --set bm=32 load_warps=0        another configuration than the library's
    python -m benchmarks.moe qwen-64 --fp8              matrices in e4m3 with scales of 128 x 128, against stock Triton alone
    python -m benchmarks.moe qwen-64 --tune             search configurations, by `mimw tune`

Tokens, weights and a router's scores are standard normal; experts are the top k of the scores, and weights their softmax. Each side
is a CUDA graph of one call, replayed in turn with a cold L2 (`mimw.testing.benchmark.alternate`). The best of each kind counts:

    torch    sort, index_select, torch._grouped_mm, silu and mul, torch._grouped_mm, then index_add or a gather and a sum
    triton   a stock Triton mixture (plain_moe.py) with the best of its usual cuts; its four launches of alignment included

The result is checked against fp64 on some tokens, and the baselines' against it on all.
"""

from __future__ import annotations

from dataclasses import replace

from mimw.kernels import moe
from mimw.kernels.moe import Configuration
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import graphed
from mimw.tuning.operators.moe import ALLOWED, by_torch, check

from . import plain_moe
from .driver import command, search, some_of
from .gpu import keep, multiprocessors, parsed, row_of, summary, torch
from .progress import each

# experts, k, hidden, inner
MODELS = {"mixtral": (8, 2, 4096, 14336), "deepseek": (256, 8, 7168, 2048), "qwen": (128, 8, 2048, 768)}
TOKENS = (1, 16, 64, 512, 4096, 16384)
CASES = {f"{model}-{tokens}": (tokens, *MODELS[model]) for model in MODELS for tokens in TOKENS}


def weights_of(model: str):
    """(gate_up, down), such that outputs are about 1."""
    experts, _, hidden, inner = MODELS[model]
    torch.manual_seed(1)
    draw = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16).mul_(shape[-1] ** -0.5)  # noqa: E731
    return draw(experts, 2 * inner, hidden), draw(experts, hidden, inner)


def tokens_of(tokens: int, experts: int, k: int, hidden: int):
    """(x, ids, weights) of the top k of random scores."""
    torch.manual_seed(0)
    scores = torch.randn(tokens, experts, device="cuda")
    best = scores.topk(k)
    return torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16), best.indices.int(), best.values.softmax(1)


def ours(x, gate_up, down, ids, weights, chosen: Configuration | None, scales=()):
    """(a call without arguments that fills `out`, out); with scales only the blocks' rows and `swapped` are chosen."""
    out, sizes = torch.empty_like(x), (*ids.shape, gate_up.shape[0], down.shape[2], x.shape[1])
    if scales:
        types = {None: x.dtype, "fp8": down.dtype, "int32": torch.int32, "float32": torch.float32}
        room = {name: torch.empty(shape, dtype=types[type_], device="cuda")
                for name, (shape, type_) in moe.scaled_room_for(*sizes, chosen and chosen.bm).items()}
        launches = moe.scaled_launches(x, gate_up, down, *scales, ids, weights, out, room, multiprocessors(), chosen and chosen.bm,
                                       chosen and int(chosen.swapped))
    else:
        room = {name: torch.empty(shape, dtype=x.dtype if name in ("inner", "rows") else torch.int32, device="cuda")
                for name, shape in moe.room_for(*sizes, chosen).items()}
        launches = moe.launches(x, gate_up, down, ids, weights, out, room, multiprocessors(), chosen)
    ready = [(kernel[grid], args, meta) for kernel, grid, args, meta in launches]

    def run():
        for launch, args, meta in ready:
            launch(*args, **meta)
        return out

    return run, out


def in_fp8(matrix):
    """(the matrix in e4m3, the scales of its blocks of 128 x 128); one scale for all of them, as large as it may be."""
    scale = torch.full((matrix.shape[0], matrix.shape[1] // 128, matrix.shape[2] // 128), 6 * matrix.shape[2]**-0.5 / 448,
                       device="cuda")
    return torch.stack([one.div(scale[0, 0, 0]).clamp(-448, 448).to(torch.float8_e4m3fn) for one in matrix]), scale


def measure(name: str, chosen: Configuration | None = None, at_least_ms: float = 200.0, matrices=None, fp8: bool = False) -> Row:
    """One row, checked."""
    tokens, experts, k, hidden, inner = CASES[name]
    x, ids, weights = tokens_of(tokens, experts, k, hidden)
    matrices, scales = (whole := matrices or weights_of(name.partition("-")[0])), ()
    if fp8:
        matrices, scales = zip(*map(in_fp8, whole))
    given = x, *matrices, ids, weights
    run, out = ours(*given, chosen, scales)
    run()
    calls = {f"triton {cut}": plain_moe.launcher(*given, cut, scales or (None, None))
             for cut in plain_moe.cuts(tokens * k, experts, fp8)}
    most = 0.08 if fp8 else ALLOWED     # tokens, matrices and inner rows in e4m3 are 2.5 % off each
    error = check(out, x, *whole, ids, weights, most)
    if not fp8:
        calls |= {"torch, index_add": lambda: by_torch(*given, True), "torch, gather": lambda: by_torch(*given, False)}
    for call, baseline in list(calls.items()):
        far = ((baseline() - out).float().norm() / out.float().norm()).item()
        if not far < 2 * most:
            raise AssertionError(f"{call} is {far:.2e} away from ours")
    times = alternate({"mimw": graphed(run, 1), **{call: graphed(one, 1) for call, one in calls.items()}}, at_least_ms)
    best = {kind: min(found) for kind in ("mimw", "torch", "triton")
            if (found := [time for call, time in times.items() if call.startswith(kind)])}
    shape = dict(tokens=tokens, experts=experts, k=k, hidden=hidden, inner=inner)
    used = vars(chosen or moe.configuration(tokens * k, experts)) | ({} if chosen or not fp8 else vars(
        moe.scaled_configuration(tokens * k, experts)))
    return row_of(f"moe-{'fp8-' * fp8}{name}", shape, used, best, error, "standard normal")


def line(row: Row) -> str:
    """A row for people: rates count the products, and the bytes of all weights that are read, each once."""
    shape, used = row.shape, row.configuration
    rows, matrix = shape["tokens"] * shape["k"], 3 * shape["hidden"] * shape["inner"]
    read = shape["experts"] * (1 - (1 - shape["k"] / shape["experts"]) ** shape["tokens"])
    ratios = "  ".join(f"{kind} {ratio:5.2f}" for kind, ratio in row.ratios().items())
    size = 1 if "fp8" in row.name else 2
    return (f"{row.name:<20} {row.microseconds:9.1f} us {2 * rows * matrix / row.microseconds / 1e6:5.0f} TFLOP/s "
            f"{size * read * matrix / row.microseconds / 1e3:5.0f} GB/s  "
            f"{ratios}  error {row.error:.1e}  "
            f"{used['bm']}x{used['bn']}, band {used['group_m']}, "
            f"{'weights as rows' if used['swapped'] else 'ping-pong' if used['ping_pong'] else 'cooperative'}, "
            f"{'rows picked' if used['load_warps'] else 'rows copied'}")


def shape_of(name: str) -> str:
    """A case as `mimw tune` takes it."""
    return "x".join(map(str, CASES[name]))


def chosen_by(words: list[str], name: str) -> Configuration | None:
    """The library's configuration with the fields that --set names changed."""
    tokens, experts, k, *_ = CASES[name]
    changes = {field: int(value) for field, value in (word.split("=") for word in words)}
    return replace(moe.configuration(tokens * k, experts), **changes) if changes else None


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0)
    parser.add_argument("--set", nargs="*", default=[], help="fields of the configuration, as bm=64")
    parser.add_argument("--fp8", action="store_true", help="matrices in e4m3 with scales of blocks")
    some_of(parser, "cases", CASES)
    if parser.parse_known_args()[0].tune:       # before anything asks for the GPU: the search forks
        options = parser.parse_args()
        shapes = [shape_of(name) for name in options.cases or CASES]
        raise SystemExit(search("moe", shapes, "bf16", options.results, "--ms", str(options.ms)))
    options = parsed(parser)
    ratios, matrices, model = {"triton": []} if options.fp8 else {"torch": [], "triton": []}, None, None
    for name in each(options.cases or CASES):
        if name.partition("-")[0] != model:
            matrices, model = None, name.partition("-")[0]      # those of the last model go first
            matrices = weights_of(model)
        row = measure(name, chosen_by(options.set, name), options.ms, matrices, options.fp8)
        keep(row, options.results / f"moe-{'fp8' if options.fp8 else 'bf16'}.jsonl")
        print(line(row), flush=True)
        for kind, found in ratios.items():
            found.append(row.ratios()[kind])
    for kind, found in ratios.items():
        print(summary(found, {"torch": "the best of torch", "triton": "stock Triton"}[kind]))


if __name__ == "__main__":
    main()
