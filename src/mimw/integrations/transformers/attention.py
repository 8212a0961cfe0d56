"""`attn_implementation="mimw"`: the attention of transformers' models by the operators of `mimw.ops`.

Input: what a model of transformers hands to an attention function. Output: what it expects. For example:

    o, _ = attention(module, query, key, value, mask_of(2, 5, 5), scaling=0.125)        (batch, queries, heads, dim)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from mimw import ops
from mimw.ops.scaled_dot_product_attention import reason

from .by_torch import with_mask
from .masks import Mask, Sequences
from .once import once

_PAGED = ("block_table", "k_cache", "v_cache", "block_indices", "sinks")


def attention(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Mask | Tensor | None,
              dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None, sliding_window: int | None = None,
              softcap: float | None = None, s_aux: Tensor | None = None, position_bias: Tensor | None = None,
              **others: Any) -> tuple[Tensor, None]:
    """Attention of a model of transformers, by `mimw.ops` where they can follow its mask, else by transformers' own sdpa.

    args:      module   the layer: its `is_causal` counts where there is no mask and `is_causal` is None
               query, key, value   (batch, heads, queries, dim), (batch, kv_heads, keys, dim) and (batch, kv_heads, keys, value_dim)
               attention_mask   of `mask_of`, or a tensor as torch's sdpa takes it, or None: causal then, if so and if there is more
                        than one query, aligned to the upper left, as transformers' sdpa has it
               dropout, scaling, softcap   of the weights; of the scores, by default 1 / sqrt(dim); of the scaled scores
               sliding_window   said by the mask already; it counts with cu_seq_lens_q only
               s_aux    (heads): the sinks of gpt-oss
               position_bias   (batch or 1, heads, queries, keys), added to the scores
               cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k   of packed sequences, as for transformers' flash attention
    returns:   (batch, queries, heads, value_dim), and None for the weights, which nothing writes. A query that sees no key, as one
               of padding, gets 0
    computed:  one new query by `ops.attention_decode`, padded and packed rows by `ops.attention_varlen`, the rest by
               `ops.attention`; by torch with dropout, a bias, a mask that is a tensor or that no kernel can follow: the logger
               "mimw" says which, once
    gradients  of query, key, value and s_aux
    errors:    NotImplementedError for paged caches and choices of blocks, which the mask does not show
    """
    for name in _PAGED:
        if others.get(name) is not None:
            raise NotImplementedError(f'attn_implementation="mimw" takes no {name}, and without it would compute something else: '
                                      f'model.set_attn_implementation("sdpa") or "eager"')
    packed = _told(module, query, attention_mask, is_causal, sliding_window, others)
    mask = packed or attention_mask
    if mask is None:
        if sliding_window is not None and sliding_window < key.shape[2]:
            raise NotImplementedError(f'attn_implementation="mimw" got a window of {sliding_window} for {key.shape[2]} keys '
                                      'and no mask to say where it lies; make masks by transformers.masking_utils')
        mask = _of_nothing(module, query, key, is_causal)
    why = _reason(mask, query, key, value, dropout, softcap, s_aux, position_bias)
    if why is None:
        return _by_mimw(query, key, value, mask, scaling, softcap, s_aux).contiguous(), None
    once("attention", why)
    # Where there was no mask, sdpa finds out by itself what is causal; so only what it knows nothing of needs a dense one.
    if softcap is None and s_aux is None:
        dense = attention_mask.dense() if isinstance(attention_mask, Mask) else attention_mask
        return sdpa_attention_forward(module, query, key, value, dense, dropout, scaling, is_causal, position_bias)
    return with_mask(query, key, value, mask.dense() if isinstance(mask, Mask) else mask, scaling=scaling, dropout=dropout,
                     softcap=softcap, sinks=s_aux, position_bias=position_bias), None


def _of_nothing(module: torch.nn.Module, query: Tensor, key: Tensor, is_causal: bool | None) -> Mask:
    """The mask that a missing one stands for."""
    lengths = query.shape[2], key.shape[2]
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if lengths[0] == 1 or not causal:
        return Mask((query.shape[0], 1, *lengths), lambda: query.new_ones(lengths, dtype=torch.bool), (None, None), lengths[1])
    bounds = (None, max(lengths[0] - lengths[1], 0))        # more queries than keys: the last are behind the last key
    return Mask((query.shape[0], 1, *lengths), lambda: query.new_ones(lengths, dtype=torch.bool).tril(), bounds, min(lengths))


def _told(module: torch.nn.Module, query: Tensor, mask: Mask | Tensor | None, is_causal: bool | None, sliding_window: int | None,
          others: dict[str, Any]) -> Mask | None:
    """The mask of packed sequences whose ends the caller knows, if it says them all. A mask of tokens comes first."""
    told = [others.get(name) for name in ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")]
    if any(x is None for x in told) or isinstance(mask, Tensor) or isinstance(mask, Mask) and mask.padded:
        return None
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    bounds = None if sliding_window is None else sliding_window - 1, 0 if causal else None
    of_q, of_k, *longest = told

    def no_mask() -> Tensor:
        raise NotImplementedError("packed sequences of cu_seq_lens_q have no dropout, no bias and no dense mask under "
                                  'attn_implementation="mimw": leave the lengths out')

    return Mask((query.shape[0], 1, query.shape[2], query.shape[2]), no_mask, bounds, query.shape[2],
                sequences=Sequences(of_q.int(), of_k.int(), *(int(x) for x in longest)))


def _reason(mask: Mask | Tensor, query: Tensor, key: Tensor, value: Tensor, dropout: float, softcap: float | None,
            sinks: Tensor | None, position_bias: Tensor | None) -> str | None:
    """The reason why torch computes a call; None if a kernel of ours does."""
    if isinstance(mask, Tensor):
        return "the model gives a mask of its own"
    if mask.reason is not None:
        return mask.reason
    if position_bias is not None:
        return "a bias is added to the scores, which no kernel of mimw does"
    if mask.shape[2:] != (query.shape[2], key.shape[2]) and mask.sequences is None:
        return "the mask is of other lengths than queries and keys"
    if mask.seen is not None and (softcap is not None or sinks is not None):
        return "padded keys are seen by all queries, with a soft cap or sinks"
    if mask.lengths is not None and torch.is_grad_enabled() and any(x is not None and x.requires_grad
                                                                    for x in (query, key, value, sinks)):
        return "a static cache keeps its length on the device, and gradients are wanted: attention_decode has none"
    return reason(query, key, value, None, dropout, False, True)


def _by_mimw(query: Tensor, key: Tensor, value: Tensor, mask: Mask, scaling: float | None, softcap: float | None,
             sinks: Tensor | None) -> Tensor:
    """(batch, queries, heads, value_dim), of any strides."""
    left, right = mask.bounds
    changes: dict[str, Any] = dict(scale=scaling, softcap=softcap, sinks=sinks)
    batch, _, length, _ = query.shape
    if mask.lengths is not None:
        lengths = mask.lengths.to(torch.int32).expand(batch)
        return ops.attention_decode(*(x.transpose(1, 2) for x in (query, key, value)), lengths, window=(left, None), **changes)
    if mask.keys < key.shape[2]:
        key, value = key[:, :, :mask.keys], value[:, :, :mask.keys]
    if mask.seen is not None:
        seen = mask.seen[:, None, None]
        return ops.scaled_dot_product_attention(query, key, value, seen, scale=scaling, enable_gqa=True).transpose(1, 2)
    changes |= dict(causal=right == 0, window=(left, right or None))
    if mask.sequences is not None:
        rows = (x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3]) for x in (query, key, value))
        return ops.attention_varlen(*rows, *mask.sequences, **changes).unflatten(0, (batch, length))
    graded = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (query, key, value, sinks))
    if length == 1 and right == 0 and not graded:
        del changes["causal"]
        changes["window"] = left, None
        return ops.attention_decode(*(x.transpose(1, 2) for x in (query, key, value)), mask.keys, **changes)
    return ops.attention(query, key, value, **changes).transpose(1, 2)


__all__ = ["attention"]
