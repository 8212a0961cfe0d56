"""fla's causal attention by `mimw.ops`, with fla's parameters: tensors as (batch, length, heads, dim), or packed sequences.

Input: the arguments of `fla.ops.attn.parallel`. Output: the results of its own functions. For example:

    forward(q, k, v, None, None, 0.125)                 (o, lse)
    backward(q, k, v, o, None, lse, do, scale=0.125)    (dq, dk, dv, None, the sinks')

fla's logarithms, and the sinks that it passes on, are of base 2; its sinks' gradients are those of the natural ones, as ours.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from mimw import ops  # noqa: F401 -- registers the operators
from mimw.kernels.attention.configs import HEAD_DIMS, value_dim

from .tensors import refused

_OPS = torch.ops.mimw
_LN2 = log(2)
_TYPES = torch.bfloat16, torch.float16


def forward_refused(q: Tensor, k: Tensor, v: Tensor, g_cumsum: Tensor | None, sink_bias: Tensor | None, scale: float,
                    window_size: int | None = None, cu_seqlens: Tensor | None = None,
                    chunk_indices: Tensor | None = None) -> str | None:
    if g_cumsum is not None:
        return "mimw's attention has no gates"
    if q.shape[-1] not in HEAD_DIMS or v.shape[-1] != value_dim(q.shape[-1]):
        return f"mimw's attention takes heads of {', '.join(map(str, HEAD_DIMS))}, and these have {q.shape[-1]} and {v.shape[-1]}"
    if q.shape[1] != k.shape[1]:
        return f"there are {q.shape[1]} queries and {k.shape[1]} keys, which fla aligns in another way"
    if scale is None or scale <= 0:
        return f"mimw's scale is more than 0, and this is {scale}"
    if window_size is not None and window_size < 1:
        return f"a window of {window_size} keys shows none"
    if cu_seqlens is not None and q.shape[0] != 1:
        return "packed sequences are one batch"
    return refused(q, k, v, types=_TYPES, alike=True)


def forward(q: Tensor, k: Tensor, v: Tensor, g_cumsum: Tensor | None, sink_bias: Tensor | None, scale: float,
            window_size: int | None = None, cu_seqlens: Tensor | None = None,
            chunk_indices: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(o, lse): (batch, length, heads, dim) and (batch, length, heads), contiguous."""
    sinks, left = _sinks(sink_bias), _left(window_size)
    if cu_seqlens is None:
        o, lse = _OPS.attention_with(*(one.transpose(1, 2) for one in (q, k, v)), sinks, None, True, scale, left, None, None)
        o, lse = o.transpose(1, 2), lse.transpose(1, 2)
    else:
        cu, longest = _packed(cu_seqlens)
        o, lse = _OPS.attention_varlen(q[0], k[0], v[0], cu, cu, sinks, None, longest, longest, True, scale, left, None, None)
        o, lse = o[None], lse.T[None]
    return o.contiguous(), (lse / _LN2).contiguous()


def backward_refused(q: Tensor, k: Tensor, v: Tensor, o: Tensor, g_cumsum: Tensor | None, lse: Tensor, do: Tensor,
                     sink_bias: Tensor | None = None, scale: float | None = None, window_size: int | None = None,
                     chunk_size: int = 128, cu_seqlens: Tensor | None = None, chunk_indices: Tensor | None = None) -> str | None:
    reason = forward_refused(q, k, v, g_cumsum, sink_bias, scale, window_size, cu_seqlens)
    return reason or refused(q, o, do, types=_TYPES, alike=True)


def backward(q: Tensor, k: Tensor, v: Tensor, o: Tensor, g_cumsum: Tensor | None, lse: Tensor, do: Tensor,
             sink_bias: Tensor | None = None, scale: float | None = None, window_size: int | None = None, chunk_size: int = 128,
             cu_seqlens: Tensor | None = None, chunk_indices: Tensor | None = None) -> tuple:
    """(dq, dk, dv, None for the gates, the sinks' or None)."""
    sinks, left = _sinks(sink_bias), _left(window_size)
    lse = (lse * _LN2).transpose(1, 2).contiguous()
    if cu_seqlens is None:
        given = (one.transpose(1, 2) for one in (do, q, k, v, o))
        *found, dsinks = _OPS.attention_with_backward(*given, lse, None, sinks, None, True, scale, left, None, None)
        found = [one.transpose(1, 2) for one in found]
    else:
        cu, longest = _packed(cu_seqlens)
        *found, dsinks = _OPS.attention_varlen_backward(do[0], q[0], k[0], v[0], o[0], lse[0], cu, cu, None, sinks, None, longest,
                                                        longest, True, scale, left, None, None)
        found = [one[None] for one in found]
    return *found, None, None if sinks is None else dsinks


def _sinks(sink_bias: Tensor | None) -> Tensor | None:
    return None if sink_bias is None else sink_bias.float() * _LN2


def _left(window_size: int | None) -> int | None:
    """The keys before its own that a query sees: fla counts its own."""
    return None if window_size is None else window_size - 1


def _packed(cu_seqlens: Tensor) -> tuple[Tensor, int]:
    """(the beginnings of sequences in 32 bits, the longest one's length). The host waits for the length, as it does in fla."""
    return cu_seqlens.to(torch.int32), int((cu_seqlens[1:] - cu_seqlens[:-1]).max())


__all__ = ["backward", "backward_refused", "forward", "forward_refused"]
