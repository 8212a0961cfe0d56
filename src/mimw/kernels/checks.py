"""The demands of every call of the library on its arguments, checked before anything else.

Input: numpy or torch arrays by name. Output: nothing, or a ValueError or TypeError that names the argument. For
example:

    on_one_gpu("matmul", a=a, b=b)              torch tensors of one CUDA device
    of_rank(2, a=a, b=b)                        matrices, none empty
    persistent(programs)                        a number of programs, 1 or more
    one_of(("float16", "bfloat16"), a=a)        arrays of one of these types
    rows_for_tma(a=a)                           rows contiguous and a multiple of 16 bytes apart
"""

from __future__ import annotations

from operator import index
from typing import Any

# The rule of contracts for how many programs share the tiles.
PROGRAMS = "whole(programs) and programs >= 1 -- it must be a whole number of 1 or more, or nothing would be computed"


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


def strides(array: Any) -> tuple[int, ...]:
    """Strides in elements of a numpy or torch array."""
    if hasattr(array, "strides"):
        return tuple(step // array.itemsize for step in array.strides)
    return tuple(array.stride())


def type_name(array: Any) -> str:
    """The name of a numpy or torch array's element type: "float16", "bfloat16", ..."""
    return str(array.dtype).removeprefix("torch.")


def one_of(types: tuple[str, ...], **arrays: Any) -> None:
    """ValueError for an array of another element type."""
    for name, array in arrays.items():
        if type_name(array) not in types:
            raise ValueError(f"{name} is {array.dtype}; it may be {', '.join(types)}")


def enough(**arrays: tuple[Any, int]) -> None:
    """ValueError for an array with fewer elements than the number beside it."""
    for name, (array, least) in arrays.items():
        if array.shape[0] < least:
            raise ValueError(f"{name} has {array.shape[0]} elements; the launch needs {least}")


def rows_for_tma(**arrays: Any) -> None:
    """ValueError for an array that TMA cannot describe: the last dimension must be contiguous, the others multiples of 16 bytes."""
    for name, array in arrays.items():
        *outer, step = (one * array.dtype.itemsize for one in strides(array))
        if step != array.dtype.itemsize or any(one % 16 for one, extent in zip(outer, array.shape) if extent > 1):
            raise ValueError(f"the rows of {name} must be contiguous and a multiple of 16 bytes apart for TMA; its strides are "
                             f"{', '.join(map(str, outer))} and {step} bytes")
