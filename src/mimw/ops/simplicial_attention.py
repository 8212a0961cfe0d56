"""`mimw.ops.simplicial_attention`: 2-simplicial attention (Roy et al. 2025, "Fast and Simplex"), on the library's kernels.

Input: queries, and two kinds of keys and values. Output: o, and, if asked for, the logarithms of the softmax's denominators:

    o = simplicial_attention(q, k, v, k2, v2)                               windows of 512 keys and 32 second keys
    o, lse = simplicial_attention(q, k, v, k2, v2, windows=(256, 16), return_lse=True)
    torch.ops.mimw.simplicial_attention(q, k, v, k2, v2, 512, 32)           the operator itself: (o, lse)
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from torch import Tensor

from mimw.kernels import plain_simplicial_attention as plain
from mimw.kernels import simplicial_attention as hopper
from mimw.kernels.attention.changes import HEADS as HEADS_FIT
from mimw.kernels.simplicial_attention import HEAD_DIMS, HEADS

from .attention_gradients import gradient_of_o, saved
from .contract import Contract, Extents
from .launching import Launch, is_exact, programs
from .notes import UNREADABLE, another_chip, in_fp32, takes
from .operator import LOWER, Operator
from .planned import Planned
from .simplicial_attention_backward import SIMPLICIAL_ATTENTION_BACKWARD
from .tma import every_step_for_tma

CONTRACT = Contract("simplicial_attention", "q: float (batch, heads, seq_q, dim)",
                    *(f"{name}: =q (batch, kv_heads, seq_k, dim)" for name in ("k", "v", "k2", "v2")), HEADS_FIT,
                    "dim > 0 -- heads of width 0 have no logits",
                    "seq_k >= seq_q -- the last query is at the last key, and the first would see none",
                    "window >= 1 and window2 >= 1 -- windows are 1 or more, as a query sees itself",
                    "-> o: =q (batch, heads, seq_q, dim)", "-> lse: fp32 (batch, heads, seq_q)",
                    flops="5 * batch * heads * seq_q * min(window, seq_k) * min(window2, seq_k) * dim")


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


def _plan(of: Extents, q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, window: int, window2: int,
          scale: float | None, exact: bool) -> Callable[..., tuple[Tensor, Tensor]]:
    given, (o, lse) = (q, k, v, k2, v2), of.empty(q)
    if q.numel() == 0:
        return lambda q, *_: of.empty(q)
    windows, scale = (min(window, k.shape[2]), min(window2, k.shape[2])), 1 / sqrt(q.shape[3]) if scale is None else scale
    fast = takes("simplicial_attention", another_chip(q), in_fp32(q), not scale > 0 and "the scale is not more than 0",
                 q.shape[3] not in HEAD_DIMS and f"heads are {q.shape[3]} wide; it takes {HEAD_DIMS}",
                 q.shape[1] // k.shape[1] % HEADS != 0 and f"groups are no multiple of {HEADS} heads",
                 not all(map(every_step_for_tma, given)) and UNREADABLE)
    if fast:
        launch = Launch(q, hopper.kernel, *hopper.arguments(*given, o, lse, programs(q), windows, scale))
    else:
        launch = Launch(q, plain.kernel, *plain.arguments(*given, o, lse, windows, scale, exact))

    def plan(q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = of.empty(q)
        launch(*((q, k, v, o, k2, v2) if fast else (q, k, v, k2, v2, o)), lse)
        return o, lse

    return plan


@gradient_of_o
def _gradients(ctx, do: Tensor, dlse: Tensor | None) -> tuple:
    return SIMPLICIAL_ATTENTION_BACKWARD(do, *ctx.saved_tensors, dlse, *ctx.options)


SIMPLICIAL_ATTENTION = Operator(
    "simplicial_attention(Tensor q, Tensor k, Tensor v, Tensor k2, Tensor v2, int window=512, int window2=32, float? scale=None) "
    "-> (Tensor, Tensor)", Planned(_plan, is_exact), CONTRACT, saved(5), _gradients, autocast=LOWER)
