"""`mimw.ops.scaled_dot_product_attention`: torch's function of that name, by our kernels where they take the call.

Input: torch's arguments in torch's order. Output: torch's result. For example:

    o = scaled_dot_product_attention(q, k, v, is_causal=True)       by mimw.ops.attention
    o = scaled_dot_product_attention(q, k, v, seen)                 seen (batch, 1, 1, seq_k), bool: by mimw.ops.attention_varlen
    o = scaled_dot_product_attention(q, k, v, bias)                 by torch: no kernel of ours adds a mask to the scores
    ops.explain(ops.scaled_dot_product_attention, q, k, v, bias)    says which, and why
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Proxy
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as by_torch

from .attention import attention
from .attention_backward import as_four
from .attention_varlen import attention_varlen
from .log import left_to_torch
from .stand_in import StandIn, autocast_device

_CLASSES = frozenset((Tensor, torch.nn.Parameter, FakeTensor, StandIn))      # others may say themselves what a call of them is
_TYPES = frozenset((torch.bfloat16, torch.float16, torch.float32))


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
                                 enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, by our kernels where they take the call, else by torch.

    args:      query       (..., heads, seq_q, dim), as torch has it
               key, value  (..., kv_heads, seq_k, dim) and (..., kv_heads, seq_k, value_dim)
               attn_mask   bool, True for what is seen, or numbers that are added to the scores; broadcast to (..., heads, seq_q,
                           seq_k)
               dropout_p   probability with which a weight is dropped
               is_causal   query i sees keys up to i, aligned to the upper left, as torch has it where the lengths differ
               scale       of the scores, by default 1 / sqrt(dim)
               enable_gqa  head h of the queries reads head h * kv_heads // heads of the keys; else heads are equal, or broadcast
    returns:   (..., heads, seq_q, value_dim); 0 for a query that sees no key
    computed:  by `mimw.ops.attention`: bf16, fp16 and fp32 without a mask, causal or not; by `mimw.ops.attention_varlen`: with a
               mask that is the same for all heads and queries, as padded batches have it, (batch, 1, 1, seq_k): the keys that are
               seen are packed, and those of the padding cost a copy alone; the host waits for nothing. By torch: other masks,
               dropout, fp64, nested tensors and other classes of tensors. `mimw.ops.explain` says which, and why
    gradients  of query, key and value, as those of the operator that computes; torch's where torch does
    errors:    torch's own
    """
    if isinstance(query, Proxy):
        return query.tracer.create_proxy("call_function", scaled_dot_product_attention, (), locals())
    why = reason(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if why is not None:
        if not torch.compiler.is_compiling():
            left_to_torch("scaled_dot_product_attention", why, (query, key, value, attn_mask))
        return by_torch(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return by_kernels(query, key, value, attn_mask, is_causal, scale)


def by_kernels(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False,
               scale: float | None = None) -> Tensor:
    """The same, of a call for which `reason` is None; it is not asked again."""
    if attn_mask is not None and _of_batches(query, key, value, attn_mask):
        return _padded(*(x.unsqueeze(1) for x in (query, key, value, attn_mask)), scale).squeeze(1)
    if attn_mask is not None:
        return _padded(query, key, value, attn_mask, scale)
    if not is_causal:
        return attention(query, key, value, scale=scale)
    seq_q, seq_k = query.shape[-2], key.shape[-2]
    if seq_q > seq_k:       # ours counts from the last key on: there, query i is at i + seq_k - seq_q
        return attention(query, key, value, scale=scale, window=(None, seq_q - seq_k))
    if seq_q < seq_k:       # no query sees what is cut off
        key, value = key[..., :seq_q, :], value[..., :seq_q, :]
    return attention(query, key, value, causal=True, scale=scale)


def reason(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
           is_causal: bool = False, enable_gqa: bool = False, scale: float | None = None) -> str | None:
    """The reason why torch computes a call, or refuses it; None if a kernel of ours does."""
    for one in (query, key, value) if attn_mask is None else (query, key, value, attn_mask):
        if type(one) not in _CLASSES or one.is_nested:
            return "a tensor is nested, or of another class than torch.Tensor"
    if dropout_p != 0:
        return "dropout_p is not 0, and no kernel of mimw drops weights"
    if not (query.is_cuda or query.is_cpu):
        return "the tensors are not on a GPU, nor on the CPU"
    if not (query.dtype is key.dtype is value.dtype and query.dtype in _TYPES) and not _lowered(query, key, value):
        return "the types are not all bf16, all fp16 or all fp32"
    return _of_shapes(query.shape, key.shape, value.shape, enable_gqa) or (
        None if attn_mask is None else _of_mask(query, key, value, attn_mask, is_causal))


def _lowered(*given: Tensor) -> bool:
    """True if autocast makes one type of theirs."""
    on = given[0].device.type
    lowered = autocast_device() is not None if on == "meta" else torch.is_autocast_enabled(on)
    return lowered and _TYPES.issuperset(x.dtype for x in given)


def _of_shapes(query: torch.Size, key: torch.Size, value: torch.Size, enable_gqa: bool) -> str | None:
    if min(len(query), len(key), len(value)) < 2 or query[-1] == 0 or value[-1] == 0:
        return "a tensor has less than 2 dimensions, or heads of width 0"
    if query == key == value and 0 not in query:        # the most frequent call: the rest holds
        return None
    if query[-1] != key[-1] or key[-2] != value[-2]:
        return "the widths of queries and keys, or the lengths of keys and values, differ"
    heads, kv_heads, of_values = (shape[-3] if len(shape) > 2 else 1 for shape in (query, key, value))
    if kv_heads != of_values or kv_heads == 0 or heads % kv_heads or not (enable_gqa or kv_heads in (1, heads)):
        return "the heads of queries, keys and values differ in another way than enable_gqa, or one head of keys, allows"
    return None


def _of_mask(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor, is_causal: bool) -> str | None:
    if is_causal:
        return "attn_mask and is_causal are both given"
    if attn_mask.dtype is not torch.bool:
        return "attn_mask is added to the scores, which no kernel of mimw does"
    if attn_mask.device != query.device or not 2 <= attn_mask.dim() <= query.dim() or 0 in (*query.shape, *key.shape):
        return "attn_mask is on another device or has another number of dimensions, or a tensor is empty"
    for_heads = attn_mask.dim() > 2 and attn_mask.shape[-3] != 1 and not _of_batches(query, key, value, attn_mask)
    if attn_mask.shape[-2] != 1 or for_heads:
        return "attn_mask is not the same for all queries and heads, as (batch, 1, 1, seq_k) is"
    return None


def _of_batches(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor) -> bool:
    """True of 3 dimensions, batch, length and width, with a mask for each of the batch."""
    return (query.dim() == key.dim() == value.dim() == attn_mask.dim() == 3 and attn_mask.shape[0] != 1
            and query.shape[0] == key.shape[0])


def _padded(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor, scale: float | None) -> Tensor:
    """Attention to the keys that are seen, packed. They come first by a stable sort, as without causality their order says
    nothing; the others lie behind the last sequence. How many there are the device alone knows."""
    front = torch.broadcast_shapes(*(x.shape[:-3] for x in (query, key, value)))
    q, k, v, seen = (as_four(x, front) for x in (query, key, value, attn_mask))
    batch, _, seq_q, _ = q.shape
    seq_k = k.shape[2]
    seen = seen.expand(batch, 1, 1, seq_k).reshape(batch, seq_k)
    order = (~seen).flatten().byte().argsort(stable=True)
    k, v = (x.transpose(1, 2).flatten(0, 1).index_select(0, order) for x in (k, v))
    of_q = torch.arange(batch + 1, device=q.device, dtype=torch.int32) * seq_q
    of_k = pad(seen.sum(1).cumsum(0), (1, 0)).int()
    o = attention_varlen(q.transpose(1, 2).flatten(0, 1), k, v, of_q, of_k, seq_q, seq_k, scale=scale)
    return o.unflatten(0, (batch, seq_q)).transpose(1, 2).reshape(*front, *query.shape[-3:-1], o.shape[-1])


__all__ = ["by_kernels", "reason", "scaled_dot_product_attention"]
