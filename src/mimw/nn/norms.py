"""`mimw.nn.RMSNorm` and `mimw.nn.LayerNorm`: torch's, by `mimw.ops.rms_norm` and `mimw.ops.layer_norm`.

Input: the arguments of torch's modules. Output: modules with the same parameters. For example:

    norm = RMSNorm(4096, eps=1e-5)
    norm.load_state_dict(torch.nn.RMSNorm(4096).state_dict())
    y = norm(x)                         x (..., 4096)
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops

from . import fallback
from .traced import leaf


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm: arguments, parameters and state dict are torch's.

    shapes:    x (..., *normalized_shape): bf16, fp16, fp32 -> the same
    computed:  by `mimw.ops.rms_norm`, with fp32 statistics; by torch for other types, and for tensors
               that hold others, as DTensor. Under autocast of a GPU the result is fp32, as torch's since torch 2.13
    gradients  those of the operator
    """

    def reason(self, x: Tensor) -> str | None:
        """The reason why torch computes a call, or None."""
        return fallback.reason(x, self.weight)

    @leaf
    def forward(self, x: Tensor) -> Tensor:
        """x normalised over its last dimensions."""
        if self.reason(x) is not None:
            return super().forward(x)
        return ops.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm: arguments, parameters and state dict are torch's.

    shapes:    x (..., *normalized_shape): bf16, fp16, fp32 -> the same
    computed:  by `mimw.ops.layer_norm`, with fp32 statistics; by torch for other types, and for tensors
               that hold others, as DTensor. Under autocast of a GPU the result is fp32, as torch's
    gradients  those of the operator
    """

    def reason(self, x: Tensor) -> str | None:
        """The reason why torch computes a call, or None."""
        return fallback.reason(x, self.weight)

    @leaf
    def forward(self, x: Tensor) -> Tensor:
        """x normalised over its last dimensions."""
        if self.reason(x) is not None:
            return super().forward(x)
        return ops.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


__all__ = ["LayerNorm", "RMSNorm"]
