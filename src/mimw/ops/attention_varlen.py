"""`mimw.ops.attention_varlen`: attention on sequences packed one behind the other, whose lengths only the device knows.

Input: queries, keys and values of all sequences, and where these begin. Output: o = softmax(scale q k^T) v in each sequence, and
if asked for the logarithms of the denominators:

    o = attention_varlen(q, k, v, cu_seqlens, cu_seqlens, 500, 500, causal=True)        q (total, heads, dim), cu_seqlens int32
    o, lse = attention_varlen(q, k, v, cu_q, cu_k, 1, 900, return_lse=True)             lse (heads, total)
    torch.ops.mimw.attention_varlen(q, k, v, cu_q, cu_k, None, None, 500, 500, True)    the operator itself: (o, lse)
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from torch import Tensor

from mimw.kernels import attention_varlen as hopper
from mimw.kernels import plain_attention
from mimw.kernels.attention.changes import BOUNDS, SOFTCAP

from .attention_gradients import gradient_of_o, saved
from .attention_varlen_backward import ATTENTION_VARLEN_BACKWARD, rounded
from .contract import Contract, Extents
from .heads_by_tma import by_tma
from .launching import Launch, is_exact, programs
from .notes import another_chip, in_fp32, takes
from .operator import LOWER, Operator
from .planned import Planned

WORTH_A_COPY = 1 << 34  # products from which copying q, k and v for TMA costs less than the plain kernel's slower products
CONTRACT = Contract(
    "attention_varlen", "q: float (total_q, heads, dim)", "k: =q (total_k, kv_heads, dim)", "v: =q (total_k, kv_heads, value_dim)",
    "cu_seqlens_q: i32 (sequences + 1)", "cu_seqlens_k: i32 (sequences + 1)", "sinks?: float (heads)",
    "alibi_slopes?: float (heads) or (sequences, heads)", "dim > 0 and value_dim > 0 -- heads of width 0 have no scores",
    "heads == kv_heads or kv_heads > 0 and heads % kv_heads == 0 -- the heads of k and v must divide those of q",
    "sequences >= 0 -- cu_seqlens_q and cu_seqlens_k have one number more than there are sequences",
    "max_seqlen_q >= 0 -- lengths are 0 or more", "max_seqlen_k >= 0 -- lengths are 0 or more", *BOUNDS, SOFTCAP,
    "-> o: =q (total_q, heads, value_dim)", "-> lse: fp32 (heads, total_q)")


def attention_varlen(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int,
                     max_seqlen_k: int, *, causal: bool = False, scale: float | None = None,
                     window: int | tuple[int | None, int | None] = (None, None), softcap: float | None = None,
                     sinks: Tensor | None = None, alibi_slopes: Tensor | None = None,
                     return_lse: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v in each of the packed sequences, with fp32 scores and sums; the host waits for nothing.

    args:      q           (total_q, heads, dim): bf16, fp16 or fp32, any strides
               k, v        (total_k, kv_heads, dim) and (total_k, kv_heads, value_dim) of q's type, any strides; kv_heads divides
                           heads, and head h reads kv head h * kv_heads // heads
               cu_seqlens_q, cu_seqlens_k   (sequences + 1) int32, ascending from 0 on: sequence s has the rows from cu_seqlens[s]
                           up to cu_seqlens[s + 1], of queries and of keys, and may have none of either. Their values are not
                           checked: that would wait for the device
               max_seqlen_q, max_seqlen_k   no sequence is longer: queries behind max_seqlen_q may stay uncomputed
               causal      query i of a sequence sees its keys up to i + length_k - length_q, so that the last query sees all
               scale       of the scores, by default 1 / sqrt(dim)
               window, softcap, sinks   as `mimw.ops.attention` has them, in each sequence
               alibi_slopes   (heads) or (sequences, heads)
               return_lse  also the natural logarithms of the softmax's denominators
    returns:   o, (total_q, heads, value_dim) of q's type, contiguous; with lse, fp32 (heads, total_q). A query that sees no key
               gets o = 0 and lse = -inf, or the head's sink. Rows in no sequence, behind cu_seqlens_q[-1], are not written: they
               hold anything. The bits are the same in every run
    computed:  on sm_90 in one launch of `mimw.kernels.attention_varlen` for bf16 and fp16, where heads are as wide as it takes and
               TMA can read them or copies are worth making; else by `mimw.kernels.plain_attention`
    gradients  of q, k, v and sinks, from those of o and lse, by `mimw.kernels.attention_varlen_backward` for bf16 and fp16 on sm_90
               with heads of up to 128, else, and for the same bits in every run under torch.use_deterministic_algorithms, by
               `mimw.kernels.plain_attention_backward`; 0 for rows in no sequence; none of alibi_slopes; no second derivative
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types
    """
    left, right = (window, window) if isinstance(window, int) else window
    o, lse = ATTENTION_VARLEN(q, k, v, cu_seqlens_q, cu_seqlens_k, sinks, alibi_slopes, max_seqlen_q, max_seqlen_k, causal, scale,
                              left, right, softcap)
    return (o, lse) if return_lse else o


def _plan(*given) -> Callable:
    plan = _plan_of_kernels(*given)
    return lambda q, k, v, cu_q, cu_k, *more: plan(q, k, v, cu_q.contiguous(), cu_k.contiguous(),
                                                   *(x.float().contiguous() for x in more if x is not None))


def _plan_of_kernels(
        of: Extents, q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, sinks: Tensor | None, slopes: Tensor | None,
        max_q: int, max_k: int, causal: bool, scale: float | None, left: int | None, right: int | None, softcap: float | None,
        exact: bool) -> Callable:
    longest, window = (max_q, max_k), (left, right)
    if 0 in q.shape[:2] or cu_q.shape[0] == 1 or max_q == 0:
        return lambda q, *_: of.empty(q)
    scale = 1 / sqrt(q.shape[2]) if scale is None else scale
    cu_q, cu_k = cu_q.contiguous(), cu_k.contiguous()
    changes = dict(window=window, softcap=softcap, sinks=None if sinks is None else sinks.float().contiguous(),
                   slopes=None if slopes is None else slopes.float().contiguous())
    near = slopes is None or sum(longest) <= hopper.LONGEST_WITH_SLOPES
    if takes("attention_varlen", another_chip(q), in_fp32(q), not scale > 0 and "the scale is not more than 0",
             not near and "slopes reach too far", not (k.shape[0] and max(len(q), len(k)) < hopper.FAR) and
             f"it takes 1 to {hopper.FAR - 1} rows"):
        def make(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, counter: Tensor) -> tuple:
            return hopper.kernel, *hopper.arguments(q, k, v, o, lse, cu_q, cu_k, counter, programs(q), *longest, causal, scale,
                                                    **changes)

        work = len(q) * q.shape[1] * (len(k) // (len(cu_q) - 1))
        plan = by_tma(of, (q, k, v, cu_q, cu_k), lambda x: x, lambda width: work * width >= WORTH_A_COPY, make)
        if plan is not None:
            return plan
    o, lse = of.empty(q)
    launch = Launch(q, plain_attention.kernel, *plain_attention.packed_arguments(
        q, k, v, o, lse, cu_q, cu_k, *longest, causal, scale, exact, **changes))

    def plan(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = of.empty(q)
        launch(q, k, v, o, lse, *more, cu_q, cu_k)
        return o, lse

    return plan


def _save(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    *_, slopes = inputs[:7]
    if slopes is not None and slopes.requires_grad:
        raise NotImplementedError("attention_varlen: alibi_slopes have no derivative; detach them")
    saved(7)(ctx, inputs, output)


@gradient_of_o
def _gradients(ctx, do: Tensor, dlse: Tensor | None) -> tuple:
    q, k, v, cu_q, cu_k, sinks, slopes, o, lse = ctx.saved_tensors
    dq, dk, dv, dsinks = ATTENTION_VARLEN_BACKWARD(do, q, k, v, o, lse, cu_q, cu_k, dlse, sinks, slopes, *ctx.options)
    return dq, dk, dv, None, None, None if sinks is None else dsinks


ATTENTION_VARLEN = Operator(
    "attention_varlen(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? sinks, Tensor? alibi_slopes, "
    "SymInt max_seqlen_q, SymInt max_seqlen_k, bool causal=False, float? scale=None, int? left=None, int? right=None, "
    "float? softcap=None) -> (Tensor, Tensor)", Planned(_plan, is_exact, rounds=dict(max_seqlen_q=rounded, max_seqlen_k=rounded)),
    CONTRACT, _save, _gradients, LOWER, kept=("sinks", "alibi_slopes"))
