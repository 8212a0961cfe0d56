"""The demands of every call of the library on its arguments, checked before anything else.

Input: numpy or torch arrays by name. Output: nothing, or a ValueError or TypeError that names the argument. For
example:

    on_one_gpu("matmul", a=a, b=b)              torch tensors of one CUDA device
    of_rank(2, a=a, b=b)                        matrices, none empty
    persistent(programs)                        a number of programs, 1 or more
"""

from __future__ import annotations

from operator import index
from typing import Any


def on_one_gpu(call: str, **tensors: Any) -> None:
    """TypeError for what is no torch tensor, ValueError for one that no GPU holds, or another GPU than the first one's."""
    first = next(iter(tensors))
    for name, tensor in tensors.items():
        if not hasattr(tensor, "data_ptr") or not hasattr(tensor, "device"):
            raise TypeError(f"{call}: {name} is a {type(tensor).__name__}; it takes torch tensors of a GPU. "
                            "mimw.simulate runs the kernel on numpy arrays: see `arguments` of the same module")
        if tensor.device.type != "cuda":
            raise ValueError(f"{call}: {name} is on {tensor.device}, and it runs on the GPU that holds its tensors: "
                             f"pass {name}.cuda()")
        if tensor.device != tensors[first].device:
            raise ValueError(f"{call}: {first} is on {tensors[first].device} and {name} on {tensor.device}; all must be on one GPU")


def of_rank(rank: int, **arrays: Any) -> None:
    """ValueError for an array of another rank, or with an extent of 0."""
    for name, array in arrays.items():
        shape = tuple(map(int, array.shape))
        if len(shape) != rank:
            raise ValueError(f"{name} has {len(shape)} dimensions, {shape}; it must have {rank}")
        if 0 in shape:
            raise ValueError(f"{name} is empty, {' x '.join(map(str, shape))}: there is nothing to compute")


def persistent(programs: Any, name: str = "programs") -> int:
    """How many programs may share the tiles. ValueError unless it is a whole number of 1 or more."""
    if not hasattr(programs, "__index__") or index(programs) < 1:
        raise ValueError(f"{name} is {programs}; it must be a whole number of 1 or more, or nothing would be computed")
    return index(programs)
