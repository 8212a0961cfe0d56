"""`mimw.nn.SwiGLU`: the MLP of Llama-like models: down(silu(gate(x)) up(x)).

Input: widths. Output: a module with the parameters gate_proj, up_proj and down_proj, as Hugging Face's Llama names them:

    mlp = SwiGLU(4096, 14336)
    y = mlp(x)                          x (..., 4096) -> (..., 4096)
    mlp.load_state_dict(llama.model.layers[0].mlp.state_dict())
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops

from . import fallback
from .linear import Linear
from .traced import leaf


class SwiGLU(torch.nn.Module):
    """down_proj(silu(gate_proj(x)) up_proj(x)).

    args:      hidden, inner   columns of x, and between the products
               bias     of all three products
               fp8      products of e4m3, as in `mimw.nn.Linear`
    shapes:    x (..., hidden): bf16, fp16, fp32 -> the same
    computed:  three `mimw.nn.Linear`, and `mimw.ops.swiglu` in one pass over gate and up; by torch what goes to torch in `Linear`
    gradients  of x and all parameters
    """

    def __init__(self, hidden: int, inner: int, bias: bool = False, device=None, dtype=None, *, fp8: bool = False):
        super().__init__()
        made = {"bias": bias, "device": device, "dtype": dtype, "fp8": fp8}
        self.gate_proj, self.up_proj = Linear(hidden, inner, **made), Linear(hidden, inner, **made)
        self.down_proj = Linear(inner, hidden, **made)

    def reason(self, x: Tensor) -> str | None:
        """The reason why torch computes a call, or None."""
        return self.gate_proj.reason(x)

    @leaf
    def forward(self, x: Tensor) -> Tensor:
        """down_proj(silu(gate_proj(x)) up_proj(x))."""
        gate, up = self.gate_proj(x), self.up_proj(x)
        inner = ops.swiglu(gate, up) if fallback.reason(gate) is None else torch.nn.functional.silu(gate) * up
        return self.down_proj(inner)


__all__ = ["SwiGLU"]
