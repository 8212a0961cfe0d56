"""`mimw.ops.simplicial_attention`: 2-simplicial attention (Roy et al. 2025, "Fast and Simplex"), on the library's kernels.

Input: queries, and two kinds of keys and values. Output: o, and, if asked for, the logarithms of the softmax's denominators:

    o = simplicial_attention(q, k, v, k2, v2)                               windows of 512 keys and 32 second keys
    o, lse = simplicial_attention(q, k, v, k2, v2, windows=(256, 16), return_lse=True)
    torch.ops.mimw.simplicial_attention(q, k, v, k2, v2, 512, 32)           the operator itself: (o, lse)
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from mimw.kernels import plain_simplicial_attention
from mimw.kernels import simplicial_attention as hopper
from mimw.kernels.simplicial_attention import HEAD_DIMS, HEADS

from .launching import Launch, is_exact, is_hopper, programs
from .operator import LOWER, Operator
from .plans import Plans, look
from .simplicial_attention_backward import SIMPLICIAL_ATTENTION_BACKWARD, tma_reads

TYPES = (torch.bfloat16, torch.float16, torch.float32)


def simplicial_attention(q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, windows: tuple[int, int] = (512, 32),
                         scale: float | None = None, return_lse: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """o[i] = sum over j, k of p[i, j, k] v[j] v2[k], with p the softmax over all pairs of scale sum_d q[i, d] k[j, d] k2[k, d].

    args:      q           (batch, heads, seq_q, dim): bf16, fp16 or fp32, any strides, any extents, also 0
               k, v, k2, v2   (batch, kv_heads, seq_k, dim) of q's type, seq_k >= seq_q; kv_heads divides heads, and head h reads
                           kv head h * kv_heads // heads
               windows     (keys, second keys), 1 or more: query i, at position p = i + seq_k - seq_q, sees p - keys < j <= p and
                           p - second keys < k <= p
               scale       of the logits, by default 1 / sqrt(dim)
               return_lse  also the natural logarithms of the softmax's denominators
    returns:   o like q, contiguous; with lse, fp32 (batch, heads, seq_q)
    computed:  with fp32 logits and sums; the products q k2 are rounded to q's type. On sm_90 by `mimw.kernels.simplicial_attention`
               for bf16 and fp16, where the heads are 64 or 128 wide, a multiple of 64 of them shares keys, and TMA can read the
               tensors; else by `mimw.kernels.plain_simplicial_attention`. fp32 obeys torch.get_float32_matmul_precision()
    gradients  of all five, from those of o and lse: on sm_90 that of q by `mimw.kernels.simplicial_attention_backward`, else by
               `mimw.kernels.plain_simplicial_attention`; no second derivative
    errors:    RuntimeError where shapes, windows, types or devices do not fit; NotImplementedError for other types
    """
    o, lse = SIMPLICIAL_ATTENTION(q, k, v, k2, v2, *windows, scale)
    return (o, lse) if return_lse else o


def _checked(q: Tensor, others: dict[str, Tensor], window: int, window2: int) -> None:
    for name, x in {"q": q, **others}.items():
        if x.dim() != 4:
            raise RuntimeError(f"simplicial_attention: {name} has {x.dim()} dimensions; it must be (batch, heads, length, dim)")
        if x.device != q.device:
            raise RuntimeError(f"simplicial_attention: q is on {q.device} and {name} on {x.device}; all must be on one device")
        if x.dtype != q.dtype:
            raise RuntimeError(f"simplicial_attention: q is {q.dtype} and {name} {x.dtype}; all must be of one type")
    if q.dtype not in TYPES:
        raise NotImplementedError(f"simplicial_attention: q is {q.dtype}; it may be {', '.join(map(str, TYPES))}")
    if window < 1 or window2 < 1:
        raise RuntimeError(f"simplicial_attention: the windows are {window} and {window2}; 1 or more, as a query sees itself")
    (batch, heads, seq_q, dim), kv_heads, seq_k = q.shape, *others["k"].shape[1:3]
    torch._check(dim > 0, lambda: f"simplicial_attention: q is {_by(q)}; heads of width 0 have no logits")
    torch._check(heads == kv_heads or kv_heads > 0 and heads % kv_heads == 0,
                 lambda: f"simplicial_attention: q has {heads} heads and k {kv_heads}, which must divide them")
    for name, x in others.items():
        fits = x.shape[0] == batch and x.shape[1] == kv_heads and x.shape[2] == seq_k and x.shape[3] == dim
        torch._check(bool(fits), lambda name=name, x=x: f"simplicial_attention: {name} is {_by(x)}; for q {_by(q)} and "
                     f"k {_by(others['k'])} it must be {batch} x {kv_heads} x {seq_k} x {dim}")
    torch._check(seq_k >= seq_q, lambda: f"simplicial_attention: {seq_q} queries on {seq_k} keys; the last query is at the last "
                 "key, and the first would see none")


def _by(x: Tensor) -> str:
    return " x ".join(map(str, x.shape))


def _fake(q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, window: int = 512, window2: int = 32,
          scale: float | None = None) -> tuple[Tensor, Tensor]:
    _checked(q, dict(k=k, v=v, k2=k2, v2=v2), window, window2)
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


def _run(q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, window: int = 512, window2: int = 32,
         scale: float | None = None) -> tuple[Tensor, Tensor]:
    options = window, window2, scale, is_exact(q)
    key = *map(look, (q, k, v, k2, v2)), options
    return (_PLANS[key] or _PLANS.made(key, q, k, v, k2, v2, *options))(q, k, v, k2, v2)


def _plan(q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, window: int, window2: int, scale: float | None,
          exact: bool) -> Callable[..., tuple[Tensor, Tensor]]:
    given = q, k, v, k2, v2
    o, lse = _fake(*given, window, window2, scale)
    if q.numel() == 0:
        return lambda *given: _fake(*given, window, window2, scale)
    shape, rows = o.shape, lse.shape
    windows, scale = (min(window, k.shape[2]), min(window2, k.shape[2])), 1 / sqrt(q.shape[3]) if scale is None else scale
    fast = (is_hopper(q) and q.dtype is not torch.float32 and q.shape[3] in HEAD_DIMS and scale > 0
            and q.shape[1] // k.shape[1] % HEADS == 0 and all(map(tma_reads, given)))
    if fast:
        kernel, (grid, args, meta) = hopper.kernel, hopper.arguments(*given, o, lse, programs(q), windows, scale)
    else:
        kernel, (grid, args, meta) = plain_simplicial_attention.kernel, plain_simplicial_attention.arguments(
            *given, o, lse, windows, scale, exact)
    launch = Launch(q, kernel, grid, args, meta)

    def plan(q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = q.new_empty(shape), q.new_empty(rows, dtype=torch.float32)
        launch(*((q, k, v, o, k2, v2) if fast else (q, k, v, k2, v2, o)), lse)
        return o, lse

    return plan


_PLANS = Plans(_plan)


def _save(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:5], *output)
    ctx.options, ctx.count = inputs[5:], len(inputs)
    ctx.set_materialize_grads(False)


def _gradients(ctx, do: Tensor | None, dlse: Tensor | None) -> tuple:
    *given, o, lse = ctx.saved_tensors
    if do is None and dlse is None:
        return (None, ) * ctx.count
    do = torch.zeros_like(o) if do is None else do
    return *SIMPLICIAL_ATTENTION_BACKWARD(do, *given, o, lse, dlse, *ctx.options), *[None] * (ctx.count - 5)


SIMPLICIAL_ATTENTION = Operator(
    "simplicial_attention(Tensor q, Tensor k, Tensor v, Tensor k2, Tensor v2, int window=512, int window2=32, float? scale=None) "
    "-> (Tensor, Tensor)", _run, _fake, _save, _gradients, autocast=LOWER)
