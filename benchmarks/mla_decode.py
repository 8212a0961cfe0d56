"""MLA decoding on a paged latent cache (DeepSeek's, rows of 576 numbers of which 512 are values), on one GPU.

    python -m benchmarks.mla_decode                             batch 128, 16, 64 and 128 heads, 1 and 2 queries, 4096 to 16384 keys
    python -m benchmarks.mla_decode 128x1x4096 --ms 50          one of them, heads x queries x keys
    python -m benchmarks.mla_decode --ragged                    lengths drawn evenly from 1 to the length
    python -m benchmarks.mla_decode --batch 1                   one sequence, whose keys all multiprocessors share
    python -m benchmarks.mla_decode --cache packed              e4m3 in FlashMLA's layout, 656 bytes a row; or e4m3, with one scale

Pages have 64 keys, shuffled. Inputs are standard normal, in bf16; causal among the queries. `torch` gathers the pages beforehand,
and computes by two products and a softmax; `Triton` is `mimw.kernels.plain_mla_decode`; `vLLM` is its kernel in Triton
(`decode_attention_fwd`), where vLLM is installed. What FlashMLA publishes of an H800, 660 TFLOP/s where products bound it
and 3000 GB/s where memory does, stands beside each row: the time of the slower of both. Results are checked against fp64 on some
sequences, and against themselves: two calls give the same bits.
"""

from __future__ import annotations

from mimw.kernels import mla_decode, plain_mla_decode
from mimw.testing.benchmark import Row, alternate
from mimw.tuning.graphs import graphed

from .driver import command, some_of
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, summary, torch
from .progress import each

VALUES, WIDTH, PAGE, SCALE = 512, 576, 64, 192**-0.5
CASES = {f"{heads}x{queries}x{length}": (heads, queries, length) for heads in (128, 64, 16) for queries in (1, 2)
         for length in (4096, 8192, 16384)}
FLASH_MLA = 660e6, 3000e3       # operations and bytes a microsecond, published of an H800
ALLOWED, CALLS, MOST_BYTES = 1e-2, 3, 40 << 30


def problem(batch: int, heads: int, queries: int, length: int, ragged: bool, kind: str = "bf16") -> tuple:
    """(q, the cache, lengths, table, the cache's scale or None, what the cache stands for in bf16)."""
    torch.manual_seed(0)
    cuda, pages = dict(device="cuda", dtype=torch.bfloat16), -(-length // PAGE)
    lengths = torch.randint(1, length + 1, (batch, ), device="cuda") if ragged else torch.full((batch, ), length, device="cuda")
    table = torch.randperm(batch * pages, device="cuda").int().view(batch, pages)
    cache, scale = torch.randn(batch * pages, PAGE, 1, WIDTH, **cuda), None
    given = cache
    if kind == "e4m3":
        given, scale = cache.to(torch.float8_e4m3fn), torch.ones(1, device="cuda")
        cache = given.bfloat16()
    elif kind == "packed":
        given, cache = packed(cache)
    return torch.randn(batch, queries, heads, WIDTH, **cuda), given, lengths.int(), table, scale, cache


def packed(cache) -> tuple:
    """(the rows as FlashMLA packs them, and what they stand for)."""
    groups = cache[..., :VALUES].float().unflatten(-1, (-1, 128))
    scales = groups.abs().amax(-1) / 448
    values = (groups / scales[..., None]).to(torch.float8_e4m3fn)
    stands_for = torch.cat([(values.float() * scales[..., None]).bfloat16().flatten(-2), cache[..., VALUES:]], -1)
    parts = values.flatten(-2).view(torch.uint8), scales.view(torch.uint8), cache[..., VALUES:].contiguous().view(torch.uint8)
    return torch.cat(parts, -1).view(torch.float8_e4m3fn), stands_for


def cost(lengths, heads: int, queries: int, row_bytes: int) -> tuple[float, float]:
    """(operations, bytes) of a call: each key of each sequence once."""
    keys = float(lengths.sum())
    return 2 * keys * heads * queries * (WIDTH + VALUES), keys * row_bytes


def check(q, cache, lengths, table, out, lse) -> float:
    """The largest relative error of out in some sequences, against fp64; an error where that or lse's is too large."""
    found, queries = 0.0, q.shape[1]
    for batch in sorted({0, q.shape[0] // 2, q.shape[0] - 1}):
        keys = cache[table[batch].long(), :, 0].flatten(0, 1)[:lengths[batch]].double()
        scores = torch.einsum("qhd,kd->hqk", q[batch].double(), keys) * SCALE
        last = torch.arange(queries, device="cuda") + lengths[batch] - queries
        scores.masked_fill_(torch.arange(len(keys), device="cuda") > last[:, None], float("-inf"))
        exact = (scores.softmax(-1).nan_to_num() @ keys[:, :VALUES]).transpose(0, 1)
        found = max(found, ((out[batch].double() - exact).norm() / exact.norm()).item())
        of_lse = (lse[batch].double() - scores.logsumexp(-1)).nan_to_num().abs().max().item()
        if not (found < ALLOWED and of_lse < 1e-3):
            raise AssertionError(f"wrong in sequence {batch}: relative error {found:.2e} (allowed {ALLOWED}), of lse {of_lse:.2e}")
    return found


def by_torch(q, cache, lengths, table):
    """Two products and a softmax on keys that have been gathered, all of one length."""
    batch, queries, heads, _ = q.shape
    keys = cache[table.long()].view(batch, -1, WIDTH)
    rows = q.view(batch, queries * heads, WIDTH)

    def call():
        scores = torch.bmm(rows, keys.mT) * SCALE
        if queries > 1:
            last = torch.arange(queries, device="cuda").repeat_interleave(heads) + int(keys.shape[1]) - queries
            scores.masked_fill_(torch.arange(keys.shape[1], device="cuda") > last[:, None], float("-inf"))
        return torch.bmm(scores.softmax(-1), keys[:, :, :VALUES])

    return call


def by_vllm(q, cache, lengths, table):
    """vLLM's kernel in Triton, with the splits that its backend takes, and as there a row of its own for each query."""
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd
    batch, queries, heads, _ = q.shape
    rows, splits = q.view(batch * queries, heads, WIDTH), 1 << (max(1, int(lengths.max()) // 512) - 1).bit_length()
    out, lse = torch.empty_like(rows[..., :VALUES]), torch.empty(batch * queries, heads, device="cuda")
    room = torch.empty(batch * queries, heads, splits, VALUES + 1, device="cuda")
    table = table.repeat_interleave(queries, 0)
    lengths = (lengths[:, None] + torch.arange(1 - queries, 1, device="cuda")).flatten().clamp(min=0).int()
    one = torch.ones((), device="cuda")     # without scales it makes some on the CPU, which no graph may copy
    return lambda: decode_attention_fwd(rows, cache, cache[..., :VALUES], out, lse, table, lengths, room, splits, SCALE, PAGE,
                                        k_scale=one, v_scale=one, is_mla=True)


def caller(launches: list[tuple]):
    """A call of launches that follow each other."""
    def call():
        for kernel, grid, args, meta in launches:
            kernel[grid](*args, **meta)

    return call


def ours(q, cache, lengths, table, k_scale, out, lse):
    """Our call."""
    room = torch.empty(mla_decode.room_for(q, VALUES, multiprocessors()), device="cuda")
    return caller(mla_decode.arguments(q, cache, lengths, out, lse, room, multiprocessors(), table, SCALE, k_scale=k_scale))


def results_of(q) -> tuple:
    """(out, lse) that hold nothing yet."""
    return (torch.full((*q.shape[:3], VALUES), float("nan"), dtype=q.dtype, device="cuda"),
            torch.empty(q.shape[0], q.shape[2], q.shape[1], device="cuda"))


def rehearse(name: str, batch: int, ragged: bool, kind: str) -> None:
    """Our launches alone, which are compiled before anything is timed."""
    q, cache, lengths, table, k_scale, _ = problem(batch, *CASES[name], ragged, kind)
    ours(q, cache, lengths, table, k_scale, *results_of(q))()


def measure(name: str, batch: int = 128, ragged: bool = False, kind: str = "bf16", at_least_ms: float = 100.0,
            alone: bool = False) -> Row:
    """One row, checked; with `alone` without peers."""
    heads, queries, length = CASES[name]
    q, cache, lengths, table, k_scale, stands_for = problem(batch, heads, queries, length, ragged, kind)
    given, (out, lse) = (q, stands_for, lengths, table), results_of(q)
    call = ours(q, cache, lengths, table, k_scale, out, lse)
    call()
    first = out.clone()
    call()
    error, calls = check(*given, out, lse), {"mimw": call}
    if not torch.equal(first, out):
        raise AssertionError("not the same bits twice")
    if not alone:
        calls |= peers(given, cache, k_scale, out, lse, ragged)
    graphs = {candidate: graphed(call, CALLS) for candidate, call in calls.items()}
    times = {candidate: time / CALLS for candidate, time in alternate(graphs, at_least_ms).items()}
    operations, of_memory = cost(lengths, heads, queries, cache.shape[3] * cache.itemsize)
    times["FlashMLA, H800"] = max(operations / FLASH_MLA[0], of_memory / FLASH_MLA[1])
    shape = dict(batch=batch, heads=heads, queries=queries, length=length, ragged=int(ragged),
                 row_bytes=cache.shape[3] * cache.itemsize, operations=int(operations), bytes=int(of_memory))
    return row_of(f"mla_decode-{kind}", shape, {}, times, error, "standard normal")


def peers(given: tuple, cache, k_scale, out, lse, ragged: bool) -> dict:
    """Calls of what else there is."""
    calls = plain(given, cache, k_scale, out, lse)
    if not ragged:
        calls["torch"] = by_torch(*given)
    try:
        calls["vLLM"] = by_vllm(*given)
    except ImportError as missing:
        print(f"vLLM: {missing}", flush=True)
    return calls


def plain(given: tuple, cache, k_scale, out, lse) -> dict:
    """The plain kernel, checked."""
    q, _, lengths, table = given
    splits = plain_mla_decode.splits_for(q, table.shape[1] * PAGE, multiprocessors())
    room = torch.empty(plain_mla_decode.room_for(q, VALUES, splits), device="cuda")
    call = caller(plain_mla_decode.arguments(q, cache, lengths, out, lse, room, table, SCALE, splits=splits, wide=True,
                                             k_scale=k_scale))
    out.zero_()
    call()
    check(*given, out, lse)
    return {"Triton": call}


def line(row: Row) -> str:
    """A row for people."""
    shape = row.shape
    others = "  ".join(f"{name} {ratio:.2f}" for name, ratio in row.ratios().items())
    kind = row.name.removeprefix("mla_decode-") + (", ragged" if shape["ragged"] else "")
    return (f"batch {shape['batch']:<3} heads {shape['heads']:<3} queries {shape['queries']} keys {shape['length']:<5} {kind:<6} "
            f"{row.microseconds:8.1f} us {shape['operations'] / row.microseconds / 1e6:4.0f} TFLOP/s "
            f"{shape['bytes'] / row.microseconds / 1e3:5.0f} GB/s  ratios: {others}  error {row.error:.1e}")


def main() -> None:
    parser = command(__doc__, ms=100.0, jobs=True)
    some_of(parser, "cases", CASES)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--alone", action="store_true", help="time no peers")
    parser.add_argument("--cache", choices=("bf16", "e4m3", "packed"), default="bf16")
    options = parsed(parser)
    names = options.cases or list(CASES)
    compiled_before(options.jobs, rehearse, [(name, options.batch, options.ragged, options.cache) for name in names])
    ratios = []
    for name in each(names):
        row = measure(name, options.batch, options.ragged, options.cache, options.ms, options.alone)
        keep(row, options.results / "mla_decode.jsonl")
        print(line(row), flush=True)
        ratios.append(row.ratios()["FlashMLA, H800"])
    print(summary(ratios, "what FlashMLA publishes of an H800"))


if __name__ == "__main__":
    main()
