"""Attention of few queries on a cache of keys and values against what else there is, and a copy of as many bytes, on one GPU.

    python -m benchmarks.attention_decode                       64 heads, 8 of keys, head dim 128, batch 1 to 128, length 1k to
    128k python -m benchmarks.attention_decode 1x8192 --ms 50        one of them
    python -m benchmarks.attention_decode --page 64 --ragged    pages, shuffled; lengths drawn evenly from 1 to the length
    python -m benchmarks.attention_decode --queries 4           speculative decoding
    python -m benchmarks.attention_decode --e4m3                caches of fp8, with a scale for each head of them
    python -m benchmarks.attention_decode --tune                `mimw tune` on these shapes

Inputs are standard normal, in bf16. Each candidate is a graph of calls that go through enough caches that none is in L2,
replayed with a cold L2, in turn with the others (`mimw.testing.benchmark.alternate`). The result is checked against fp64 on
some heads, and against itself: two calls give the same bits. `copy` moves as many bytes as the caches have: half of them read,
half written. `Triton` is `mimw.kernels.plain_attention_decode`, stock Triton. cuDNN and SDPA (torch's own choice) know neither
pages nor lengths: they get caches in one piece, all of one length, and no row where lengths differ.
"""

from __future__ import annotations

from itertools import cycle

from mimw.kernels import attention_decode, plain_attention_decode
from mimw.kernels.attention_decode import Configuration
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import graphed

from .driver import command, search, some_of
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, summary, torch
from .progress import each

LENGTHS = {1: (1024, 8192, 32768, 131072), 8: (1024, 8192, 32768, 131072), 32: (1024, 8192, 32768), 128: (1024, 8192)}
CASES = {f"{batch}x{length}": (batch, length) for batch, lengths in LENGTHS.items() for length in lengths}
OUTSIDE_L2 = 256 << 20      # bytes of caches that the calls of a graph go through
MOST_CACHES = 64
SCALE = 0.5                 # of caches of e4m3
LEAST_CALLS = 8             # of a graph: the first one finds an L2 full of what has to be written back


def problem(shape: dict[str, int]) -> tuple:
    """(q, [(k, v), ...], lengths, table): enough caches to keep them out of L2."""
    torch.manual_seed(0)
    batch, length, page, dim = shape["batch"], shape["length"], shape["page"], shape["dim"]
    front = (batch * -(-length // page), page) if page else (batch, length)
    one = 4 * batch * length * shape["kv_heads"] * dim
    count = max(2, min(MOST_CACHES, -(-OUTSIDE_L2 // one)))
    cuda = dict(device="cuda", dtype=torch.bfloat16)
    caches = [tuple(torch.randn(*front, shape["kv_heads"], dim, **cuda) for _ in range(2)) for _ in range(count)]
    if shape.get("e4m3"):
        caches = [tuple(x.to(torch.float8_e4m3fn) for x in pair) for pair in caches]
    table = torch.randperm(front[0], device="cuda").int().view(batch, -1) if page else None
    lengths = torch.full((batch, ), length, dtype=torch.int32, device="cuda")
    if shape["ragged"]:
        lengths = torch.randint(1, length + 1, (batch, ), device="cuda").int()
    return torch.randn(batch, shape["queries"], shape["heads"], dim, **cuda), caches, lengths, table


def scales(cache) -> dict:
    """For caches of e4m3: a scale for each of their heads."""
    if cache.dtype != torch.float8_e4m3fn:
        return {}
    return dict(k_scale=torch.full((cache.shape[2], ), SCALE, device="cuda"),
                v_scale=torch.full((cache.shape[2], ), SCALE, device="cuda"))


def check(q, k, v, lengths, table, o, lse) -> float:
    """||o - reference|| / ||reference|| on some heads; an error if it is larger than bf16 allows."""
    group, found, scale = q.shape[2] // k.shape[2], [], SCALE if scales(k) else 1.0
    for number, (batch, head) in enumerate((batch, head) for batch in {0, q.shape[0] - 1} for head in (0, q.shape[2] - 1)):
        length = lengths[batch].item()
        keys, values = (x[batch, :, head // group] if table is None else x[table[batch].long(), :, head // group].flatten(0, 1)
                        for x in (k, v))
        keys, values = keys.double() * scale, values.double() * scale
        scores = q[batch, :, head].double() @ keys[:length].mT / q.shape[3]**0.5
        last = torch.arange(q.shape[1], device="cuda") + length - q.shape[1]
        scores.masked_fill_(torch.arange(length, device="cuda") > last[:, None], float("-inf"))
        wanted = scores.softmax(-1).nan_to_num() @ values[:length]
        error = ((o[batch, :, head].double() - wanted).norm() / wanted.norm().clamp(min=1e-30)).item()
        lse_error = (lse[batch, head].double() - scores.logsumexp(-1)).nan_to_num().abs().max().item()
        if not (error < 1e-2 and lse_error < 1e-3):
            raise AssertionError(f"wrong at batch {batch}, head {head}: error {error:.2e} of O (allowed 1e-2), {lse_error:.2e} of "
                                 "log-sum-exp (allowed 1e-3)")
        found.append(error)
    return max(found)


def baselines(q, caches, lengths, table, o, lse, ragged: bool) -> dict:
    """Calls without arguments, each on the next caches, by name."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    splits = plain_attention_decode.splits_for(-(-q.shape[1] * q.shape[2] // caches[0][0].shape[2] // 64) * q.shape[0]
                                               * caches[0][0].shape[2], int(lengths.max()), multiprocessors())
    room = torch.empty(max(1, plain_attention_decode.room_for(q, q.shape[3], splits)), device="cuda")
    made = cycle([plain_attention_decode.arguments(q, k, v, lengths, o, lse, room, table, splits=splits, **scales(k))
                  for k, v in caches])
    moved = cycle([(k, v) for k, v in caches])

    def triton():
        for kernel, grid, args, meta in next(made):
            kernel[grid](*args, **meta)

    def copy():
        k, v = next(moved)
        scratch.copy_(k.view(-1)[:scratch.numel()])     # as many bytes read and written as half of the caches have

    scratch = torch.empty(int(lengths.sum()) * caches[0][0].shape[2] * q.shape[3], dtype=caches[0][0].dtype, device="cuda")
    found = {"copy": copy, "Triton": triton}
    if table is not None or ragged or q.shape[1] > 1 or scales(caches[0][0]):
        return found
    turns = cycle([(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)) for k, v in caches])

    def attend(*backends):
        def call():
            with sdpa_kernel(list(backends)):
                return scaled_dot_product_attention(*next(turns), enable_gqa=q.shape[2] != caches[0][0].shape[2])
        return call

    found |= {"cuDNN": attend(SDPBackend.CUDNN_ATTENTION), "flash SDPA": attend(SDPBackend.FLASH_ATTENTION)}
    return found | flash(q, caches)


def flash(q, caches) -> dict:
    """FlashAttention-4 with one query, where it is installed."""
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return {}
    turns = cycle(caches)
    return {"FlashAttention": lambda: flash_attn_func(q, *next(turns), causal=True)}


def flex(q, caches) -> dict:
    """FlexAttention's decoding, compiled by Inductor."""
    from torch.nn.attention.flex_attention import flex_attention
    compiled = torch.compile(flex_attention, dynamic=False)
    turns = cycle([(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)) for k, v in caches])
    return {"FlexAttention": lambda: compiled(*next(turns), enable_gqa=q.shape[2] != caches[0][0].shape[2])}


def measure(shape: dict[str, int], chosen: Configuration | None = None, at_least_ms: float = 200.0, with_flex: bool = False) -> Row:
    """One row, checked."""
    q, caches, lengths, table = problem(shape)
    kv_heads = shape["kv_heads"]
    o, lse = torch.full_like(q, float("nan")), torch.empty(q.shape[0], q.shape[2], q.shape[1], device="cuda")
    used = chosen or attention_decode.configuration_of(q, caches[0][0], table)
    room = torch.empty(attention_decode.room_for(q, kv_heads, multiprocessors(), used), device="cuda")
    flags = torch.zeros(attention_decode.flags_for(multiprocessors(), used), dtype=torch.int32, device="cuda")
    made = [attention_decode.arguments(q, k, v, lengths, o, lse, room, multiprocessors(), table, chosen=used, flags=flags,
                                       **scales(k))
            for k, v in caches]
    turns, results = cycle(made), []

    def run():
        for kernel, grid, args, meta in next(turns):
            kernel[grid](*args, **meta)

    for _ in range(len(made) + 1):
        run()
        results.append(o.clone())
    if not torch.equal(results[0], results[-1]):
        raise AssertionError("not the same bits twice")
    error = check(q, *caches[0], lengths, table, o, lse)
    if flags.any():
        raise AssertionError("the flags are not 0 behind a launch")
    calls = {"mimw": run, **baselines(q, caches, lengths, table, o, lse, bool(shape["ragged"]))}
    calls |= flex(q, caches) if with_flex else {}
    o.zero_()
    calls["Triton"]()
    check(q, *caches[0], lengths, table, o, lse)
    graphs, calls_each = {}, -(-LEAST_CALLS // len(caches)) * len(caches)
    for name, call in calls.items():
        try:
            graphs[name] = graphed(call, calls_each)
        except Exception as problem_of_it:  # a baseline that does not take it is no row's end
            if name == "mimw":
                raise
            print(f"{name}: {type(problem_of_it).__name__}: {str(problem_of_it)[:150]}", flush=True)
    times = {name: time / calls_each for name, time in alternate(graphs, at_least_ms).items()}
    total = 2 * caches[0][0].itemsize * int(lengths.sum()) * kv_heads * shape["dim"]
    return row_of("attention_decode", {**shape, "bytes": total}, vars(used), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people: the bytes are those of the keys and values that count."""
    shape, used = row.shape, row.configuration
    others = "  ".join(f"{name} {ratio:.3f}" for name, ratio in row.ratios().items())
    return (f"{shape['batch']:>4} x {shape['length']:<6} heads {shape['heads']}/{shape['kv_heads']} dim {shape['dim']:<3} "
            f"page {shape['page']:<3} q {shape['queries']:<2} {row.microseconds:8.1f} us "
            f"{shape['bytes'] / row.microseconds / 1e3:5.0f} GB/s  ratios: {others}  error {row.error:.1e}  "
            f"bn {used['bn']}, {used['stages']} x {used['streams']}{', few rows' if used['few'] else ''}, "
            f"least {used['least']}, drawn {used['drawn']}")


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0, jobs=True)
    some_of(parser, "cases", CASES)
    for name, default in (("dim", 128), ("heads", 64), ("kv-heads", 8), ("queries", 1), ("page", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--e4m3", action="store_true", help="caches of fp8, with a scale for each head of them")
    parser.add_argument("--flex", action="store_true", help="FlexAttention, too, which takes long to compile")
    options = parsed(parser)
    cases = [CASES[name] for name in options.cases or CASES]
    if options.tune:
        heads, paged = f"{options.queries}x{options.heads}x{options.kv_heads}", ":paged" if options.page else ""
        shapes = [f"{batch}x{heads}x{length}x{options.dim}{paged}" for batch, length in cases]
        words = "--ms", str(options.ms), "--spills", "512"      # before and behind the loops of a consumer
        raise SystemExit(search("attention_decode", shapes, "bf16", options.results, *words))
    others = dict(heads=options.heads, kv_heads=options.kv_heads, dim=options.dim, queries=options.queries, page=options.page,
                  ragged=int(options.ragged)) | ({"e4m3": 1} if options.e4m3 else {})
    shapes = [dict(batch=batch, length=length) | others for batch, length in cases]
    compiled_before(options.jobs, measure, [(shape, None, options.ms) for shape in shapes])
    ratios: dict[str, list[float]] = {}
    for shape in each(shapes, lambda shape: f"{shape['batch']} x {shape['length']}"):
        row = measure(shape, None, options.ms, options.flex)
        keep(row, options.results / "attention_decode.jsonl")
        print(line(row), flush=True)
        for other, ratio in row.ratios().items():
            ratios.setdefault(other, []).append(ratio)
    for other, found in ratios.items():
        print(summary(found, other))


if __name__ == "__main__":
    main()
