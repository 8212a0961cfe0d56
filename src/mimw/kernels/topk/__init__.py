"""The k largest of each row, with their indices, for Hopper: fp16, bf16 and fp32, rows of up to 524288.

Input: x (M, N). Output: values and indices (M, k), in any order. For example:

    topk(x, k)                          (values, indices) of a torch tensor of a GPU
    arguments(x, values, indices)       (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, numpy or torch
"""

from __future__ import annotations

from ..checks import of_rank, on_one_gpu
from .configs import MOST_A_CTA, MOST_CTAS, Configuration, configuration
from .kernel import topk as kernel

__all__ = ["Configuration", "arguments", "configuration", "kernel", "topk"]


def arguments(x, values, indices, chosen: Configuration | None = None, largest: bool = True,
              nan: bool = False) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill values and indices with the k largest of each row, in any order.

    args:      x        (M, N), rows contiguous, fp16, bf16 or fp32
               values   (M, k) of x's type, k <= N, contiguous
               indices  (M, k), int32 or int64, contiguous
               chosen   by default the one for N
               largest  or the smallest
               nan      NaN is larger than all numbers; without it, which is a little quicker, rows with NaN give any numbers
    errors:    ValueError where a shape, a stride or a type does not fit, with the numbers
    """
    of_rank(2, x=x)
    if len(values.shape) != 2:
        raise ValueError(f"values has {len(values.shape)} dimensions, {tuple(values.shape)}; it must have 2")
    (m, n), k = x.shape, _checked_k(x, values.shape[1])
    if tuple(values.shape) != (m, k) or tuple(indices.shape) != (m, k):
        raise ValueError(f"values and indices must be {m} x {k}, they are {' x '.join(map(str, values.shape))} and "
                         f"{' x '.join(map(str, indices.shape))}")
    name = str(x.dtype).removeprefix("torch.")
    if name not in ("float16", "bfloat16", "float32"):
        raise ValueError(f"x must be fp16, bf16 or fp32, it is {x.dtype}")
    if values.dtype != x.dtype or str(indices.dtype).removeprefix("torch.") not in ("int32", "int64"):
        raise ValueError(f"values must be {x.dtype} as x is, and indices int32 or int64; they are {values.dtype} and "
                         f"{indices.dtype}")
    row, step = _strides(x)
    if step != 1 and n > 1:
        raise ValueError(f"the rows of x must be contiguous; their elements are {step} apart")
    for what, matrix in (("values", values), ("indices", indices)):
        if _strides(matrix) != (k, 1) and matrix.shape[0] * k > 1:
            raise ValueError(f"{what} must be contiguous, with strides {k} and 1; they are {_strides(matrix)}")
    chosen = chosen or configuration(n)
    if n > chosen.ctas * MOST_A_CTA:
        raise ValueError(f"rows of {n} numbers do not fit: {chosen.ctas} x {MOST_A_CTA} do, and a cluster has at most "
                         f"{MOST_CTAS} CTAs")
    order = {**({} if largest else {"LARGEST": False}), **({"NAN": True} if nan else {})}
    return (m, ), (x, values, indices, n, k, row), chosen.meta(n, k, x.dtype.itemsize) | order


def _checked_k(x, k) -> int:
    if not hasattr(k, "__index__") or not 1 <= k <= x.shape[1]:
        raise ValueError(f"k must be a whole number from 1 to the {x.shape[1]} numbers of a row, got {k}")
    return int(k)


def _strides(matrix) -> tuple[int, int]:
    """Strides in elements of a numpy or torch matrix."""
    if hasattr(matrix, "strides"):
        return tuple(step // matrix.itemsize for step in matrix.strides)
    return tuple(matrix.stride())


def topk(x, k: int, chosen: Configuration | None = None):
    """(values, indices) of the k largest of each row of x, in any order; arguments and errors as `arguments`."""
    import torch
    on_one_gpu("topk", x=x)
    of_rank(2, x=x)
    k = _checked_k(x, k)
    values = torch.empty(x.shape[0], k, dtype=x.dtype, device=x.device)
    indices = torch.empty(x.shape[0], k, dtype=torch.int32, device=x.device)
    grid, args, meta = arguments(x, values, indices, chosen)
    kernel[grid](*args, **meta)
    return values, indices
