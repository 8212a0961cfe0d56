"""A product of batches of matrices that takes any strides and runs on any GPU: what the Hopper GEMM's TMA cannot read.

Input: a (Z, M, K) and b (Z, K, N). Output: c = a b, (Z, M, N). For example:

    arguments(a, b, c)                              c = a b: (grid, args, meta) of a launch or `mimw.simulate` of `kernel`,
                                                    numpy or torch
    arguments(a, b, c, False, (source, target))     c[target] = a[source] b
"""

from __future__ import annotations

from ..checks import of_rank
from .configs import meta as compile_time
from .kernel import plain_matmul as kernel

__all__ = ["arguments", "kernel"]

TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")


def arguments(a, b, c, exact: bool = False, picked: tuple | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = a b, or c[:, target] = a[:, source] b.

    args:      a      (Z, M, K), any strides: bf16, fp16, fp32, fp8 e4m3 or e5m2; K may be 0, which gives zeros
               b      (Z, K, N) of a's type, or fp8 as a is
               c      (Z, M, N) of any of these types
               exact  fp32 products as fp32 has them; else as tf32, 10 bits of mantissa. No matter for other types
               picked (source, target), row numbers (R), int32, of a and c: a row outside of a is zeros, one outside of c is left
                      out, of equal ones of c any may win; rows of c that are not named stay
    errors:    ValueError where extents or types do not fit, with the numbers
    """
    (z, m, k), (z_b, k_b, n) = a.shape, b.shape
    of_rank(3, c=c)
    source, target = picked or (None, None)
    a_rows, c_rows, m = m, c.shape[1], m if source is None else source.shape[0]
    if (z, k) != (z_b, k_b) or (c.shape[0], c.shape[2]) != (z, n) or source is None and c_rows != m:
        raise ValueError(f"a is {tuple(a.shape)} and b {tuple(b.shape)}, so c should be {(z, m, n)} with equal batches and inner "
                         f"extents; c is {tuple(c.shape)}")
    if source is not None and tuple(target.shape) != (m, ):
        raise ValueError(f"there are {m} rows to read and {tuple(target.shape)} to write; each product row has one of both")
    for name, matrix in (("a", a), ("b", b), ("c", c)):
        if str(matrix.dtype).removeprefix("torch.") not in TYPES:
            raise ValueError(f"{name} is {matrix.dtype}; it may be {', '.join(TYPES)}")
    if a.dtype != b.dtype and (a.dtype.itemsize, b.dtype.itemsize) != (1, 1):
        raise ValueError(f"a is {a.dtype} and b is {b.dtype}: both must be one type, or both fp8")
    chosen = compile_time(m, n, k, a.dtype.itemsize, exact and a.dtype.itemsize == 4, a.dtype.itemsize == 1)
    tiles = -(-m // chosen["BM"]) * -(-n // chosen["BN"]) * z
    return (tiles, ), (a, b, c, source, target, m, n, k, a_rows, c_rows, *_strides(a), *_strides(b), *_strides(c)), chosen


def _strides(array) -> tuple[int, ...]:
    """Strides in elements of a numpy or torch array."""
    if hasattr(array, "strides"):
        return tuple(step // array.itemsize for step in array.strides)
    return tuple(array.stride())
