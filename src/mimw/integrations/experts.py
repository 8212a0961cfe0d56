"""Routed experts as servers hold them, by `mimw.ops.moe`: both halves of the first matrix in one tensor, ids and weights given.

Input: rows of tokens, the experts' matrices, perhaps with scales of 128 x 128, ids and weights of each token's experts. Output: a
row for each token, or a reason to let the server compute. For example:

    if taken("moe", reason(x, w_gate_up, w_down)):
        y = routed(x, w_gate_up, w_down, ids, weights)          w_gate_up (E, 2 inner, hidden), w_down (E, hidden, inner)
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops

TYPES = torch.bfloat16, torch.float16
BLOCK = 128
MOST_EXPERTS = 1024     # of one launch; with more of them, ops.moe may wait for the sizes of groups, which no graph captures


def sizes_reason(experts: int, hidden: int, inner: int, scaled: bool) -> str | None:
    """The reason why the server computes a layer of these extents, or None."""
    if experts > MOST_EXPERTS:
        return f"it has {experts} experts; one launch takes up to {MOST_EXPERTS}"
    if hidden % 16 or inner % (BLOCK if scaled else 8):
        return (f"hidden is {hidden} and the inner dimension {inner}; they must be multiples of 16 and of "
                f"{BLOCK if scaled else 8}")
    return None


def reason(x: Tensor, w_gate_up: Tensor, w_down: Tensor, w_gate_up_scale: Tensor | None = None,
           w_down_scale: Tensor | None = None) -> str | None:
    """The reason why the server computes a call, or None."""
    scaled, (experts, hidden, inner) = w_gate_up_scale is not None, w_down.shape
    if x.dtype not in TYPES:
        return f"tokens are {x.dtype}; experts take bf16 and fp16"
    if w_gate_up.dtype is not (torch.float8_e4m3fn if scaled else x.dtype) or w_down.dtype is not w_gate_up.dtype:
        return f"matrices are {w_gate_up.dtype} and {w_down.dtype} for tokens of {x.dtype}"
    if w_gate_up.shape != (experts, 2 * inner, hidden) or x.shape[-1] != hidden:
        return f"matrices of {tuple(w_gate_up.shape)} and {tuple(w_down.shape)} are no gate, up and down of {x.shape[-1]} columns"
    blocks = -(-hidden // BLOCK), -(-inner // BLOCK)
    if scaled and (w_down_scale is None or w_down_scale.shape != (experts, *blocks)
                   or w_gate_up_scale.shape != (experts, 2 * blocks[1], blocks[0])):
        return f"scales are not for each {BLOCK} x {BLOCK} of the matrices"
    if scaled and not w_gate_up_scale.dtype is w_down_scale.dtype is torch.float32:
        return f"scales are {w_gate_up_scale.dtype} and {w_down_scale.dtype}; they must be fp32"
    return sizes_reason(experts, hidden, inner, scaled)


def routed(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, w_gate_up_scale: Tensor | None = None,
           w_down_scale: Tensor | None = None) -> Tensor:
    """The weighted sum of each token's experts, silu(gate) up between the products.

    shapes:    x (tokens, hidden); w_gate_up (E, 2 inner, hidden), the gate first; w_down (E, hidden, inner); ids, weights
               (tokens, k): an id below 0 is no expert, as servers mark the rows that fill a batch up -> (tokens, hidden)
    """
    weights = weights.masked_fill(ids < 0, 0)
    return ops.moe(x, w_gate_up, w_down, ids.clamp(min=0), weights, w_gate_up_scale=w_gate_up_scale, w_down_scale=w_down_scale)


__all__ = ["reason", "routed", "sizes_reason"]
