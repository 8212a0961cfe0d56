"""The tensors that mimw takes from fla: of its types, on the chip whose kernels were measured, or on the CPU, simulated.

Input: tensors. Output: a reason to let fla compute, or None. For example:

    refused(x.double())         "mimw has no float64 here"
    refused(x, None, w)         None
"""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import Tensor

from mimw.nn.fallback import TYPES
from mimw.ops.chips import is_hopper


def refused(*tensors: Tensor | None, types: Container[torch.dtype] = TYPES, alike: bool = False) -> str | None:
    """The reason why mimw does not take these tensors, or None. None is no tensor; `alike` asks for one type of all."""
    given = [one for one in tensors if one is not None]
    for one in given:
        if one.dtype not in types:
            return f"mimw has no {str(one.dtype).removeprefix('torch.')} here"
        if one.numel() == 0:
            return "there is nothing to compute"
        if one.device.type == "cuda" and not is_hopper(one):
            return "mimw's kernels were measured on sm_90 alone"
        if one.device.type not in ("cuda", "cpu"):
            return f"mimw computes nothing on {one.device.type}"
    if alike and len({one.dtype for one in given}) > 1:
        return f"the tensors differ in their types: {', '.join(str(one.dtype).removeprefix('torch.') for one in given)}"
    return None


__all__ = ["refused"]
