"""Arguments of the command line on a GPU: torch's tensors in place of numpy's arrays.

Input: an argument of a launch. Output: the same on the GPU; whatever is no array stays:

    on_gpu(numpy.ones(256, "float32"))      a tensor of 256 ones on the current GPU
"""

from __future__ import annotations

from typing import Any

from .errors import CommandError


def on_gpu(value: Any) -> Any:
    """A torch tensor of the GPU for a numpy array, also in a descriptor. CommandError without a GPU, or without torch."""
    import numpy as np

    from ..compiler.triton_port.runtime import gpu_is_active

    if not gpu_is_active():
        raise CommandError("MIMW_SIMULATE=0 asks for a launch on a GPU, and there is none here. Without MIMW_SIMULATE it is "
                           "simulated.")
    try:
        import torch
    except ImportError:
        raise CommandError("a launch on a GPU of what is named here wants torch, for its arrays: pip install 'mimw[torch]'. With "
                           "MIMW_SIMULATE=1 it is simulated.") from None

    from ..runtime.host import HostArray, TensorDescriptor

    if isinstance(value, TensorDescriptor) and isinstance(value.base, HostArray):
        return TensorDescriptor.from_tensor(on_gpu(value.base.array), value.block_shape, value.padding)
    if isinstance(value, np.ndarray):
        kind = {"bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}.get(
            value.dtype.name)
        if kind is None:
            return torch.from_numpy(value).cuda()
        raw = torch.from_numpy(value.view(f"u{value.itemsize}" if value.itemsize == 1 else "i2"))
        return raw.cuda().view(kind)
    return value
