"""Attention, forward or backward, against cuDNN, and FlashAttention where it is installed, on one GPU.

    python -m benchmarks.attention                       batch 4, 48 heads, head dim 128, seq 1024 to 16384, bf16, full and causal
    python -m benchmarks.attention --dims 64 --seq 4096  other head dims, some lengths; 192 has values of 128
    python -m benchmarks.attention --kv-heads 8          grouped queries
    python -m benchmarks.attention --tune                try every candidate configuration
    python -m benchmarks.attention --backward            the gradients (attention_backward.py)
    python -m benchmarks.attention --varlen              sequences packed one behind the other (attention_varlen.py), forward or
                                                         with --backward

Inputs are standard normal. Ours and the baselines alternate with a cold L2 (`mimw.testing.benchmark.alternate`); every timed result
is checked against fp64 on some rows of every head. Causal counts half the operations.
"""

from __future__ import annotations

from itertools import product

from mimw.kernels import attention
from mimw.kernels.attention import Configuration
from mimw.kernels.attention.configs import value_dim
from mimw.testing.benchmark import Row, alternate

from . import attention_backward, attention_varlen
from .driver import command
from .gpu import compiled_before, keep, multiprocessors, parsed, row_of, summary, torch, tried
from .progress import each

SEQS = (1024, 2048, 4096, 8192, 16384)
DTYPES = {"bf16": "bfloat16", "fp16": "float16"}  # -> their names in torch
CANDIDATES = {
    64: [Configuration(k_stages=4, v_stages=4, ping_pong=turns) for turns in (False, True)] + [
        Configuration(bm=192, consumers=3, k_stages=3, v_stages=3, ping_pong=turns) for turns in (False, True)] + [
        *(Configuration(bm=192, bn=bn, consumers=3, k_stages=3, v_stages=3) for bn in (96, 112)),
        Configuration(bn=160, k_stages=3, v_stages=3), Configuration(bn=176, k_stages=3, v_stages=3), Configuration(bn=192)],
    96: [Configuration(k_stages=3, v_stages=3, ping_pong=turns) for turns in (False, True)] + [
        Configuration(bm=192, bn=64, consumers=3, k_stages=4, v_stages=4), Configuration(k_stages=2, v_stages=3)] + [
        Configuration(bn=bn, k_stages=k, v_stages=k, whole=True) for bn, k in ((128, 3), (144, 3), (160, 2), (176, 2))] + [
        Configuration(k_stages=3, v_stages=3, whole=True, ping_pong=True),
        Configuration(bm=192, bn=96, consumers=3, k_stages=3, v_stages=3, whole=True)],
    128: [Configuration(k_stages=k, v_stages=v, ping_pong=turns)
          for k, v in ((2, 2), (2, 3), (3, 2)) for turns in (False, True)] + [
        Configuration(bn=bn, ahead=bn < 176, ping_pong=turns) for bn in (144, 160, 176) for turns in (False, True)],
    192: [Configuration(ahead=False, ping_pong=turns) for turns in (False, True)] + [
        Configuration(bn=64, k_stages=3, v_stages=3, ping_pong=turns) for turns in (False, True)] + [
        Configuration(bn=96), Configuration(bn=112, ahead=False)],
    256: [Configuration(bn=64, k_stages=k, v_stages=v, ahead=False, ping_pong=turns)
          for k, v in ((2, 2), (2, 3), (3, 2)) for turns in (False, True)] + [
        Configuration(bn=80, ahead=False, ping_pong=turns) for turns in (False, True)],
}
_ROWS = 16


def problem(shape: dict[str, int], dtype_name: str):
    """(q, k, v) of standard normal inputs."""
    dtype = getattr(torch, DTYPES[dtype_name])
    torch.manual_seed(0)
    return tuple(torch.randn(shape["batch"], shape[heads], shape["seq"], dim, device="cuda", dtype=dtype)
                 for heads, dim in (("heads", shape["dim"]), ("kv_heads", shape["dim"]), ("kv_heads", value_dim(shape["dim"]))))


def flash_attention():
    """FlashAttention's forward on (batch, heads, seq, dim) tensors, or None where it is not installed."""
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return None

    def run(q, k, v, causal):
        out = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return run


def baselines(q, k, v, causal: bool) -> dict:
    """Calls without arguments that compute the same, by name."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def cudnn():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    found = {"cuDNN": cudnn}
    if (flash := flash_attention()) is not None:
        # FlashAttention takes (batch, seq, heads, dim): give it that layout, contiguous.
        laid = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
        found["FlashAttention"] = lambda: flash(*laid, causal)
    return found


def launcher(q, k, v, o, lse, causal: bool, chosen: Configuration | None):
    """A call without arguments that computes o and lse, its descriptors made beforehand."""
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    grid, args, meta = attention.arguments(q, k, v, o, lse, counter, multiprocessors(), causal, None, chosen)
    launch = attention.kernel[grid]
    return lambda: launch(*args, **meta)


def reference(q, k, v, rows: torch.Tensor, causal: bool):
    """(o, lse) in fp64 for some rows of every head."""
    group = q.shape[1] // k.shape[1]
    o, lse = [], []
    for head in range(q.shape[1]):
        keys, values = k[:, head // group].double(), v[:, head // group].double()
        scores = q[:, head, rows].double() @ keys.mT / q.shape[-1]**0.5
        if causal:
            scores.masked_fill_(torch.arange(k.shape[2], device="cuda") > rows[:, None] + k.shape[2] - q.shape[2], float("-inf"))
        o.append(scores.softmax(-1) @ values)
        lse.append(scores.logsumexp(-1))
    return torch.stack(o, 1), torch.stack(lse, 1)


def check(q, k, v, o, lse, causal: bool) -> float:
    """||o - reference|| / ||reference|| on some rows of every head; an error if it is larger than 16-bit types allow."""
    rows = torch.randperm(q.shape[2], device="cuda")[:_ROWS].sort().values
    rows[0], rows[-1] = 0, q.shape[2] - 1
    wanted, wanted_lse = reference(q, k, v, rows, causal)
    error = ((o[:, :, rows].double() - wanted).norm() / wanted.norm()).item()
    lse_error = (lse[:, :, rows] - wanted_lse).abs().max().item()
    if not (error < 5e-3 and lse_error < 1e-3):
        raise AssertionError(f"wrong: error {error:.2e} of O (allowed 5e-3), {lse_error:.2e} of log-sum-exp (allowed 1e-3)")
    return error


def measure(shape: dict[str, int], dtype_name: str, causal: bool, chosen: Configuration | None = None,
            at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    q, k, v = problem(shape, dtype_name)
    o, lse = q.new_full((*q.shape[:3], v.shape[3]), float("nan")), torch.empty(q.shape[:3], device="cuda")
    run = launcher(q, k, v, o, lse, causal, chosen)
    run()
    torch.cuda.synchronize()
    error = check(q, k, v, o, lse, causal)
    times = alternate({"mimw": run, **baselines(q, k, v, causal)}, at_least_ms)
    used = chosen or attention.configuration(shape["dim"], causal, seq_q=shape["seq"])
    return row_of(f"attention-{dtype_name}-{'causal' if causal else 'full'}", shape, vars(used), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    shape = row.shape
    flops = 2 * shape["batch"] * shape["heads"] * shape["seq"]**2 * (shape["dim"] + value_dim(shape["dim"]))
    flops *= 0.5 if "causal" in row.name else 1
    flops *= 2.5 if "backward" in row.name else 1
    others = "  ".join(f"{name} {flops / time / 1e6:.0f} ratio {row.ratios()[name]:.3f}" for name, time in row.baselines.items())
    used = ", ".join(f"{name} {value}" for name, value in row.configuration.items())
    return (f"{row.name:<22} seq {shape['seq']:<6} dim {shape['dim']:<4} {row.microseconds:9.1f} us "
            f"{flops / row.microseconds / 1e6:6.0f} TFLOP/s  {others}  error {row.error:.1e}  {used}")


def one(case, dim: int, options, causal: bool, chosen) -> Row:
    """The row of a configuration: forward, backward or of packed sequences; `case` is a length, or a case of the last."""
    heads, kv_heads = options.heads, options.kv_heads or options.heads
    if options.varlen is not None and options.backward:
        return attention_varlen.measure_backward(case, heads, kv_heads, dim, options.dtype, causal, options.ms)
    if options.varlen is not None:
        return attention_varlen.measure(case, heads, kv_heads, dim, options.dtype, causal, chosen, options.ms)
    shape = dict(batch=options.batch, heads=heads, kv_heads=kv_heads, seq=case, dim=dim)
    if options.backward:
        dtype = getattr(torch, DTYPES[options.dtype])
        return attention_backward.measure(shape, options.dtype, dtype, causal, chosen, options.ms)
    return measure(shape, options.dtype, causal, chosen, options.ms)


def candidates_of(options, dim: int, causal: bool) -> list:
    """The configurations to try; the gradients of packed sequences have none."""
    if not options.tune or options.backward and options.varlen is not None:
        return [None]
    if options.varlen is not None:
        return attention_varlen.CANDIDATES[dim]
    return attention_backward.candidates(dim, causal) if options.backward else CANDIDATES[dim]


def main() -> None:
    parser = command(__doc__, tune=True, ms=200.0, jobs=True)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--dims", "--dim", type=int, nargs="*", choices=CANDIDATES, default=[128])
    parser.add_argument("--seq", type=int, nargs="*", default=SEQS)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--heads", type=int, default=48)
    parser.add_argument("--kv-heads", type=int)
    parser.add_argument("--mask", choices=["full", "causal", "both"], default="both")
    parser.add_argument("--backward", action="store_true", help="the gradients of q, k and v")
    parser.add_argument("--varlen", nargs="*", choices=attention_varlen.CASES, help="packed sequences: all cases, or these")
    options = parsed(parser)
    if options.backward and options.varlen is None and not set(options.dims) <= set(attention_backward.CANDIDATES):
        parser.error(f"--backward takes the head dims {', '.join(map(str, attention_backward.CANDIDATES))}")
    ratios: dict[str, list[float]] = {}
    masks = {"full": [False], "causal": [True], "both": [False, True]}[options.mask]
    cases = (options.varlen or attention_varlen.CASES) if options.varlen is not None else options.seq
    every = list(product(options.dims, masks, cases))
    compiled_before(options.jobs, one, [(case, dim, options, causal, chosen) for dim, causal, case in every
                                        for chosen in candidates_of(options, dim, causal)])
    for dim, causal, case in each(every, lambda it: f"{it[0]} {'causal' if it[1] else 'full'} {it[2]}"):
        rows = []
        for row in tried(f"{case}", candidates_of(options, dim, causal), lambda chosen: one(case, dim, options, causal, chosen),
                         go_on=False):
            rows.append(row)
            keep(row, options.results / f"{row.name.rpartition('-')[0]}.jsonl")
            print(line(row) if options.varlen is None else attention_varlen.line(row), flush=True)
        fastest = min(rows, key=lambda row: row.microseconds)
        for name, ratio in fastest.ratios().items():
            ratios.setdefault(name, []).append(ratio)
    for name, found in ratios.items():
        print(summary(found, name))


if __name__ == "__main__":
    main()
