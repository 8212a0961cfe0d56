"""The places of the k largest in a window of each row, for Hopper: fp16, bf16 and fp32, rows of any length (DeepSeek's indexer).

Input: x (M, N), and int32 starts and ends (M). Output: places (M, k), in any order. For example:

    topk_selector(x, starts, ends, k)           places of a torch tensor of a GPU
    arguments(x, starts, ends, indices)         (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, numpy or torch
"""

from __future__ import annotations

from ..checks import of_rank, on_one_gpu, one_of, strides
from .configs import Configuration, configuration, power_of_two, streamed
from .kernel import topk_selector as kernel

__all__ = ["LONGEST", "MOST", "Configuration", "arguments", "configuration", "kernel", "power_of_two", "streamed", "topk_selector"]

MOST = 1 << 14      # places
LONGEST = 1 << 25   # numbers of a row: the kernel counts them in 25 bits


def arguments(x, starts, ends, indices, values=None, chosen: Configuration | None = None,
              largest: bool = True) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill indices with the places of the k largest of x[row, starts[row]:ends[row]], in any order.

    args:      x             (M, N), rows contiguous, fp16, bf16 or fp32; NaN is larger than all numbers
               starts, ends  (M), int32, or both None for whole rows; cut to 0 and N
               indices       (M, k) int32 or int64, contiguous, k up to 16384; -1 behind the places of a window with fewer than k
               values        (M, k) of x's type, contiguous: what is there; by default nobody asks
               chosen        by default the one for the sizes
               largest       or the smallest
    errors:    ValueError where a shape, a stride or a type does not fit, with the numbers
    """
    of_rank(2, x=x, indices=indices)
    (m, n), k = map(int, x.shape), int(indices.shape[1])
    one_of(("float16", "bfloat16", "float32"), x=x)
    one_of(("int32", "int64"), indices=indices)
    if (starts is None) != (ends is None):
        raise ValueError("give both starts and ends, or neither")
    for name, array in (("starts", starts), ("ends", ends)):
        if array is not None:
            one_of(("int32", ), **{name: array})
            if tuple(array.shape) != (m, ):
                raise ValueError(f"{name} has the shape {tuple(array.shape)}; for {m} rows it must be ({m},)")
    for name, array in (("indices", indices), *([("values", values)] if values is not None else [])):
        if tuple(array.shape) != (m, k) or strides(array) != (k, 1) and m * k > 1:
            raise ValueError(f"{name} must be {m} x {k} and contiguous, it is {tuple(array.shape)} with strides {strides(array)}")
    if values is not None and values.dtype != x.dtype:
        raise ValueError(f"values must be {x.dtype} as x is, they are {values.dtype}")
    row, step = strides(x)
    if step != 1 and n > 1:
        raise ValueError(f"the rows of x must be contiguous; their elements are {step} apart")
    if k > MOST or n > LONGEST:
        raise ValueError(f"{k} places of rows of {n} numbers do not fit: {MOST} of up to {LONGEST} do")
    chosen = chosen or configuration(m, n, k)
    if chosen.candidates < k or chosen.candidates != power_of_two(chosen.candidates):
        raise ValueError(f"candidates is {chosen.candidates}; it must be a power of two, {k} or more")
    order = {} if largest else {"LARGEST": False}
    return (m, ), (x, starts, ends, indices, values, n, k, row), chosen.meta(k, x.dtype.itemsize) | order


def topk_selector(x, starts, ends, k: int, chosen: Configuration | None = None):
    """int32 places (M, k); arguments and errors as `arguments`."""
    import torch
    on_one_gpu("topk_selector", x=x, **({} if starts is None else dict(starts=starts, ends=ends)))
    indices = torch.empty(x.shape[0], k, dtype=torch.int32, device=x.device)
    grid, args, meta = arguments(x, starts, ends, indices, None, chosen)
    kernel[grid](*args, **meta)
    return indices
