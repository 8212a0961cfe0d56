"""The gradients of attention against cuDNN, and FlashAttention where it is installed, on one GPU.

    python -m benchmarks.attention --backward                        batch 4, 48 heads, head dim 128, seq 1024 to 16384, bf16
    python -m benchmarks.attention --backward --kv-heads 8           grouped queries; the other options as without --backward
    python -m benchmarks.attention --backward --dims 192 256         wide heads: mimw.kernels.wide_attention_backward
    python -m benchmarks.attention --backward --tune --mask causal   rings, and both orders of programs

Input: a shape. Output: rows like those of attention.py. Ours is three launches, all of which are timed; the baselines' time is that
of `torch.autograd.grad` on a graph that stays. Ours and the baselines alternate with a cold L2; every timed result is checked
against fp64 on one head of keys. A pass backward counts 2.5 times the operations of one forward, causal half of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mimw import ops
from mimw.kernels import attention_backward, wide_attention_backward
from mimw.kernels.attention.configs import value_dim
from mimw.kernels.attention_backward import Configuration
from mimw.kernels.attention_backward.order import ORDERS
from mimw.testing.benchmark import Row, alternate

from .gpu import row_of, torch

CANDIDATES = {
    64: [Configuration(bm=bm, q_stages=q) for bm, q in ((64, 2), (64, 3), (128, 2))],
    128: [Configuration(q_stages=q, do_stages=do) for q, do in ((2, 2), (3, 2), (2, 3))],
    192: [], 256: [],
}
ALLOWED = {"bf16": 1e-2, "fp16": 2e-3}  # of ||x - reference|| / ||reference||


def flash_attention() -> Callable | None:
    """FlashAttention on (batch, heads, seq, dim) tensors, differentiable, or None where it is not installed."""
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return None

    def run(q, k, v, causal):
        out = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return run


def baselines(q, k, v, do, causal: bool) -> dict[str, Callable]:
    """Calls without arguments that compute the same gradients, by name. Their forward passes have run."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def gradients(forward, tensors, slope):
        leaves = [x.detach().requires_grad_() for x in tensors]
        out = forward(*leaves)
        return lambda: torch.autograd.grad(out, leaves, slope, retain_graph=True)

    def cudnn(*tensors):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    def flash_2(*tensors):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    makers = {"cuDNN": lambda: gradients(cudnn, (q, k, v), do)}
    if q.shape[3] > 128:        # torch's FlashAttention-2, where cuDNN may take no such heads
        makers["torch flash"] = lambda: gradients(flash_2, (q, k, v), do)
    if (flash := flash_attention()) is not None:
        laid = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v, do)]  # FlashAttention takes heads last but one
        makers["FlashAttention"] = lambda: gradients(lambda *tensors: flash(*tensors, causal), laid[:3], laid[3])
    return {name: call for name, maker in makers.items() if (call := made(name, maker)) is not None}


def made(name: str, maker: Callable) -> Callable | None:
    """What `maker` makes and runs, or None where a baseline does not take the problem: what it says is printed."""
    try:
        call = maker()
        call()
        torch.cuda.synchronize()
    except (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError) as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
        return None
    return call


def candidates(dim: int, causal: bool) -> list[Configuration]:
    """What --tune tries: the rings, and under a causal mask the orders of programs with the rings that are used. Wide heads have
    a choice of the order only."""
    used = Configuration() if dim > 128 else attention_backward.configuration(dim, causal)
    orders = [replace(used, order=order) for order in (ORDERS if causal else ORDERS[:1])]
    return [*orders, *(one for one in CANDIDATES[dim] if one not in orders)]


def launcher(q, k, v, o, lse, do, gradients, causal: bool, chosen: Configuration | None) -> Callable[[], None]:
    """A call without arguments that computes the gradients, its descriptors and workspace made beforehand."""
    if q.shape[3] > 128:
        rows, room = torch.empty(wide_attention_backward.workspace(q), device="cuda"), wide_attention_backward.sums_of(q, v)
        sums, order = None if room is None else torch.empty(room, device="cuda"), (chosen or Configuration()).order
        found = wide_attention_backward.launches(q, k, v, o, lse, do, *gradients, rows, causal, order=order, sums=sums)
    else:
        work = [torch.empty(shape, device="cuda") for shape in attention_backward.workspace(q, chosen, causal)]
        found = attention_backward.launches(q, k, v, o, lse, do, *gradients, *work, causal, None, chosen)
    launches = [(kernel[grid], args, meta) for kernel, grid, args, meta in found]

    def run():
        for launch, args, meta in launches:
            launch(*args, **meta)

    return run


def reference(q, k, v, do, causal: bool):
    """(dq, dk, dv) in fp64 of one head of keys, and the query heads that share it: (heads, seq, dim) and (seq, dim)."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    for head in range(q.shape[0]):
        scores = q[head] @ k.mT / q.shape[-1]**0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1 + k.shape[0] - q.shape[1]), float("-inf"))
        (scores.softmax(-1) @ v).backward(do[head].double())
    return q.grad, k.grad, v.grad


def check(q, k, v, do, gradients, causal: bool, allowed: float) -> float:
    """The largest ||x - reference|| / ||reference|| of the gradients of the last head of keys, in the last batch."""
    group = q.shape[1] // k.shape[1]
    wanted = reference(q[-1, -group:], k[-1, -1], v[-1, -1], do[-1, -group:], causal)
    found = gradients[0][-1, -group:], gradients[1][-1, -1], gradients[2][-1, -1]
    errors = [((x.double() - one).norm() / one.norm()).item() for x, one in zip(found, wanted)]
    if not all(error < allowed for error in errors) or not all(bool(x.isfinite().all()) for x in gradients):
        raise AssertionError(f"wrong: errors {', '.join(f'{error:.2e}' for error in errors)} of dQ, dK and dV (allowed {allowed})")
    return max(errors)


def measure(shape: dict[str, int], dtype_name: str, dtype, causal: bool, chosen: Configuration | None = None,
            at_least_ms: float = 200.0) -> Row:
    """One row, checked."""
    torch.manual_seed(0)
    q, k, v, do = (torch.randn(shape["batch"], shape[heads], shape["seq"], dim, device="cuda", dtype=dtype) for heads, dim in
                   (("heads", shape["dim"]), ("kv_heads", shape["dim"]), ("kv_heads", value_dim(shape["dim"])),
                    ("heads", value_dim(shape["dim"]))))
    o, lse = ops.attention(q, k, v, causal=causal, return_lse=True)
    gradients = [torch.full_like(x, float("nan")) for x in (q, k, v)]
    run = launcher(q, k, v, o, lse, do, gradients, causal, chosen)
    run()
    torch.cuda.synchronize()
    error = check(q, k, v, do, gradients, causal, ALLOWED[dtype_name])
    times = alternate({"mimw": run, **baselines(q, k, v, do, causal)}, at_least_ms)
    used = vars(chosen or (Configuration() if shape["dim"] > 128 else attention_backward.configuration(shape["dim"], causal)))
    used = {"order": used["order"]} if shape["dim"] > 128 else used
    return row_of(f"attention-backward-{dtype_name}-{'causal' if causal else 'full'}", shape, used, times, error,
                  "standard normal")
