"""`mimw.nn.RotaryEmbedding`: rotary position embedding of queries and keys, with its tables.

Input: the width of heads and the longest position. Output: a module of queries and keys. For example:

    rotary = RotaryEmbedding(128, 8192, base=500000.0)
    q, k = rotary(q, k)                             (batch, heads, length, 128)
    q, k = rotary(q, k, positions)                  position of each row, int, (length) or (batch, length)
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops

from . import fallback
from .traced import leaf


class RotaryEmbedding(torch.nn.Module):
    """The first `dim` columns of each head turned by angles position x base^(-2 i / dim) (RoFormer, arXiv 2104.09864).

    args:      dim            columns that are turned, even; columns behind them stay
               max_positions  rows of the tables
               base           of the frequencies
               interleaved    columns 2i and 2i + 1 are a pair, as in GPT-J; else columns i and i + dim / 2, as in Llama
    buffers:   cos, sin       fp32 (max_positions, dim / 2), not in the state dict; `module.to(torch.bfloat16)` leaves them fp32,
               and a module that was on "meta" has them as soon as it is on a device
    computed:  by `mimw.ops.rope`, in fp32, one launch for queries and keys; by torch for other types than bf16, fp16 and fp32,
               and for tensors that hold others
    gradients  of queries and keys
    errors:    ValueError for a dim that is odd
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, dim: int, max_positions: int = 4096, base: float = 10000.0, interleaved: bool = False, device=None):
        super().__init__()
        if dim % 2 or dim <= 0:
            raise ValueError(f"RotaryEmbedding: dim is {dim}; columns are turned in pairs, so it must be even and above 0")
        self.dim, self.max_positions, self.base, self.interleaved = dim, max_positions, base, interleaved
        frequencies = base**(-torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)
        angles = torch.outer(torch.arange(max_positions, dtype=torch.float64, device=device), frequencies)
        for name, table in (("cos", angles.cos()), ("sin", angles.sin())):
            self.register_buffer(name, table.float(), persistent=False)

    def _apply(self, fn, recurse: bool = True):
        """Tables move between devices, and keep their type: angles of bf16 are off by a third of a turn from position 256 on."""
        empty = self.cos.is_meta                # to_empty, by which models leave "meta", fills nothing in
        super()._apply(fn, recurse)
        if self.cos.dtype is not torch.float32 or empty and not self.cos.is_meta:
            made = RotaryEmbedding(self.dim, self.max_positions, self.base, self.interleaved, self.cos.device)
            self.cos, self.sin = made.cos, made.sin
        return self

    def reason(self, q: Tensor, k: Tensor | None = None, positions: Tensor | None = None) -> str | None:
        """The reason why torch computes a call, or None."""
        return fallback.reason(q) or (None if k is None else fallback.reason(k))

    @leaf
    def forward(self, q: Tensor, k: Tensor | None = None, positions: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """q, and k if there is one, (..., heads, length, dim or more), turned; row i is position i, or positions[i]."""
        if self.reason(q, k) is not None:
            return self._by_torch(q, positions) if k is None else (self._by_torch(q, positions), self._by_torch(k, positions))
        return ops.rope(q if k is None else (q, k), self.cos, self.sin, positions, interleaved=self.interleaved)

    def _by_torch(self, x: Tensor, positions: Tensor | None) -> Tensor:
        cos, sin = (table[:x.shape[-2]] if positions is None else table[positions] for table in (self.cos, self.sin))
        if cos.dim() == 3:                      # (batch, length, dim / 2): the same for all heads
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        turned, rest = x[..., :self.dim], x[..., self.dim:]
        a, b = turned.unflatten(-1, (-1, 2)).unbind(-1) if self.interleaved else turned.chunk(2, -1)
        pair = a * cos - b * sin, a * sin + b * cos
        turned = torch.stack(pair, -1).flatten(-2) if self.interleaved else torch.cat(pair, -1)
        return torch.cat((turned.to(x.dtype), rest), -1)

    def extra_repr(self) -> str:
        return f"{self.dim}, max_positions={self.max_positions}, base={self.base}, interleaved={self.interleaved}"


__all__ = ["RotaryEmbedding"]
