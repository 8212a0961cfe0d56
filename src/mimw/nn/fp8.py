"""`mimw.nn.functional.fp8_linear`: a linear layer whose product is of e4m3, with a scale for each row of x and of the weight.

Input: x and the weight of bf16, fp16 or fp32. Output: x weight^T + bias of x's type. For example:

    y = fp8_linear(x, weight, bias)             x (..., K), weight (N, K), bias (N)
    small, scale = quantised(weight)            e4m3, and fp32 (N, 1): weight is about small * scale
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops

from .traced import leaf_function

E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of x (M, K) as e4m3, and the scale of each: fp32 (M, 1), the row's largest number over 448; 1 for a row of zeros."""
    most = x.detach().abs().amax(-1, keepdim=True).float()
    scale = torch.where(most > 0, most / LARGEST, 1.0)
    return (x.float() / scale).clamp(-LARGEST, LARGEST).to(E4M3), scale


@leaf_function
def fp8_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, held: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """x weight^T + bias, by a product of e4m3 with fp32 sums.

    args:      x        (..., K): bf16, fp16 or fp32
               weight   (N, K), any of these types; bias (N)
               held     `quantised(weight)`, under autocast of the weight in the region's type, where the caller has it
    returns:   (..., N) of x's type, under autocast of the region's
    computed:  rows of x and of the weight are quantised at each call (`quantised`), then `mimw.ops.scaled_mm`
    gradients  of x, weight and bias by `mimw.ops.matmul` in x's type, of x and the weight as they are: quantisation counts as the
               identity, as torchao and Transformer Engine have it with backward products of higher precision; no second derivative
    errors:    RuntimeError where shapes do not fit
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    return _Fp8Linear.apply(x.flatten(0, -2) if x.dim() > 1 else x[None], weight, bias,
                            *(held or (None, None))).view(*x.shape[:-1], weight.shape[0])


class _Fp8Linear(torch.autograd.Function):
    """Of rows x (M, K)."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, b: Tensor | None, of_b: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.bias = None if bias is None else bias.dtype
        (a, of_a), (b, of_b) = quantised(x), quantised(weight) if b is None else (b, of_b)
        return ops.scaled_mm(a, b.t(), of_a, of_b.t(), bias, x.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy: Tensor) -> tuple:
        x, weight = ctx.saved_tensors
        dx = ops.matmul(dy, weight.to(dy.dtype)) if ctx.needs_input_grad[0] else None
        dw = ops.matmul(dy.t(), x).to(weight.dtype) if ctx.needs_input_grad[1] else None
        return dx, dw, dy.float().sum(0).to(ctx.bias) if ctx.needs_input_grad[2] else None, None, None


__all__ = ["fp8_linear", "quantised"]
