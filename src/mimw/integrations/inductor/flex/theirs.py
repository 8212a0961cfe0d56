"""Torch's flex attention, compiled, with the meaning that was found: what ours is timed against.

Input: options (meaning.py), and extents. Output: a function of q, k and v, with slopes of 1. For example:

    theirs(meaning, box, scale)(q, k, v)                torch.compile(flex_attention) of the same scores and mask
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from ..torch_versions import without_passes
from .meaning import Meaning
from .values import Box

BACKEND = "inductor"


def theirs(means: Meaning, box: Box, scale: float) -> Callable[..., Tensor]:
    """The function; its first call compiles."""
    ahead, (left, right), (first, end) = means.end - box.queries, means.window, (means.first, means.end)
    softcap = means.softcap

    def mask_mod(b, h, q_idx, kv_idx):
        distance = q_idx - kv_idx + ahead
        seen = (kv_idx >= first) & (kv_idx < end)
        seen = seen if left is None else seen & (distance <= left)
        return seen if right is None else seen & (distance >= -right)

    def compute(q: Tensor, k: Tensor, v: Tensor, mask, slopes: Tensor | None) -> Tensor:
        def score_mod(score, b, h, q_idx, kv_idx):
            if softcap is not None:
                score = softcap * torch.tanh(score / softcap)
            return score if slopes is None else score - slopes[h] * (q_idx - kv_idx + ahead).abs()

        plain = softcap is None and slopes is None
        return flex_attention(q, k, v, score_mod=None if plain else score_mod, block_mask=mask, scale=scale * means.scale,
                              enable_gqa=q.shape[1] != k.shape[1])

    masks: dict[torch.device, object] = {}
    compiled = torch.compile(compute, dynamic=False, backend=BACKEND)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with without_passes():
            if q.device not in masks:
                bare = left is None and right is None and first == 0 and end == box.keys
                masks[q.device] = None if bare else create_block_mask(mask_mod, None, None, box.queries, box.keys, device=q.device)
            slopes = None if means.slopes is None else torch.ones(box.heads, device=q.device)
            return compiled(q, k, v, masks[q.device], slopes)

    return call


__all__ = ["theirs"]
