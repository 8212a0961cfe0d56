"""`mimw.nn.Linear`: torch's, with an activation in the launch of the product, and with products of fp8.

Input: the arguments of torch.nn.Linear, and `activation`, `fp8`, `hold`. Output: a module with the same parameters. For example:

    layer = Linear(4096, 14336, activation="gelu_tanh")
    layer = Linear(4096, 14336, bias=False, fp8=True)           weights stay bf16, products are of e4m3
    y = layer(x)                                                x (..., 4096)
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops
from mimw.ops.addmm import ACTIVATIONS

from . import fallback, held_weights
from .fp8 import fp8_linear
from .traced import leaf


class Linear(torch.nn.Linear):
    """act(x weight^T + bias): arguments, parameters and state dict are those of torch.nn.Linear.

    args:      activation  None, "relu", "gelu" (by erf), "gelu_tanh" or "silu", computed in the launch of the product
               fp8         quantise x row by row and the weight row by row, and multiply in e4m3 (`mimw.nn.functional.fp8_linear`)
               hold        with fp8, hold the quantised weight after `eval()`, where no gradient of the weight is wanted, until the
                           weight changes. torch does not count writes through `weight.data`: call `eval()` again behind these
    shapes:    x (..., in_features): bf16, fp16, fp32 -> (..., out_features)
    computed:  by `mimw.ops.matmul`, with a bias or an activation by `mimw.ops.addmm`, with fp8 by `mimw.ops.scaled_mm`; by torch
               for other types, and for x or a weight that holds other tensors, as DTensor
    gradients  of x, weight and bias, by the same operators; with fp8 by products of the type of x
    errors:    NotImplementedError for other activations
    """

    activation: str | None = None       # of instances that torch.nn.Linear made: `patch` gives them this class
    fp8: bool = False
    hold: bool = False

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device=None, dtype=None, *,
                 activation: str | None = None, fp8: bool = False, hold: bool = False):
        if activation not in ACTIVATIONS:
            raise NotImplementedError(f"Linear: activation is {activation!r}; it may be {', '.join(map(repr, ACTIVATIONS))}")
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation, self.fp8, self.hold = activation, fp8, hold

    def reason(self, x: Tensor) -> str | None:
        """The reason why torch computes a call, or None."""
        if x.dtype != self.weight.dtype and not torch.is_autocast_enabled(x.device.type):
            return f"x is {x.dtype} and the weight {self.weight.dtype}"     # torch's error
        return fallback.reason(x, self.weight)

    @leaf
    def forward(self, x: Tensor) -> Tensor:
        """act(x weight^T + bias)."""
        if self.reason(x) is not None:
            return ACTIVATIONS[self.activation](super().forward(x))
        if self.fp8:
            return ACTIVATIONS[self.activation](fp8_linear(x, self.weight, self.bias, self._held(x)))
        if self.bias is None and self.activation is None:
            return ops.matmul(x, self.weight.t())
        # beta = 0: what is added is not read
        added, beta = (x.new_empty(()), 0.0) if self.bias is None else (self.bias, 1.0)
        rows = x.flatten(0, -2) if x.dim() > 1 else x[None]
        y = ops.addmm(added, rows, self.weight.t(), beta, 1.0, self.activation)
        return y.view(*x.shape[:-1], self.weight.shape[0])

    def _held(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """The quantised weight, where it may be held. FSDP writes weights in a way that torch's counter does not see."""
        if not self.hold or self.training or torch.is_grad_enabled() and self.weight.requires_grad:
            return None
        if hasattr(self, "_is_fsdp_managed_module"):
            return None
        lowered = torch.is_autocast_enabled(x.device.type)
        return held_weights.of(self.weight, torch.get_autocast_dtype(x.device.type) if lowered else self.weight.dtype)

    def train(self, mode: bool = True) -> Linear:
        """torch's; a weight that is held in e4m3 is forgotten, so that `model.eval()` is what to call behind writes to
        `weight.data`."""
        if self.hold:
            held_weights.forget(self.weight)
        return super().train(mode)

    def extra_repr(self) -> str:
        more = "" if self.activation is None else f", activation={self.activation!r}"
        return super().extra_repr() + more + (", fp8=True" if self.fp8 else "") + (", hold=True" if self.hold else "")


__all__ = ["Linear"]
