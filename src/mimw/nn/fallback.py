"""Why a tensor goes to torch rather than to an operator of ours.

Input: a tensor. Output: the reason in words, or None where a kernel takes it. For example:

    reason(torch.zeros(2, dtype=torch.float64))     "the tensor is torch.float64; kernels take bf16, fp16 and fp32"
    reason(torch.zeros(2))                          None
"""

from __future__ import annotations

import torch
from torch import Tensor

TYPES = frozenset((torch.bfloat16, torch.float16, torch.float32))


def reason(x: Tensor) -> str | None:
    """The reason why no operator of `mimw.ops` takes x, or None. A tensor of another class than torch's may take part by
    torch's dispatcher, so its class does not count, except nested tensors, which have no strides."""
    if x.is_nested:
        return "the tensor is nested"
    if not (x.is_cuda or x.is_cpu or x.is_meta):
        return f"the tensor is on {x.device}; kernels take those of a GPU, and of the CPU, where they are simulated"
    if x.dtype not in TYPES and not (x.dtype.is_floating_point and torch.is_autocast_enabled(x.device.type)):
        return f"the tensor is {x.dtype}; kernels take bf16, fp16 and fp32"
    return None


__all__ = ["TYPES", "reason"]
