"""Why a tensor goes to torch rather than to an operator of ours.

Input: the tensors of a call. Output: the reason in words, or None where a kernel takes them. For example:

    reason(torch.zeros(2, dtype=torch.float64))     "the tensor is torch.float64; kernels take bf16, fp16 and fp32"
    reason(torch.zeros(2), weight)                  None; "the weight is a DTensor, ..." where torch has spread it over GPUs
"""

from __future__ import annotations

import torch
from torch import Tensor

TYPES = frozenset((torch.bfloat16, torch.float16, torch.float32))


def reason(x: Tensor, weight: Tensor | None = None) -> str | None:
    """The reason why no operator of `mimw.ops` takes a call with x and a parameter, or None.

    A tensor that holds others (those of tensor parallelism, of quantised weights) computes by its own rules, which know no
    operator of ours; torch's protocol for such classes is `__tensor_flatten__`. Under FSDP2 a parameter is such a tensor only
    between calls, so `patch` asks `of_type` instead. Other subclasses take part through torch's dispatcher."""
    for name, one in (("the tensor", x), ("the weight", weight)):
        if one is not None and hasattr(type(one), "__tensor_flatten__") and not one.is_nested:
            return f"{name} is a {type(one).__name__}, which holds other tensors and has no rule for operators of mimw"
    return of_type(x)


def of_type(x: Tensor) -> str | None:
    """The reason why no kernel takes a tensor of x's type, device and layout, or None. Autocast changes nothing here: it leaves
    fp64 as it is."""
    if x.is_nested:
        return "the tensor is nested"
    if not (x.is_cuda or x.is_cpu or x.is_meta):
        return f"the tensor is on {x.device}; kernels take those of a GPU, and of the CPU, where they are simulated"
    if x.dtype not in TYPES:
        return f"the tensor is {x.dtype}; kernels take bf16, fp16 and fp32"
    return None


__all__ = ["TYPES", "of_type", "reason"]
