"""The k largest or smallest of each row, sorted, with NaN as the largest: any GPU, fp16, bf16 and fp32.

Input: x (M, N). Output: for each block of a row its first k values in order, with their places. For example:

    blocks(100000)                              25: how many blocks a row is cut into
    arguments(x, None, values, indices)         (grid, args, meta); values and indices are (M, blocks * k)
    arguments(values, indices, v, i)            the same of what came out, until one block is left
"""

from __future__ import annotations

from .configs import LONGEST, block, options
from .kernel import plain_topk as kernel

__all__ = ["LONGEST", "arguments", "blocks", "kernel"]

TYPES = ("float16", "bfloat16", "float32")


def blocks(n: int) -> int:
    """How many blocks a row of n numbers is."""
    return -(-n // block(n))


def arguments(x, places, values, indices, largest: bool = True) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill values and indices.

    args:      x        (M, N) of fp16, bf16 or fp32, any strides, N of 1 or more
               places   (M, N), int32, contiguous: which index each number stands for, -1 for a number that is not there; None for
                        its column
               values   (M, blocks(N) * k) of any of these types, contiguous: the first k of each block, of equal ones the one of
                        the lowest place first; k is at most the block's length
               indices  the same of int32 or int64; -1 where a block has fewer than k numbers, with any value
               largest  or the smallest; NaN is larger than all numbers
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    (m, n), (rows, width), count, length = x.shape, values.shape, blocks(x.shape[1]), block(x.shape[1])
    if rows != m or tuple(indices.shape) != (m, width) or width % count or not 1 <= width // count <= length:
        raise ValueError(f"x is {m} x {n}, in {count} blocks of {length}: values and indices must be {m} x {count} times k, at "
                         f"most {length}; they are {tuple(values.shape)} and {tuple(indices.shape)}")
    for name, array, known in (("x", x, TYPES), ("values", values, TYPES), ("indices", indices, ("int32", "int64"))):
        if str(array.dtype).removeprefix("torch.") not in known:
            raise ValueError(f"{name} is {array.dtype}; it may be {', '.join(known)}")
    if places is not None and (tuple(places.shape) != (m, n) or str(places.dtype).removeprefix("torch.") != "int32"):
        raise ValueError(f"places is {places.dtype} {tuple(places.shape)}; it must be int32 {(m, n)}")
    stride, step = _strides(x)
    meta = dict(LARGEST=largest, HAS_PLACES=places is not None, **options(length))
    return (m * count, ), (x, indices if places is None else places, values, indices, n, width // count, count, stride, step), meta


def _strides(array) -> tuple[int, ...]:
    """Strides in elements of a numpy or torch array."""
    if hasattr(array, "strides"):
        return tuple(step // array.itemsize for step in array.strides)
    return tuple(array.stride())
