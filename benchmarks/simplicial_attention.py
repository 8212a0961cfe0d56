"""2-simplicial attention against stock Triton, on one GPU: one batch, 64 heads to a head of keys, head dim 128, bf16.

    python -m benchmarks.simplicial_attention               windows of 512 and 32, lengths from 1024 to 16384
    python -m benchmarks.simplicial_attention 4096          one of them
    python -m benchmarks.simplicial_attention --backward    the gradients of all five, with delta and the zeros of atomics
    python -m benchmarks.simplicial_attention --tune        every candidate configuration

Inputs are standard normal. The baselines are the best launch of each form of benchmarks/stock_simplicial_attention.py:
the published order of loops, and the library's; of the gradients, the published split. Operations are those of the two products
a pair of keys, 4 x 128 for each head, and 2.5 times as many backward (five products suffice). The results of some queries, and the
gradients of some, are checked against fp64 before anything is timed.
"""

from __future__ import annotations

from mimw.kernels import plain_simplicial_attention, simplicial_attention, simplicial_attention_backward
from mimw.kernels.simplicial_attention import Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import keep, multiprocessors, parsed, row_of, summary, torch, tried
from .progress import each
from .stock_simplicial_attention import CANDIDATES, gradient_launcher, launcher

LENGTHS, WINDOWS, HEADS, DIM = (1024, 2048, 4096, 8192, 16384), (512, 32), 64, 128
CHOICES = [Configuration(), Configuration(stages=3, chunk=3), Configuration(chunk=2), Configuration(bn=128, stages=2, chunk=2)]
ALLOWED = 1.5e-2    # relative to fp64: bf16 rounds queries times keys, probabilities and results


def operations(seq: int) -> float:
    """Of both products."""
    first, second = WINDOWS
    return 4.0 * DIM * HEADS * sum(min(i + 1, first) * min(i + 1, second) for i in range(seq))


def expected_at(position: int, q, k, v, k2, v2):
    """o of all heads at one position, in fp64."""
    one = q[0, :, position].double()
    k, v = (x[0, 0, max(0, position + 1 - WINDOWS[0]):position + 1].double() for x in (k, v))
    k2, v2 = (x[0, 0, max(0, position + 1 - WINDOWS[1]):position + 1].double() for x in (k2, v2))
    logits = torch.einsum("hd,jd,kd->hjk", one, k, k2) * DIM ** -0.5
    p = logits.flatten(1).softmax(1).view(logits.shape)
    return torch.einsum("hjk,jd,kd->hd", p, v, v2)


def error_of(o, given) -> float:
    """The largest relative error of some positions: at the windows' beginnings, inside and at the end."""
    found = 0.0
    for position in {0, 1, 33, 200, 511, 512, o.shape[2] // 2, o.shape[2] - 1}:
        exact = expected_at(position, *given)
        found = max(found, ((o[0, :, position].double() - exact).norm() / exact.norm()).item())
    return found


def best_of(form: str, given, o) -> tuple[dict, float]:
    """(options, microseconds) of the fastest launch of a stock form whose result is right."""
    found = []
    for options in CANDIDATES[form]:
        run = launcher(form, *given, o, WINDOWS, **options)
        try:
            o.fill_(float("nan"))
            run()
            if error_of(o, given) < ALLOWED:
                found.append((alternate({"it": run}, 10.0)["it"], options))
        except Exception as error:  # a launch that takes too much shared memory is no baseline
            print(f"{form} {options}: {type(error).__name__}: {str(error)[:120]}", flush=True)
    return min(found, key=lambda one: one[0])[::-1]


def measure(seq: int, chosen: Configuration | None = None, at_least_ms: float = 200.0, stock: dict | None = None) -> Row:
    """One row, checked. `stock` keeps the options of the baselines' best launches from one length to the next."""
    torch.manual_seed(0)
    given = [torch.randn(1, heads, seq, DIM, device="cuda", dtype=torch.bfloat16) for heads in (HEADS, 1, 1, 1, 1)]
    o, theirs = torch.full_like(given[0], float("nan")), torch.empty_like(given[0])
    lse = torch.empty(1, HEADS, seq, device="cuda")
    grid, args, meta = simplicial_attention.arguments(*given, o, lse, multiprocessors(), WINDOWS, None, chosen)
    run = lambda: simplicial_attention.kernel[grid](*args, **meta)     # noqa: E731
    run()
    error = error_of(o, given)
    if not error < ALLOWED:
        raise AssertionError(f"wrong: relative error {error:.2e} against fp64, {ALLOWED} is allowed")
    candidates = {"mimw": run}
    for form in CANDIDATES:
        if stock is not None and form not in stock:
            stock[form], _ = best_of(form, given, theirs)
        if stock is not None:
            candidates[f"Triton, {form}"] = launcher(form, *given, theirs, WINDOWS, **stock[form])
    times = alternate(candidates, at_least_ms)
    return row_of("simplicial_attention", dict(seq=seq), vars(chosen or simplicial_attention.configuration(DIM)), times, error,
                  "standard normal")


def gradients_of(given, do, positions: range):
    """The gradients of all five in fp64, of the queries at some positions alone."""
    leaves = [x[0].double().requires_grad_() for x in given]
    q, *others = leaves
    total = 0.0
    for position in positions:
        k, v, k2, v2 = (x[0, max(0, position + 1 - window):position + 1]
                        for x, window in zip(others, (*WINDOWS[:1] * 2, *WINDOWS[1:] * 2)))
        p = (torch.einsum("hd,jd,kd->hjk", q[:, position], k, k2) * DIM ** -0.5).flatten(1).softmax(1).view(HEADS, len(k), len(k2))
        total = total + (torch.einsum("hjk,jd,kd->hd", p, v, v2) * do[0, :, position].double()).sum()
    return torch.autograd.grad(total, leaves)


def measure_backward(seq: int, at_least_ms: float = 200.0) -> Row:
    """One row of the gradients, checked where do is 0 but for some positions, so that fp64 needs to know only these."""
    torch.manual_seed(0)
    cuda = dict(device="cuda", dtype=torch.bfloat16)
    given = [torch.randn(1, heads, seq, DIM, **cuda) for heads in (HEADS, 1, 1, 1, 1)]
    o, lse, do = torch.empty_like(given[0]), torch.empty(1, HEADS, seq, device="cuda"), torch.randn_like(given[0])
    grid, args, meta = simplicial_attention.arguments(*given, o, lse, multiprocessors(), WINDOWS)
    simplicial_attention.kernel[grid](*args, **meta)
    outputs = [torch.empty_like(x) for x in given[:3]] + [torch.zeros(1, 1, seq, DIM, device="cuda") for _ in range(2)]
    theirs, delta = [torch.empty_like(x) for x in outputs], torch.empty_like(lse)
    launches = plain_simplicial_attention.gradient_arguments(*given, do, lse, delta, *outputs, WINDOWS)
    of_queries = simplicial_attention_backward.arguments(*given, do, lse, delta, outputs[0], multiprocessors(), WINDOWS)
    launches[0] = simplicial_attention_backward.kernel, *of_queries
    stock = gradient_launcher(*given, do, lse, delta, *theirs, WINDOWS)

    def run():
        outputs[3].zero_(), outputs[4].zero_()
        for kernel, grid, args, meta in launches:
            kernel[grid](*args, **meta)

    positions, kept, error = range(seq - 3, seq), do.clone(), 0.0
    do.zero_()
    do[:, :, -3:] = kept[:, :, -3:]
    delta.copy_((o.float() * do.float()).sum(-1))
    for call, found in ((run, outputs), (stock, theirs)):
        call()
        for one, exact in zip(found, gradients_of(given, do, positions)):
            error = max(error, ((one[0].double() - exact).norm() / exact.norm()).item())
    if not error < 2 * ALLOWED:
        raise AssertionError(f"wrong: relative error {error:.2e} of a gradient against fp64, {2 * ALLOWED} is allowed")
    do.copy_(kept)
    delta.copy_((o.float() * do.float()).sum(-1))
    times = alternate({"mimw": run, "Triton, published split": stock}, at_least_ms)
    return row_of("simplicial_attention-backward", dict(seq=seq), {}, times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    if row.name.endswith("backward"):
        rate = 2.5 * operations(row.shape["seq"]) / row.microseconds / 1e6
        return (f"{row.shape['seq']:>6} backward {row.microseconds:9.1f} us {rate:4.0f} TFLOP/s  ratio "
                f"{row.ratios()['Triton, published split']:.3f}  error {row.error:.1e}")
    rate, used = operations(row.shape["seq"]) / row.microseconds / 1e6, row.configuration
    beside = "  ".join(f"{name} {ratio:.3f}" for name, ratio in row.ratios().items())
    return (f"{row.shape['seq']:>6} {row.microseconds:9.1f} us {rate:4.0f} TFLOP/s  ratios: {beside}  error {row.error:.1e}  "
            f"{used['bn']} keys, {used['chunk']} of {used['stages']} blocks held")


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0)
    some_of(parser, "lengths", LENGTHS, int)
    parser.add_argument("--backward", action="store_true", help="the gradients")
    options = parsed(parser)
    file = options.results / "simplicial_attention.jsonl"
    ratios, stock = [], None if options.tune else {}
    for seq in each(options.lengths or LENGTHS):
        if options.backward:
            row = measure_backward(seq, options.ms)
            keep(row, file)
            print(line(row), flush=True)
            continue
        for row in tried(str(seq), CHOICES if options.tune else [None],
                         lambda chosen, seq=seq: measure(seq, chosen, options.ms, stock), options.tune):
            keep(row, file)
            print(line(row), flush=True)
            ratios += [min(row.ratios().values())] if row.ratios() else []
    if ratios:
        print(summary(ratios, "the better stock form"))


if __name__ == "__main__":
    main()
