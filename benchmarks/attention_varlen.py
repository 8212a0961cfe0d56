"""Attention on packed sequences against torch's varlen attention, FlashAttention where it is installed, and cuDNN where all lengths
are equal: `python -m benchmarks.attention --varlen`.

Input: a case, lengths of queries and keys. Output: rows of times, every result checked against fp64 on some rows of some sequences:

    measure("mixed", 48, 48, 128, "bf16", True)     Row("attention_varlen-bf16-causal", {"case": "mixed", ...}, ...)
    work([100, 20], [100, 30], True)                pairs of query and key that the mask lets through
"""

from __future__ import annotations

import inspect

import numpy as np

from mimw.kernels import attention_varlen
from mimw.kernels.attention.configs import value_dim
from mimw.kernels.attention_varlen import Configuration
from mimw.testing.benchmark import Row, alternate

from .gpu import multiprocessors, row_of, torch

CANDIDATES = {
    64: [Configuration(k_stages=k, v_stages=k, q_stages=q) for k, q in ((4, 2), (4, 3), (3, 4))],
    96: [Configuration(k_stages=3, v_stages=3, q_stages=q) for q in (2, 3)],
    128: [Configuration(v_stages=3), Configuration(q_stages=3), Configuration(bn=64, k_stages=4, v_stages=4, q_stages=3),
          Configuration(v_stages=3, ahead=False)],
    192: [Configuration(ahead=False), Configuration(bn=64, k_stages=3, v_stages=3)],
    256: [Configuration(bn=64, ahead=False)],
}
CHECKED = 6     # sequences of a case, and rows of each
DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def lengths(case: str) -> tuple[list[int], list[int]]:
    """Queries and keys of each sequence of a case."""
    random = np.random.default_rng(0)
    if case == "equal":                 # 8 of 4096: what a dense kernel takes, too
        return [4096] * 8, [4096] * 8
    if case == "mixed":                 # documents packed for training: 128 to 8192, each octave as likely as the others
        found = np.exp2(random.uniform(7, 13, 32)).astype(int).tolist()
        return found, found
    if case == "short":                 # 1000 requests of 1 to 256
        found = random.integers(1, 257, 1000).tolist()
        return found, found
    if case == "chunks":                # prefill in chunks: up to 512 new tokens behind up to 8192 known ones
        found = random.integers(1, 513, 64)
        return found.tolist(), (found + random.integers(0, 8193, 64)).tolist()
    raise ValueError(f"no case {case!r}; there are {', '.join(CASES)}")


CASES = ("equal", "mixed", "short", "chunks")


def work(q_lengths, k_lengths, causal: bool) -> int:
    """Pairs of a query and a key that it sees."""
    if not causal:
        return sum(q * k for q, k in zip(q_lengths, k_lengths))
    return sum(int(np.maximum(0, np.arange(k - q + 1, k + 1)).sum()) for q, k in zip(q_lengths, k_lengths))


def baselines(q, k, v, cu_q, cu_k, max_q: int, max_k: int, causal: bool) -> dict:
    """Calls without arguments that compute the same, by name; only those that this machine has."""
    found = {}
    grouped = q.shape[1] != k.shape[1]
    try:
        from torch.nn.attention.varlen import varlen_attn
        known = inspect.signature(varlen_attn).parameters
        options = {"is_causal": causal} if "is_causal" in known else {"window_size": (-1, 0) if causal else (-1, -1)}
        options |= {"enable_gqa": True} if grouped and "enable_gqa" in known else {}
        found["torch varlen"] = lambda: varlen_attn(q, k, v, cu_q, cu_k, max_q, max_k, **options)
    except ImportError:
        pass
    try:
        from flash_attn.cute import flash_attn_varlen_func
        found["FlashAttention"] = lambda: flash_attn_varlen_func(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, causal=causal)
    except ImportError:
        pass
    if len(set(cu_q.diff().tolist())) == 1 and torch.equal(cu_q, cu_k):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention
        dense = [x.unflatten(0, (-1, max_q)).transpose(1, 2) for x in (q, k, v)]

        def cudnn():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return scaled_dot_product_attention(*dense, is_causal=causal, enable_gqa=grouped)

        found["cuDNN, dense"] = cudnn
    return {name: call for name, call in found.items() if runs(name, call)}


def runs(name: str, call) -> bool:
    """Whether a baseline takes this problem; what it says if not is printed."""
    try:
        call()
        torch.cuda.synchronize()
    except (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError) as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
        return False
    return True


def check(q, k, v, o, lse, cu_q, cu_k, causal: bool) -> float:
    """||o - reference|| / ||reference|| on some rows of some sequences; an error if it is larger than 16-bit types allow."""
    starts, key_starts = cu_q.tolist(), cu_k.tolist()
    group = q.shape[1] // k.shape[1]
    off, size, lse_error = 0.0, 0.0, 0.0
    for one in np.linspace(0, len(starts) - 2, CHECKED).astype(int):
        rows = torch.linspace(starts[one], starts[one + 1] - 1, CHECKED, device="cuda").long()
        keys, values = (x[key_starts[one]:key_starts[one + 1]].double().repeat_interleave(group, 1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[rows].double(), keys) / q.shape[2]**0.5
        if causal:
            last = rows - starts[one + 1] + len(keys)
            scores.masked_fill_(torch.arange(len(keys), device="cuda") > last[:, None], float("-inf"))
        wanted = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)
        off += (o[rows].double() - wanted).square().sum().item()
        size += wanted.square().sum().item()
        lse_error = max(lse_error, (lse[:, rows] - scores.logsumexp(-1)).abs().max().item())
    error = (off / size)**0.5
    if not (error < 5e-3 and lse_error < 1e-3):
        raise AssertionError(f"wrong: error {error:.2e} of O (allowed 5e-3), {lse_error:.2e} of log-sum-exp (allowed 1e-3)")
    return error


def check_gradients(q, k, v, do, found, cu_q, cu_k, causal: bool) -> float:
    """The largest relative error of the gradients of the first kv head, against fp64, of the shortest sequence that is long enough:
    on one key dQ and dK are 0."""
    lengths_q, lengths_k = cu_q.diff(), cu_k.diff()
    one = torch.where((lengths_q > 40) & (lengths_k >= lengths_q), lengths_q * lengths_k, 1 << 30).argmin().item()
    of_q, of_k = (slice(*starts[one:one + 2].tolist()) for starts in (cu_q, cu_k))
    parts = (of_q, slice(0, q.shape[1] // k.shape[1])), (of_k, slice(0, 1)), (of_k, slice(0, 1))
    leaves = [x.detach()[part].double().requires_grad_() for x, part in zip((q, k, v), parts)]
    scores = torch.einsum("qhd,kd->hqk", leaves[0], leaves[1][:, 0]) / q.shape[2]**0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0], dtype=torch.bool).triu(scores.shape[2] - scores.shape[1] + 1),
                                    float("-inf"))
    o = torch.einsum("hqk,kd->qhd", scores.softmax(-1), leaves[2][:, 0])
    wanted = torch.autograd.grad(o, leaves, do[parts[0]].double())
    error = max(((one[part].double() - other).norm() / other.norm()).item() for one, part, other in zip(found, parts, wanted))
    if not error < 1e-2:
        raise AssertionError(f"wrong: error {error:.2e} of a gradient (allowed 1e-2)")
    return error


def measure_backward(case: str, heads: int, kv_heads: int, dim: int, dtype_name: str, causal: bool,
                     at_least_ms: float = 200.0) -> Row:
    """One row of the gradients of q, k and v through the operator, checked."""
    from mimw import ops
    q, k, v, cu_q, cu_k, longest = problem(case, heads, kv_heads, dim, dtype_name)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    o = ops.attention_varlen(q, k, v, cu_q, cu_k, *longest, causal=causal)
    do = torch.randn_like(o)
    others = {name: call() for name, call in baselines(q, k, v, cu_q, cu_k, *longest, causal).items()}
    others = {name: x[0] if isinstance(x, tuple) else x for name, x in others.items()}
    if "cuDNN, dense" in others:
        others["mimw, dense"] = ops.attention(*(x.unflatten(0, (-1, longest[0])).transpose(1, 2) for x in leaves), causal=causal)

    def graded(out):
        like = do if out.dim() == 3 else do.unflatten(0, (-1, longest[0])).transpose(1, 2)
        return lambda: torch.autograd.grad(out, leaves, like, retain_graph=True)

    runs_ = {"mimw": graded(o), **{name: graded(out) for name, out in others.items() if out.requires_grad}}
    error = check_gradients(q, k, v, do, runs_["mimw"](), cu_q, cu_k, causal)
    times = alternate(runs_, at_least_ms)
    return row_of(f"attention_varlen_backward-{dtype_name}-{'causal' if causal else 'full'}",
                  shape_of(case, heads, kv_heads, dim, causal), {}, times, error, "standard normal")


def problem(case: str, heads: int, kv_heads: int, dim: int, dtype_name: str) -> tuple:
    """(q, k, v, cu_q, cu_k, (longest queries, longest keys)), standard normal."""
    torch.manual_seed(0)
    of_q, of_k = lengths(case)
    dtype = getattr(torch, DTYPES[dtype_name])
    q, k, v = (torch.randn(sum(rows), count, width, device="cuda", dtype=dtype) for rows, count, width in
               ((of_q, heads, dim), (of_k, kv_heads, dim), (of_k, kv_heads, value_dim(dim))))
    cu_q, cu_k = (torch.tensor(np.cumsum([0, *rows]), device="cuda", dtype=torch.int32) for rows in (of_q, of_k))
    return q, k, v, cu_q, cu_k, (max(of_q), max(of_k))


def shape_of(case: str, heads: int, kv_heads: int, dim: int, causal: bool) -> dict:
    """What a row says of its problem."""
    of_q, of_k = lengths(case)
    return dict(case=case, sequences=len(of_q), queries=sum(of_q), keys=sum(of_k), heads=heads, kv_heads=kv_heads, dim=dim,
                pairs=work(of_q, of_k, causal))


def measure(case: str, heads: int, kv_heads: int, dim: int, dtype_name: str, causal: bool, chosen=None,
            at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    q, k, v, cu_q, cu_k, longest = problem(case, heads, kv_heads, dim, dtype_name)
    o, lse = torch.full_like(q[..., :value_dim(dim)], float("nan")).contiguous(), torch.empty(heads, len(q), device="cuda")
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    grid, args, meta = attention_varlen.arguments(q, k, v, o, lse, cu_q, cu_k, counter, multiprocessors(), *longest,
                                                  causal, chosen=chosen)
    launch = attention_varlen.kernel[grid]
    launch(*args, **meta)
    torch.cuda.synchronize()
    error = check(q, k, v, o, lse, cu_q, cu_k, causal)
    times = alternate({"mimw": lambda: launch(*args, **meta), **baselines(q, k, v, cu_q, cu_k, *longest, causal)}, at_least_ms)
    used = chosen or attention_varlen.configuration(dim, causal, False, longest[0])
    return row_of(f"attention_varlen-{dtype_name}-{'causal' if causal else 'full'}", shape_of(case, heads, kv_heads, dim, causal),
                  vars(used), times, error, "standard normal")


def line(row: Row) -> str:
    """A row for people."""
    shape = row.shape
    flops = 2 * shape["pairs"] * shape["heads"] * (shape["dim"] + value_dim(shape["dim"])) * (2.5 if "backward" in row.name else 1)
    others = "  ".join(f"{name} {flops / time / 1e6:.0f} ratio {row.ratios()[name]:.3f}" for name, time in row.baselines.items())
    return (f"{row.name:<28} {shape['case']:<7} {shape['sequences']:>4} sequences, {shape['queries']} on {shape['keys']}, dim "
            f"{shape['dim']:<4} {row.microseconds:9.1f} us {flops / row.microseconds / 1e6:6.0f} TFLOP/s  {others}  error "
            f"{row.error:.1e}")
