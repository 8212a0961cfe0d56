"""`mimw.nn.MoE`: a mixture of experts with its router.

Input: widths, how many experts there are and how many a token takes. Output: a module of tokens. For example:

    layer = MoE(4096, 14336, experts=8, k=2)
    y = layer(x)                                    x (..., 4096) -> (..., 4096)
    layer.gate, layer.gate_up_proj, layer.down_proj
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from mimw import ops

from . import fallback
from .linear import Linear
from .traced import leaf


class MoE(torch.nn.Module):
    """The sum over a token's k best experts of its weight times down_proj[e] (silu(gate) up), with gate and up the halves of
    gate_up_proj[e] x, as in Mixtral (arXiv 2401.04088).

    args:      hidden, inner   columns of a token, and between an expert's products
               experts, k      how many there are, and how many each token takes
               normalise       the k weights of a token add up to 1 (Mixtral); else they are its softmax over all experts (OLMoE)
    parameters gate.weight (experts, hidden), gate_up_proj (experts, 2 inner, hidden), down_proj (experts, hidden, inner)
    computed:  the router by `mimw.nn.Linear`, its softmax in fp32 by torch; experts by `mimw.ops.moe`. Of other types than bf16,
               fp16 and fp32, and for tensors that hold others, by torch, expert by expert, which waits for the device
    gradients  of x and all parameters
    """

    def __init__(self, hidden: int, inner: int, experts: int, k: int, normalise: bool = True, device=None, dtype=None):
        super().__init__()
        if not 0 < k <= experts:
            raise ValueError(f"MoE: k is {k}; of {experts} experts a token takes 1 to {experts}")
        self.k, self.normalise = k, normalise
        self.gate = Linear(hidden, experts, bias=False, device=device, dtype=dtype)
        self.gate_up_proj = torch.nn.Parameter(torch.empty(experts, 2 * inner, hidden, device=device, dtype=dtype))
        self.down_proj = torch.nn.Parameter(torch.empty(experts, hidden, inner, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Random matrices, each expert's as torch.nn.Linear has its own."""
        for matrices in (self.gate_up_proj, self.down_proj):
            bound = 1 / math.sqrt(matrices.shape[-1])
            torch.nn.init.uniform_(matrices, -bound, bound)

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The experts of each token of x (tokens, hidden), and their weights: (tokens, k) both."""
        logits = self.gate(x)
        weights, ids = logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32)).topk(self.k, -1)
        return ids, (weights / weights.sum(-1, keepdim=True) if self.normalise else weights)

    def reason(self, x: Tensor) -> str | None:
        """The reason why torch computes a call, or None."""
        return self.gate.reason(x) or fallback.reason(x, self.gate_up_proj) or fallback.reason(x, self.down_proj)

    @leaf
    def forward(self, x: Tensor) -> Tensor:
        """The experts' sum for each token of x (..., hidden)."""
        rows = x.reshape(-1, x.shape[-1])
        ids, weights = self.routed(rows)
        if self.reason(x) is not None:
            return self._by_torch(rows, ids, weights.to(x.dtype)).view(x.shape)
        return ops.moe(rows, self.gate_up_proj, self.down_proj, ids, weights.to(x.dtype)).view(x.shape)

    def _by_torch(self, rows: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        y = torch.zeros_like(rows)
        for expert, (gate_up, down) in enumerate(zip(self.gate_up_proj, self.down_proj)):
            tokens, place = (ids == expert).nonzero(as_tuple=True)
            gate, up = linear(rows[tokens], gate_up).chunk(2, -1)
            y = y.index_add(0, tokens, linear(silu(gate) * up, down) * weights[tokens, place, None])
        return y

    def extra_repr(self) -> str:
        experts, _, inner = self.down_proj.shape
        return f"hidden={self.down_proj.shape[1]}, inner={inner}, experts={experts}, k={self.k}, normalise={self.normalise}"


__all__ = ["MoE"]
