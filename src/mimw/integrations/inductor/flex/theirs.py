"""Torch's flex attention, compiled, with the meaning that was found: what ours is timed against.

Input: options (meaning.py), and extents. Output: a function of q, k and v, with slopes of 1. For example:

    theirs(meaning, box, scale)(q, k, v)                torch.compile(flex_attention) of the same scores and mask
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from mimw.score_mods import computed, depends_on

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


def theirs_of(score: Any, mask: Any, tables: tuple[Tensor, ...], box: Box, scale: float) -> Callable[..., Tensor]:
    """The same of a score_mod and a mask_mod as expressions of `mimw.score_mods`, and the tensors that these read."""

    def score_mod(s, b, h, q_idx, kv_idx):
        return computed([score], s, (b, h, q_idx, kv_idx), tables, checked=False)[0]

    def mask_mod(b, h, q_idx, kv_idx):
        return computed([mask], b.new_zeros((), dtype=torch.float32), (b, h, q_idx, kv_idx), tables, checked=False)[0]

    def compute(q: Tensor, k: Tensor, v: Tensor, blocks) -> Tensor:
        return flex_attention(q, k, v, score_mod=score_mod, block_mask=blocks, scale=scale, enable_gqa=q.shape[1] != k.shape[1])

    masks: dict[torch.device, object] = {}
    compiled = torch.compile(compute, dynamic=False, backend=BACKEND)
    batches, heads = (extent if depends_on(mask, name) else None for name, extent in (("b", box.batches), ("h", box.heads)))

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with without_passes():
            if q.device not in masks:
                bare = not depends_on(mask, "bhqkf")
                masks[q.device] = None if bare else create_block_mask(mask_mod, batches, heads, box.queries, box.keys,
                                                                      device=q.device)
            return compiled(q, k, v, masks[q.device])

    return call


__all__ = ["theirs", "theirs_of"]
