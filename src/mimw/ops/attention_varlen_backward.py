"""`mimw::attention_varlen_backward`: the gradients of `mimw.ops.attention_varlen`, by plain Triton kernels on the device.

Input: the gradients of o and, where it was used, of lse; what the call took and gave. Output: the gradients of q, k, v and sinks,
the last empty without sinks:

    torch.ops.mimw.attention_varlen_backward(do, q, k, v, o, lse, cu_q, cu_k, None, None, None, 500, 500, True)

`backward()` through `mimw.ops.attention_varlen` comes here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import plain_attention_backward as plain

from .launching import Launch, is_exact, is_hopper
from .operator import Operator
from .plans import Plans, look


def rounded(length: int) -> int:
    """A bound of lengths, as a power of two: calls whose longest sequences differ a little have one plan."""
    return 1 << (length - 1).bit_length() if length else 0


def _fake(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, cu_q: Tensor, cu_k: Tensor,
          dlse: Tensor | None = None, sinks: Tensor | None = None, *_) -> tuple[Tensor, ...]:
    return *(x.new_empty(x.shape) for x in (q, k, v)), q.new_empty(0) if sinks is None else torch.empty_like(sinks)


def _run(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, cu_q: Tensor, cu_k: Tensor, dlse: Tensor | None,
         sinks: Tensor | None, slopes: Tensor | None, max_q: int, max_k: int, causal: bool = False, scale: float | None = None,
         left: int | None = None, right: int | None = None, softcap: float | None = None) -> tuple[Tensor, ...]:
    exact, max_q, max_k = is_exact(q), rounded(max_q), rounded(max_k)
    key = (*map(look, (do, q, k, v, cu_q, cu_k)), slopes is not None and look(slopes), max_q, max_k, causal, scale, left, right,
           softcap, exact)
    plan = _PLANS[key] or _PLANS.made(key, do, q, k, v, lse, cu_q, cu_k, slopes, max_q, max_k, causal, scale, (left, right),
                                      softcap, exact)
    delta = (o.float() * do.float()).sum(-1).T
    delta = (delta if dlse is None else delta - dlse).contiguous()
    dq, dk, dv = (x.new_zeros(x.shape) for x in (q, k, v))
    more = () if slopes is None else (slopes.float().contiguous(), )
    plan(do, q, k, v, lse, delta, dq, dk, dv, cu_q.contiguous(), cu_k.contiguous(), *more)
    return dq, dk, dv, _of_sinks(q, lse, delta, cu_q, sinks)


def _of_sinks(q: Tensor, lse: Tensor, delta: Tensor, cu_q: Tensor, sinks: Tensor | None) -> Tensor:
    """A sink's probability in each row takes from all others: -P delta, summed over the rows of the sequences."""
    if sinks is None:
        return q.new_empty(0)
    share = (sinks.float()[:, None] - lse).exp() * delta
    inside = torch.arange(len(q), device=q.device) < cu_q[-1]
    return -torch.where(inside, share, 0.0).sum(1).to(sinks.dtype)


def _plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, lse: Tensor, cu_q: Tensor, cu_k: Tensor, slopes: Tensor | None, max_q: int,
          max_k: int, causal: bool, scale: float | None, window: tuple, softcap: float | None, exact: bool) -> Callable:
    if 0 in (*q.shape, *k.shape, *v.shape, max_q, max_k) or cu_q.shape[0] == 1:
        return lambda *_: None
    made = plain.launches(q, k, v, do, lse, lse, *(x.new_empty(x.shape) for x in (q, k, v)), causal, scale, exact,
                          packed=(cu_q.contiguous(), cu_k.contiguous(), max_q, max_k), window=window, softcap=softcap,
                          slopes=None if slopes is None else slopes.float().contiguous(), large=is_hopper(q))
    of_queries, of_keys = (Launch(q, *one) for one in made)

    def plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, lse: Tensor, delta: Tensor, dq: Tensor, dk: Tensor, dv: Tensor,
             *more: Tensor) -> None:
        cu_q, cu_k, *slopes = more
        of_queries(q, k, v, do, dq, lse, delta, *slopes, cu_q, cu_k)
        of_keys(q, k, v, do, dk, dv, lse, delta, *slopes, cu_q, cu_k)

    return plan


_PLANS = Plans(_plan)

ATTENTION_VARLEN_BACKWARD = Operator(
    "attention_varlen_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor cu_seqlens_q, "
    "Tensor cu_seqlens_k, Tensor? dlse, Tensor? sinks, Tensor? alibi_slopes, SymInt max_seqlen_q, SymInt max_seqlen_k, "
    "bool causal=False, float? scale=None, int? left=None, int? right=None, float? softcap=None) "
    "-> (Tensor, Tensor, Tensor, Tensor)", _run, _fake)
