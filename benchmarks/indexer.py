"""The scores of the lightning indexer of DeepSeek V3.2 against torch's composition and the plain kernel, on one GPU.

    python -m benchmarks.indexer                            all cases: prefill, prefill of 2-byte types, decoding
    python -m benchmarks.indexer prefill-8192 decode-64x2x32768 --ms 50     some of them
    python -m benchmarks.indexer prefill-8192 --tune --jobs 12              every candidate configuration of theirs

64 heads of 128 columns, e4m3 or bf16, weights and scales fp32, scores fp32. A case `prefill-T` has T queries and T keys, causal;
`chunk-SxT` the last S queries of T keys; `decode-BxSxT` the last S tokens of each of B sequences of about T keys, in pages of 64.
What no query looks at is not written (fill=False), as where the selector follows; `filled-T` writes -inf there. `topk-T` is the
operator with its 2048 largest for each query, against torch.topk of the same scores. Inputs are standard normal, rounded. The
baseline `torch` is a product, relu and a product, some queries at a time, in bf16 with fp32 sums. Some rows of every case are
checked against fp64 before anything is timed. Only pairs that count are operations: 2 x 64 x 128 each.
"""

from __future__ import annotations

import mimw
from mimw.kernels import lightning_indexer, plain_lightning_indexer
from mimw.kernels.lightning_indexer import Configuration
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import keep, multiprocessors, parsed, row_of, torch, tried
from .progress import each

HEADS, DIM, PAGE, TOPK = 64, 128, 64, 2048
CASES = ("prefill-2048", "prefill-4096", "prefill-8192", "prefill-16384", "prefill-32768", "chunk-2048x65536", "filled-8192",
         "bf16-8192", "decode-64x1x8192", "decode-64x1x32768", "decode-64x2x32768", "decode-64x4x32768", "decode-8x1x65536",
         "topk-8192", "topk-32768")
ALLOWED = 2e-3      # sums of fp8 products in the tensor cores keep about 14 bits (kernels/gemm/promoted.py)
CANDIDATES = {
    "prefill": [*(Configuration(2, 128, 4, True, 5, 2, chunk) for chunk in (1024, 2048, 4096)),
                *(Configuration(4, 128, 2, True, 5, 2, chunk) for chunk in (1024, 2048)),
                Configuration(2, 128, 3, True, 6, 2, 2048), Configuration(4, 64, 2, True, 8, 2, 2048),
                Configuration(2, 64, 4, True, 8, 2, 2048)],
    "bf16": [Configuration(2, 64, 4, True, 5, 1, 2048), Configuration(1, 64, 4, True, 4, 2, 2048),
             Configuration(4, 64, 2, True, 5, 1, 2048), Configuration(2, 128, 2, True, 4, 1, 2048)],
    "decode": [*(Configuration(0, 128, 2, False, 8, 2, chunk) for chunk in (512, 1024, 2048)),
               Configuration(0, 256, 2, False, 5, 2, 1024), Configuration(0, 256, 4, False, 5, 2, 1024),
               Configuration(0, 128, 2, False, 10, 2, 1024)],
}


def kind(name: str) -> str:
    """What sort of case it is."""
    return name.partition("-")[0]


def sizes(name: str) -> tuple[int, int, int]:
    """(sequences, queries of each, keys of each) of a case."""
    numbers = [int(text) for text in name.partition("-")[2].split("x")]
    return (1, numbers[0], numbers[0]) if len(numbers) == 1 else (1, *numbers) if len(numbers) == 2 else tuple(numbers)


def rounded(*shape: int, dtype):
    """Standard normal numbers of a type."""
    return torch.randn(*shape, device="cuda").to(dtype)


def worse(error: float, got, exact) -> float:
    """The larger of an error and that of some scores; an error if a score is NaN, with which no comparison holds."""
    if got.isnan().any():
        raise AssertionError(f"{int(got.isnan().sum())} of {len(got)} scores are NaN, or were not written")
    return max(error, ((got - exact).abs().max() / exact.abs().max()).item())


class Dense:
    """A case of keys in one piece: its inputs, launches, reference."""

    def __init__(self, name: str):
        _, self.queries, self.keys = sizes(name)
        torch.manual_seed(0)
        dtype = torch.bfloat16 if kind(name) == "bf16" else torch.float8_e4m3fn
        self.fill = kind(name) == "filled"
        self.q, self.k = rounded(self.queries, HEADS, DIM, dtype=dtype), rounded(self.keys, DIM, dtype=dtype)
        self.weights = torch.randn(self.queries, HEADS, device="cuda")
        self.scale = torch.rand(self.keys, device="cuda") + 0.5
        self.scores = torch.full((self.queries, self.keys), float("nan"), device="cuda")
        self.ends = torch.arange(self.queries, device="cuda") + 1 + self.keys - self.queries

    def pairs(self) -> int:
        """Pairs of a query and a key that count."""
        return int(self.ends.sum())

    def launcher(self, chosen: Configuration | None):
        """A call without arguments."""
        kernel = lightning_indexer.kernel
        grid, args, meta = lightning_indexer.arguments(self.q, self.k, self.weights, self.scores, multiprocessors(), self.scale,
                                                       causal=True, fill=self.fill, chosen=chosen)
        launch = kernel[grid]
        return lambda: launch(*args, **meta)

    def plain(self):
        """The same of the plain kernel."""
        grid, args, meta = plain_lightning_indexer.arguments(self.q, self.k, self.weights, self.scores, self.scale, causal=True,
                                                             fill=self.fill)
        launch = plain_lightning_indexer.kernel[grid]
        return lambda: launch(*args, **meta)

    def torchs(self):
        """The same by torch, without a mask."""
        q, k, some = self.q.bfloat16(), self.k.bfloat16().T.contiguous(), max(1, (1 << 24) // self.keys)
        weights, out = self.weights.bfloat16()[:, None], torch.empty_like(self.scores)

        def run():
            for at in range(0, self.queries, some):
                product = (q[at:at + some].view(-1, DIM) @ k).view(-1, HEADS, self.keys).relu_()
                torch.mul((weights[at:at + some] @ product)[:, 0], self.scale, out=out[at:at + some])
        return run

    def error(self) -> float:
        """The largest difference of some rows to fp64, over the largest number there; an error if more or less is written."""
        found = 0.0
        for row in {0, 1, self.queries // 3, self.queries - 1}:
            end = int(self.ends[row])
            exact = self.weights[row].double() @ (self.q[row].double() @ self.k.double().T).relu() * self.scale.double()
            got = self.scores[row].double()
            rest = got[end:]
            if not (rest.isneginf() if self.fill else rest.isnan()).all():
                raise AssertionError(f"row {row}: something else behind the last key that counts")
            found = worse(found, got[:end], exact[:end])
        return found


class Paged:
    """A case of keys in pages: lengths are up to a tenth shorter than the longest."""

    def __init__(self, name: str):
        self.sequences, self.queries, self.keys = sizes(name)
        torch.manual_seed(0)
        most = self.keys // PAGE
        self.q = rounded(self.sequences, self.queries, HEADS, DIM, dtype=torch.float8_e4m3fn)
        self.cache = torch.randn(self.sequences * most, PAGE, DIM, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
        self.scales = torch.rand(self.sequences * most, PAGE, device="cuda") + 0.5
        self.weights = torch.randn(self.sequences, self.queries, HEADS, device="cuda")
        self.table = torch.randperm(self.sequences * most, device="cuda").int().view(self.sequences, most)
        self.lengths = torch.randint(self.keys * 9 // 10, self.keys + 1, (self.sequences, ), device="cuda", dtype=torch.int32)
        self.scores = torch.full((self.sequences, self.queries, self.keys), float("nan"), device="cuda")

    def pairs(self) -> int:
        """Pairs of a query and a key that count, to within some queries."""
        return int(self.lengths.sum()) * self.queries

    def launcher(self, chosen: Configuration | None):
        """A call without arguments."""
        if chosen is not None:
            chosen = Configuration(**vars(chosen) | dict(queries=1 << (self.queries - 1).bit_length()))
        grid, args, meta = lightning_indexer.paged(self.q, self.cache, self.weights, self.scores, self.lengths, self.table,
                                                   multiprocessors(), self.scales, fill=False, chosen=chosen)
        launch = lightning_indexer.kernel[grid]
        return lambda: launch(*args, **meta)

    def plain(self):
        """The same of the plain kernel."""
        grid, args, meta = plain_lightning_indexer.paged(self.q, self.cache, self.weights, self.scores, self.lengths, self.table,
                                                         self.scales, fill=False)
        launch = plain_lightning_indexer.kernel[grid]
        return lambda: launch(*args, **meta)

    def torchs(self):
        """The same by torch, of keys that have been gathered before and are bf16."""
        k = self.cache.bfloat16()[self.table.long()].view(self.sequences, self.keys, DIM).mT
        q, scale = self.q.bfloat16(), self.scales[self.table.long()].view(self.sequences, 1, self.keys)
        weights = self.weights.bfloat16().unsqueeze(2)

        def run():
            product = (q.view(self.sequences, -1, DIM) @ k).view(self.sequences, self.queries, HEADS, self.keys).relu_()
            return (weights @ product)[:, :, 0] * scale
        return run

    def error(self) -> float:
        """As above."""
        found = 0.0
        for batch in {0, self.sequences - 1}:
            k = self.cache[self.table[batch].long()].view(self.keys, DIM).double()
            scale = self.scales[self.table[batch].long()].view(self.keys).double()
            for row in range(self.queries):
                end = int(self.lengths[batch]) - self.queries + 1 + row
                exact = self.weights[batch, row].double() @ (self.q[batch, row].double() @ k.T).relu() * scale
                got = self.scores[batch, row].double()
                if not got[end:].isnan().all():
                    raise AssertionError(f"sequence {batch}, query {row}: something is written behind the last key that counts")
                found = worse(found, got[:end], exact[:end])
        return found


def measure(name: str, at_least_ms: float = 200.0, chosen: Configuration | None = None) -> Row:
    """One row, checked; alone where a configuration is given."""
    if kind(name) == "topk":
        return measure_topk(name, at_least_ms)
    case = (Paged if kind(name) == "decode" else Dense)(name)
    calls, error = {"mimw": case.launcher(chosen)}, 0.0
    if chosen is None:
        calls |= {"plain": case.plain(), "torch": case.torchs()}
    for call in [call for candidate, call in calls.items() if candidate != "torch"]:
        case.scores.fill_(float("nan"))
        call()
        error = max(error, case.error())
        if not error < ALLOWED:
            raise AssertionError(f"{name}: error {error:.2e} against fp64, {ALLOWED} is allowed")
    times = alternate(calls, at_least_ms)
    _, queries, keys = sizes(name)
    used = chosen or (lightning_indexer.paged_configuration(HEADS, DIM, 1, queries, PAGE) if kind(name) == "decode"
                      else lightning_indexer.configuration(HEADS, DIM, case.q.element_size()))
    shape = dict(sequences=sizes(name)[0], queries=queries, keys=keys, pairs=case.pairs())
    return row_of(f"indexer-{kind(name)}", shape, vars(used), times, error, "standard normal")


def rehearse(cases: list[tuple[str, Configuration | None]]) -> None:
    """Launch our kernels of the cases: with `mimw.compile_ahead` they are only compiled. No reference and no peer runs."""
    for name, chosen in cases:
        case = (Paged if kind(name) == "decode" else Dense)(name)
        if kind(name) == "topk":
            topk_of(case)
        else:
            case.launcher(chosen)()
            if chosen is None:
                case.plain()()


def topk_of(case: Dense):
    """The operator with its selection."""
    from mimw import ops
    return ops.lightning_indexer(case.q, case.k, case.weights, case.scale, causal=True, topk=TOPK)


def measure_topk(name: str, at_least_ms: float) -> Row:
    """The operator with its selection, and torch's selection of the same scores behind the same kernel."""
    from mimw import ops

    case = Dense(name)
    given = case.q, case.k, case.weights, case.scale
    chosen = topk_of(case)
    scores = ops.lightning_indexer(*given, causal=True)
    for row in (0, TOPK, case.queries - 1):
        wanted = scores[row].topk(min(TOPK, row + 1)).values
        picked = chosen[row][chosen[row] >= 0].long()
        if not torch.equal(scores[row, picked].sort(descending=True).values, wanted):
            raise AssertionError(f"{name}: row {row} has other keys than torch.topk of its scores")
    times = alternate({"mimw": lambda: topk_of(case),
                       "scores alone": lambda: ops.lightning_indexer(*given, causal=True, fill=False),
                       "torch.topk": lambda: ops.lightning_indexer(*given, causal=True).topk(TOPK, sorted=False)}, at_least_ms)
    used, shape = lightning_indexer.configuration(HEADS, DIM, 1), dict(sequences=1, queries=case.queries, keys=case.keys,
                                                                       pairs=case.pairs())
    return row_of("indexer-topk", shape, vars(used), times, 0.0, "standard normal")


def compiled(jobs: int, cases: list[tuple[str, Configuration | None]]) -> None:
    """Compile what the cases launch, by so many processes; nothing by none of them."""
    if jobs:
        mimw.compile_ahead(rehearse, cases, jobs=jobs)


def operations(row: Row) -> float:
    """Of one call."""
    return 2.0 * HEADS * DIM * row.shape["pairs"]


def line(row: Row) -> str:
    """A row for people."""
    shape, others = row.shape, "  ".join(f"{name} {time:.1f} us {row.ratios()[name]:.2f}" for name, time in row.baselines.items())
    read = shape["sequences"] * shape["keys"] * (DIM + 4) / row.microseconds / 1e6
    used = ", ".join(f"{name} {value}" for name, value in row.configuration.items())
    return (f"{row.name:<16} {shape['sequences']:>3} x {shape['queries']:<6} keys {shape['keys']:<6} {row.microseconds:9.1f} us "
            f"{operations(row) / row.microseconds / 1e6:6.0f} TFLOP/s {read:5.2f} TB/s of keys once  {others}  "
            f"error {row.error:.1e}  {used}")


def main() -> None:
    parser = command(__doc__, ms=200.0, tune=True, jobs=True)
    some_of(parser, "cases", CASES)
    options = parsed(parser)
    cases = options.cases or CASES
    if options.tune:
        for name in cases:
            candidates = CANDIDATES.get(kind(name), CANDIDATES["prefill"])
            compiled(options.jobs, [(name, chosen) for chosen in candidates])
            for row in tried(name, candidates, lambda chosen, name=name: measure(name, options.ms, chosen), True):
                keep(row, options.results / "indexer-tune.jsonl")
                print(line(row), flush=True)
        return
    compiled(options.jobs, [(name, None) for name in cases])
    for name in each(cases):
        row = measure(name, options.ms)
        keep(row, options.results / ("indexer-bf16.jsonl" if kind(name) == "bf16" else "indexer.jsonl"))
        print(line(row), flush=True)


if __name__ == "__main__":
    main()
