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
from mimw.kernels import simplicial_attention_backward as hopper
from mimw.kernels.simplicial_attention import HEAD_DIMS, HEADS

from .contract import Contract, Extents
from .launching import Launch, is_exact, programs
from .notes import UNREADABLE, another_chip, in_fp32, takes
from .operator import Operator
from .planned import Planned
from .tma import every_step_for_tma

KEYS = "(batch, kv_heads, seq_k, dim)"
CONTRACT = Contract("simplicial_attention_backward", "do: any (batch, heads, seq_q, dim)", "q: float (batch, heads, seq_q, dim)",
                    *(f"{name}: =q {KEYS}" for name in ("k", "v", "k2", "v2")), "-> dq: =q (batch, heads, seq_q, dim)",
                    *(f"-> {name}: =q {KEYS}" for name in ("dk", "dv", "dk2", "dv2")))
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def _plan(of: Extents, do: Tensor, q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, o: Tensor, lse: Tensor,
          dlse: Tensor | None, window: int, window2: int, scale: float | None, exact: bool) -> Callable[..., Gradients]:
    if q.numel() == 0:
        return lambda do, *given: tuple(map(torch.zeros_like, given[:5]))
    seq_k = k.shape[2]

    def empty(q: Tensor, k: Tensor, k2: Tensor, v2: Tensor) -> Gradients:
        """dq, dk, dv, and zeros for the sums of the second keys and values."""
        return q.new_empty(q.shape), k.new_empty(k.shape), k.new_empty(k.shape), *(x.new_zeros(x.shape, dtype=torch.float32)
                                                                                 for x in (k2, v2))

    windows, outputs = (min(window, seq_k), min(window2, seq_k)), empty(q, k, k2, v2)
    delta = lse.new_empty(lse.shape)
    launches = plain.gradient_arguments(q, k, v, k2, v2, do, lse, delta, *outputs, windows, scale, exact)
    given = q, k, v, k2, v2, do
    fast = takes("simplicial_attention_backward", another_chip(q), in_fp32(q),
                 q.shape[3] not in HEAD_DIMS and f"heads are {q.shape[3]} wide; it takes {HEAD_DIMS}",
                 q.shape[1] // k.shape[1] % HEADS != 0 and f"groups are no multiple of {HEADS} heads",
                 not all(map(every_step_for_tma, given)) and UNREADABLE)
    if fast:
        of_queries = hopper.arguments(*given, lse, delta, outputs[0], programs(q), windows, scale)
        launches[0] = hopper.kernel, *of_queries
    launches = [Launch(q, *launch) for launch in launches]

    def plan(do: Tensor, q: Tensor, k: Tensor, v: Tensor, k2: Tensor, v2: Tensor, o: Tensor, lse: Tensor,
             dlse: Tensor | None) -> Gradients:
        delta = (o.float() * do.float()).sum(-1)
        delta = delta if dlse is None else delta - dlse
        dq, dk, dv, dk2, dv2 = empty(q, k, k2, v2)
        launches[0](*((q, k, v, do, dq, k2, v2, lse, delta) if fast else (q, k, v, k2, v2, do, lse, delta, dq)))
        launches[1](q, k, v, k2, v2, do, lse, delta, dk, dv, dk2, dv2)
        return dq, dk, dv, dk2.to(k.dtype), dv2.to(k.dtype)

    return plan


SIMPLICIAL_ATTENTION_BACKWARD = Operator(
    "simplicial_attention_backward(Tensor do, Tensor q, Tensor k, Tensor v, Tensor k2, Tensor v2, Tensor o, Tensor lse, "
    "Tensor? dlse=None, int window=512, int window2=32, float? scale=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    Planned(_plan, is_exact, of="q"), CONTRACT)
