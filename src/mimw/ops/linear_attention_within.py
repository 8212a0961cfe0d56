"""What a chunk of linear attention has to be computed of before its state is known, in fp32, with autograd's derivative.

Input: rows of chunks. Output: `Parts`, the operands of the recurrence over chunks. For example:

    parts = within(q, k, v, g, beta, scale)             q, k (chunks, C, H, K), v (chunks, C, HV, V), ...
    N = parts.U - parts.W @ S                           S (chunks, HV, K, V): the state before each chunk
    o = parts.Q @ S + parts.P @ N
    S = parts.D * S + parts.K.mT @ N

With b the sum of g since the chunk's first row, b_C its last: Q = scale q e^b, K = k e^(b_C - b), D = e^(b_C),
P = scale tril(q_i k_j e^(b_i - b_j)); with beta A = beta_i stril(k_i k_j e^(b_i - b_j)), W = (I + A)^-1 beta k e^b,
U = (I + A)^-1 beta v. Every exponent that is taken is at most 0 for gates of at most 0; sums of gates are of fp64, as differences
of two large ones are of small ones.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .linear_attention_layout import BLOCK


class Parts(NamedTuple):
    """Each (chunks, HV, ...): Q, K (C, K), P (C, C), D (K or 1, 1), U (C, V), W (C, K), or None without beta."""

    Q: Tensor
    P: Tensor
    K: Tensor
    D: Tensor
    U: Tensor
    W: Tensor | None


def within(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor | None, scale: float) -> Parts:
    """The parts of chunks.

    args:      q, k     (chunks, C, H, K), fp32, and 0 in rows behind the end, as all others
               v        (chunks, C, HV, V)
               g        (chunks, C, HV) or (chunks, C, HV, K), or None: no decay
               beta     (chunks, C, HV), or None: no delta rule
    """
    heads = v.shape[2] // q.shape[2]
    q, k, v = scale * _heads(q, heads), _heads(k, heads), _heads(v, 1)
    if g is None:
        b = q.new_zeros((*q.shape[:2], 1, 1), dtype=torch.float64)
        scores = q @ k.mT, None if beta is None else k @ k.mT
    else:
        b = (g.transpose(1, 2)[..., None] if g.dim() == 3 else _heads(g, 1)).double().cumsum(2)
        scores = _by_head(q, k, b, beta is not None) if g.dim() == 3 else _by_key(q, k, b, beta is not None)
    last = b[:, :, -1:]
    Q, K, D = q * b.exp().float(), k * (last - b).exp().float(), last.exp().float().mT
    if beta is None:
        return Parts(Q, scores[0].tril(), K, D, v, None)
    beta = beta.transpose(1, 2)[..., None]
    right = torch.cat((beta * b.exp().float() * k, beta * v), -1)
    found = torch.linalg.solve_triangular((beta * scores[1]).tril(-1), right, upper=False, unitriangular=True)
    W, U = found.split((k.shape[-1], v.shape[-1]), -1)
    return Parts(Q, scores[0].tril(), K, D, U, W)


def _heads(x: Tensor, times: int) -> Tensor:
    """(chunks, C, H, D) as (chunks, H * times, C, D)."""
    x = x.transpose(1, 2)
    return x if times == 1 else x.repeat_interleave(times, 1)


def _by_head(q: Tensor, k: Tensor, b: Tensor, delta: bool) -> tuple[Tensor, Tensor | None]:
    """Scores of queries, and of keys, with keys, times the decay between their rows; b (chunks, HV, C, 1)."""
    C = b.shape[2]
    above = torch.ones(C, C, dtype=torch.bool, device=b.device).triu(1)
    decay = (b - b.mT).masked_fill(above, -torch.inf).exp().float()
    return q @ k.mT * decay, k @ k.mT * decay if delta else None


def _by_key(q: Tensor, k: Tensor, b: Tensor, delta: bool) -> tuple[Tensor, Tensor | None]:
    """The same for a decay of each column of q and k, by blocks of rows: those against rows before the block as one product, taken
    relative to the block's first row, and the block against itself element by element."""
    left, C = torch.stack((q, k) if delta else (q, )), b.shape[2]
    above = torch.ones(BLOCK, BLOCK, dtype=torch.bool, device=b.device).triu(1)
    rows = []
    for begin in range(0, C, BLOCK):
        end = begin + BLOCK
        own, first, keys = b[:, :, begin:end], b[:, :, begin:begin + 1], k[:, :, begin:end]
        between = own[:, :, :, None] - own[:, :, None]
        between = between.masked_fill(above[..., None], -torch.inf).exp().float() * keys[:, :, None]
        block = left[:, :, :, begin:end]
        row = [(block[..., None, :] * between).sum(-1)]
        if begin:
            row.insert(0, block * (own - first).exp().float() @ (k[:, :, :begin] * (first - b[:, :, :begin]).exp().float()).mT)
        if end < C:
            row.append(row[-1].new_zeros((*row[-1].shape[:-1], C - end)))
        rows.append(torch.cat(row, -1))
    found = torch.cat(rows, -2)
    return found[0], found[1] if delta else None


__all__ = ["Parts", "within"]
