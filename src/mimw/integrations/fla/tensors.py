"""What tensors mimw takes from fla: of its types, on a chip where its kernels were measured, or on the CPU, where they are simulated.

Input: tensors. Output: a reason to let fla compute, or None. For example:

    refused(x.double())         "mimw has no float64"
    refused(x, None, w)         None
"""

from __future__ import annotations

import torch
from torch import Tensor

FLOATS = torch.bfloat16, torch.float16, torch.float32
_CHIP = 9, 0


def refused(*tensors: Tensor | None, types: tuple[torch.dtype, ...] = FLOATS) -> str | None:
    """Why mimw does not take these; None is no tensor."""
    for one in tensors:
        if one is None:
            continue
        if one.dtype not in types:
            return f"mimw has no {str(one.dtype).removeprefix('torch.')} here"
        if one.numel() == 0:
            return "there is nothing to compute"
        if one.device.type == "cuda" and torch.cuda.get_device_capability(one.device) != _CHIP:
            return "mimw's kernels were measured on sm_90 alone"
        if one.device.type not in ("cuda", "cpu"):
            return f"mimw computes nothing on {one.device.type}"
    return None


__all__ = ["FLOATS", "refused"]
