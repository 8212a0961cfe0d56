"""Layers of a server with our `forward_cuda`, against the server's own `forward_native`, on the CPU.

Input: the server's norm and activation, and what makes its rotary embedding. Output: a line for each comparison. For example:

    compare(RMSNorm(64), SiluAndMul(), lambda neox: RotaryEmbedding(16, 8, 32, 10000, neox, torch.float32))
    same("moe", found, wanted, 3e-4)            moe: (5, 64) torch.bfloat16, largest difference 1.9e-04
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def same(what: str, found: Tensor, wanted: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found, wanted, atol=tolerance, rtol=tolerance)
    print(f"{what}: {tuple(found.shape)} {found.dtype}, largest difference {(found.float() - wanted.float()).abs().max():.1e}")


def compare(norm: nn.Module, act: nn.Module, rotary_of: Callable[[bool], nn.Module]) -> None:
    """A norm of 64 columns with and without a residual, SwiGLU, and both orders of pairs of heads of 16, half of which turn."""
    x, residual = torch.randn(3, 64), torch.randn(3, 64)
    same("rms_norm", norm.forward_cuda(x), norm.forward_native(x), 1e-5)
    native = norm.forward_native(x.clone(), residual.clone())
    for which, ours, theirs in zip(("norm", "sum"), norm.forward_cuda(x, residual), native):
        same(f"rms_norm with a residual, the {which}", ours, theirs, 1e-5)
    same("silu_and_mul", act.forward_cuda(x), act.forward_native(x), 1e-5)
    for neox in (True, False):
        rotary = rotary_of(neox)
        positions, q, k = torch.tensor([4, 0, 2]), torch.randn(3, 32), torch.randn(3, 16)
        theirs = rotary.forward_native(positions, q.clone(), k.clone())
        for which, one, other in zip("qk", rotary.forward_cuda(positions, q, k), theirs):
            same(f"rotary, {'halves' if neox else 'pairs'}, {which}", one, other, 1e-5)
