"""`mimw::simplicial_attention_backward`: the gradients of `mimw.ops.simplicial_attention`.

Input: the gradients of o and, where it was used, of lse; q, k, v, k2, v2; o and lse of the call. Output: the gradients of the five:

    torch.ops.mimw.simplicial_attention_backward(do, q, k, v, k2, v2, o, lse, None, 512, 32, None)      (dq, dk, dv, dk2, dv2)

`backward()` through `mimw.ops.simplicial_attention` comes here. What second keys and values get is added up by atomics in fp32, in
any order; the others are the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import plain_simplicial_attention as plain

from .launching import Launch, is_exact
from .operator import Operator
from .plans import Plans, look

Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def _fake(do: Tensor, q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, *_) -> Gradients:
    return tuple(x.new_empty(x.shape) for x in (q, k, v, k2, v2))


def _run(do: Tensor, q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, o: Tensor, lse: Tensor, dlse: Tensor | None = None,
         window: int = 512, window2: int = 32, scale: float | None = None) -> Gradients:
    options = window, window2, scale, is_exact(q)
    key = *map(look, (do, q, k, v, k2, v2)), options
    delta = (o.float() * do.float()).sum(-1)
    delta = delta if dlse is None else delta - dlse
    return (_PLANS[key] or _PLANS.made(key, do, q, k, v, k2, v2, lse, delta, *options))(do, q, k, v, k2, v2, lse, delta)


def _plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, lse: Tensor, delta: Tensor, window: int,
          window2: int, scale: float | None, exact: bool) -> Callable[..., Gradients]:
    if q.numel() == 0:
        return lambda do, *given: tuple(map(torch.zeros_like, given[:5]))
    seq_k = k.shape[2]

    def empty(q: Tensor, k: Tensor, k2: Tensor, v2: Tensor) -> Gradients:
        """dq, dk, dv, and zeros for the sums of the second keys and values."""
        return q.new_empty(q.shape), k.new_empty(k.shape), k.new_empty(k.shape), *(x.new_zeros(x.shape, dtype=torch.float32)
                                                                                 for x in (k2, v2))

    outputs = empty(q, k, k2, v2)
    launches = [Launch(q, *launch) for launch in plain.gradient_arguments(
        q, k, v, k2, v2, do, lse, delta, *outputs, (min(window, seq_k), min(window2, seq_k)), scale, exact)]

    def plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, lse: Tensor, delta: Tensor) -> Gradients:
        dq, dk, dv, dk2, dv2 = empty(q, k, k2, v2)
        launches[0](q, k, v, k2, v2, do, lse, delta, dq)
        launches[1](q, k, v, k2, v2, do, lse, delta, dk, dv, dk2, dv2)
        return dq, dk, dv, dk2.to(k.dtype), dv2.to(k.dtype)

    return plan


_PLANS = Plans(_plan)

SIMPLICIAL_ATTENTION_BACKWARD = Operator(
    "simplicial_attention_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor k2, Tensor v2, Tensor o, Tensor lse, "
    "Tensor? dlse=None, int window=512, int window2=32, float? scale=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _run, _fake)
