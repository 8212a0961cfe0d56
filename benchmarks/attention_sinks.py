"""Attention with sinks at gpt-oss's shapes, forward and forward + backward, against eager torch and FlexAttention, on one GPU.

    python -m benchmarks.attention_sinks                        64 query heads, 8 heads of keys, 64 wide; full and a window of 128
    python -m benchmarks.attention_sinks 128-window 64-full --seq 8192 --ms 50      some cases; 128 wide, too

A sink is a logit of each head that joins the denominators of its rows and has no value. gpt-oss's layers alternate between all
keys up to a query's own and the last 128 of them. `eager` is the definition, in bf16: scores with the mask, the sinks as one more
column, softmax, that column left out, the product with the values. `Flex` is torch's FlexAttention, compiled, whose result is
multiplied by sigmoid(lse - sink), which is the same; the lse carries gradients. `FlashAttention` is there where it is installed,
forward alone. Inputs are standard normal, bf16. Results and all gradients of one head of keys are checked against fp64 before
anything is timed. Only pairs that the mask leaves count: 4 D operations each forward, 3.5 times as many with the pass backward.
"""

from __future__ import annotations

from functools import cache

from mimw import ops
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import keep, parsed, row_of, torch
from .progress import each

BATCH, HEADS, KV_HEADS, WINDOW = 1, 64, 8, 128
CASES = ("64-full", "64-window", "128-full", "128-window")
ALLOWED = 2e-2      # of a result's norm, in bf16: gradients are products of rounded probabilities
PASSES = {"forward": 1.0, "both": 3.5}


def inputs(dim: int, seq: int) -> tuple:
    """q, k, v, sinks, which require gradients, and the gradient of o."""
    torch.manual_seed(0)
    q, do = (torch.randn(BATCH, HEADS, seq, dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    k, v = (torch.randn(BATCH, KV_HEADS, seq, dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    sinks = torch.randn(HEADS, device="cuda", dtype=torch.bfloat16)
    return *(x.requires_grad_() for x in (q, k, v, sinks)), do


def mask(seq: int, window: int | None):
    """True where a query does not see a key."""
    query, key = torch.arange(seq, device="cuda")[:, None], torch.arange(seq, device="cuda")
    hidden = key > query
    return hidden if window is None else hidden | (key <= query - window)


def eager(q, k, v, sinks, hidden):
    """The definition, in the types of the inputs."""
    batch, heads, seq, dim = q.shape
    group = heads // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = ((q @ k.mT) * dim**-0.5).masked_fill(hidden, float("-inf"))
    scores = torch.cat([scores, sinks.to(q.dtype).view(1, heads, 1, 1).expand(batch, heads, seq, 1)], -1)
    return scores.softmax(-1)[..., :-1] @ v


@cache
def flex(window: int | None, seq: int):
    """FlexAttention with the sinks by its lse, compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def seen(batch, head, query, key):
        return (key <= query) if window is None else (key <= query) & (key > query - window)

    blocks = create_block_mask(seen, None, None, seq, seq, device="cuda")

    def run(q, k, v, sinks):
        o, lse = flex_attention(q, k, v, block_mask=blocks, enable_gqa=True, return_lse=True)
        return (o * torch.sigmoid(lse - sinks.float()[None, :, None])[..., None]).to(q.dtype)
    return torch.compile(run, dynamic=False)


def flash(q, k, v, sinks, window: int | None):
    """FlashAttention-4's forward, or None where it is not installed or takes no sinks."""
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return None
    laid = [x.detach().transpose(1, 2).contiguous() for x in (q, k, v)]
    bounds = {} if window is None else {"window_size": (window - 1, 0)}

    def run():
        out = flash_attn_func(*laid, causal=True, learnable_sink=sinks.detach(), **bounds)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
    try:
        run()
    except Exception as error:  # a version without sinks, or without this window
        print(f"FlashAttention: {type(error).__name__}: {str(error)[:150]}", flush=True)
        return None
    return run


def forwards(given: tuple, window: int | None, seq: int) -> dict:
    """Calls without arguments, by name."""
    q, k, v, sinks = given
    bounds = (None, None) if window is None else (window - 1, None)
    hidden, compiled = mask(seq, window), flex(window, seq)
    return {"mimw": lambda: ops.attention(q, k, v, causal=True, window=bounds, sinks=sinks),
            "eager": lambda: eager(q, k, v, sinks, hidden), "Flex": lambda: compiled(q, k, v, sinks)}


def error_of(results: tuple, given: tuple, do, window: int | None) -> float:
    """The largest relative error of o, and of gradients where there are any, of the first head of keys, against fp64."""
    group = HEADS // KV_HEADS
    q, k, v, sinks = given
    some = [x.detach()[:, :count].double().requires_grad_() for x, count in ((q, group), (k, 1), (v, 1))]
    some.append(sinks.detach()[:group].double().requires_grad_())
    o = eager(*some, mask(q.shape[2], window))
    exact = (o, *torch.autograd.grad(o, some, do[:, :group].double())) if len(results) > 1 else (o, )
    found = [x[:len(y)] if x.dim() == 1 else x[:, :y.shape[1]] for x, y in zip(results, exact)]
    return max(((x.double() - y).norm() / y.norm()).item() for x, y in zip(found, exact))


def measure(name: str, seq: int, at_least_ms: float = 200.0) -> list[Row]:
    """One row a pass, checked."""
    dim, kind = int(name.partition("-")[0]), name.partition("-")[2]
    window = WINDOW if kind == "window" else None
    *given, do = inputs(dim, seq)
    calls, rows = forwards(given, window, seq), []

    def with_gradients(call):
        o = call()
        return o, *torch.autograd.grad(o, given, do)

    for what in PASSES:
        timed = dict(calls) if what == "forward" else {who: lambda call=call: with_gradients(call) for who, call in calls.items()}
        errors = {}
        for who, call in timed.items():
            with torch.set_grad_enabled(what != "forward"):
                results = call()
            errors[who] = error_of(results if isinstance(results, tuple) else (results, ), given, do, window)
            del results
        if not errors["mimw"] < ALLOWED:
            raise AssertionError(f"{name}, {what}: error {errors['mimw']:.2e} against fp64, {ALLOWED} is allowed")
        if what == "forward" and (other := flash(*given, window)) is not None:
            timed["FlashAttention"] = other
        with torch.set_grad_enabled(what != "forward"):
            times = alternate(timed, at_least_ms)
        print("errors against fp64:", ", ".join(f"{who} {error:.1e}" for who, error in errors.items()), flush=True)
        rows.append(row_of(f"sinks-{kind}-{what}", dict(seq=seq, dim=dim), {}, times, errors["mimw"], "standard normal"))
    return rows


def operations(row: Row) -> float:
    """Of one call."""
    seq, dim = row.shape["seq"], row.shape["dim"]
    _, kind, what = row.name.split("-")
    wide = min(WINDOW, seq) if kind == "window" else seq
    pairs = wide * (wide + 1) // 2 + (seq - wide) * wide
    return 4.0 * BATCH * HEADS * dim * pairs * PASSES[what]


def line(row: Row) -> str:
    """A row for people."""
    others = "  ".join(f"{name} {time:.1f} us {row.ratios()[name]:.2f}" for name, time in row.baselines.items())
    return (f"{row.name:<21} seq {row.shape['seq']:<6} dim {row.shape['dim']:<4} {row.microseconds:9.1f} us "
            f"{operations(row) / row.microseconds / 1e6:5.0f} TFLOP/s  {others}  error {row.error:.1e}")


def main() -> None:
    parser = command(__doc__, ms=200.0)
    some_of(parser, "cases", CASES)
    parser.add_argument("--seq", type=int, default=4096)
    options = parsed(parser)
    for name in each(options.cases or CASES):
        for row in measure(name, options.seq, options.ms):
            keep(row, options.results / "attention_sinks.jsonl")
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
