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


class RotaryEmbedding(torch.nn.Module):
    """The first `dim` columns of each head turned by angles position x base^(-2 i / dim) (RoFormer, arXiv 2104.09864).

    args:      dim            columns that are turned, even; columns behind them stay
               max_positions  rows of the tables
               base           of the frequencies
               interleaved    columns 2i and 2i + 1 are a pair, as in GPT-J; else columns i and i + dim / 2, as in Llama
    buffers:   cos, sin       fp32 (max_positions, dim / 2), not in the state dict; `module.to(torch.bfloat16)` leaves them fp32
    computed:  by `mimw.ops.rope`, in fp32, one launch for queries and keys
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
        super()._apply(fn, recurse)
        for name in ("cos", "sin"):
            table = getattr(self, name)
            if table.dtype is not torch.float32:
                made = RotaryEmbedding(self.dim, self.max_positions, self.base, self.interleaved, table.device)
                setattr(self, name, getattr(made, name))
        return self

    def forward(self, q: Tensor, k: Tensor | None = None, positions: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """q, and k if there is one, (..., heads, length, dim or more), turned; row i is position i, or positions[i]."""
        return ops.rope(q if k is None else (q, k), self.cos, self.sin, positions, interleaved=self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.dim}, max_positions={self.max_positions}, base={self.base}, interleaved={self.interleaved}"


__all__ = ["RotaryEmbedding"]
