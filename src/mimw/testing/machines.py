"""Machines for one test case of a kernel: the simulator, or a GPU with the same numpy arguments.

Input: a kernel, a grid and numpy arguments. Output: the results, in the arrays that were given:

    Simulator().launch(kernel, (1, ), source, target)        `target` holds the results of the simulator
    Gpu().launch(kernel, (1, ), source, target)              `target` holds the results of the GPU
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mimw

_TORCH_TYPES = {"bfloat16": "bfloat16", "float8_e5m2": "float8_e5m2", "float8_e4m3fn": "float8_e4m3fn"}


class Simulator:
    """Runs kernels on the simulator, writing into the numpy arrays."""

    name = "simulator"

    def launch(self, kernel, grid, *args, **meta):
        return mimw.simulate(kernel, grid, *args, **meta)


class Gpu:
    """Runs kernels on the GPU: numpy arguments go there, and written arrays come back into them. Views of one array are one tensor
    there, too, as of an argument that a descriptor describes in another shape."""

    name = "gpu"

    def launch(self, kernel, grid, *args, **meta):
        import torch
        import triton
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        on_device = {}

        def move(array):
            memory = (array.ctypes.data, array.nbytes, array.dtype) if array.flags.c_contiguous else id(array)
            if memory not in on_device:
                on_device[memory] = array, _to_torch(torch, array)
            return on_device[memory][1].view(array.shape) if array.flags.c_contiguous else on_device[memory][1]

        kernel[grid](*(with_arrays(arg, move) for arg in args), **meta)
        torch.cuda.synchronize()
        for array, tensor in on_device.values():
            if array.size and array.flags.writeable:
                array[...] = tensor.contiguous().view(-1).view(torch.uint8).cpu().numpy().view(array.dtype).reshape(array.shape)


def with_arrays(value: Any, move: Callable[[np.ndarray], Any]) -> Any:
    """An argument of a launch with `move(array)` for each numpy array in it, also in tuples and descriptors."""
    from triton.tools.tensor_descriptor import TensorDescriptor
    if isinstance(value, TensorDescriptor):
        return mimw.TensorDescriptor(move(value.base.array), list(value.shape), list(value.strides), value.block_shape,
                                     value.padding, value.round_f32_to_tf32)
    if isinstance(value, tuple):
        items = [with_arrays(item, move) for item in value]
        return type(value)._make(items) if hasattr(value, "_fields") else tuple(items)     # kernels read fields by name
    return move(value) if isinstance(value, np.ndarray) else value


def _to_torch(torch, array: np.ndarray):
    """A copy on the GPU, its rows as far apart as the array's: kernels get the strides."""
    name = _TORCH_TYPES.get(array.dtype.name, array.dtype.name)
    dtype = getattr(torch, "bool" if name == "bool" else name)
    if not array.size:
        return torch.empty(array.shape, dtype=dtype, device="cuda")
    once = tuple(slice(0, 1) if step == 0 and extent > 1 else slice(None) for step, extent in zip(array.strides, array.shape))
    if slice(0, 1) in once:     # one number for many places
        return _to_torch(torch, array[once]).expand(array.shape)
    tensor = torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()).cuda().view(dtype).reshape(array.shape)
    if array.flags.c_contiguous:
        return tensor
    strides = [stride // array.itemsize for stride in array.strides]
    return torch.empty_strided(array.shape, strides, dtype=dtype, device="cuda").copy_(tensor)

