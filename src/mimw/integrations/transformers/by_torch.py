"""Attention by torch's operations: what is asked for together with a dense mask, and what transformers' own sdpa does not compute.

Input: what transformers hands to an attention function. Output: (batch, queries, heads, value_dim). For example:

    o = with_mask(query, key, value, mask.dense(), scaling=0.125, sinks=module.sinks)
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop


def with_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, scaling: float | None = None, dropout: float = 0.0,
              softcap: float | None = None, sinks: Tensor | None = None, position_bias: Tensor | None = None) -> Tensor:
    """softmax(softcap tanh(scaling q k^T / softcap) + bias, with a sink) v, with fp32 scores.

    args:      query   (batch, heads, queries, dim)
               key, value   (batch, kv_heads, keys, dim) and (batch, kv_heads, keys, value_dim); kv_heads divides heads
               mask    broadcast to (batch, heads, queries, keys): bool, True for what is seen, or numbers that are added
               scaling, dropout, softcap   of the scores, by default 1 / sqrt(dim); of the weights; of the scaled scores
               sinks   (heads): a logit more in each row, with no value
               position_bias   as a mask of numbers, added to it
    returns:   (batch, queries, heads, value_dim) of value's type; 0 for a query that sees no key
    """
    heads, kv_heads = query.shape[1], key.shape[1]
    key, value = (x.repeat_interleave(heads // kv_heads, 1) if heads != kv_heads else x for x in (key, value))
    scores = (query @ key.transpose(2, 3)).float() * (1 / sqrt(query.shape[-1]) if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * (scores / softcap).tanh()
    if position_bias is not None:
        scores = scores + position_bias
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype is torch.bool else scores + mask
    if sinks is not None:
        scores = torch.cat((scores, sinks.float().view(1, -1, 1, 1).expand(*scores.shape[:3], 1)), -1)
    weights = scores.softmax(-1)[..., :key.shape[2]].to(value.dtype)
    if sinks is None and mask is not None and mask.dtype is torch.bool:
        weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0)       # else NaN
    return (drop(weights, dropout, dropout > 0) @ value).transpose(1, 2).contiguous()


__all__ = ["with_mask"]
