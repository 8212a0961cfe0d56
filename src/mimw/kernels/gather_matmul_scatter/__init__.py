"""A product of picked rows, its rows sent where they belong, for Hopper and Blackwell: bf16, fp16, tf32 (fp32 inputs), fp8.

Input: a (M, K), b (K, N), row numbers `source` and `target`, both (R). Output: rows of c, (M', N): c[target] = a[source] b.

    gather_matmul_scatter(a, b, c, source, target)             on torch tensors of a GPU
    arguments(a, b, c, source, target, programs)               (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

Sums are fp32. `blackwell_kernel` is for chips with tensor memory: it has been simulated and compiled, and never run.
"""

from __future__ import annotations

import mimw

from ..checks import of_rank, on_one_gpu, persistent
from .blackwell import gather_matmul_scatter_blackwell as blackwell_kernel
from .configs import Configuration
from .kernel import gather_matmul_scatter as kernel

TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")

__all__ = ["Configuration", "arguments", "blackwell_kernel", "gather_matmul_scatter", "kernel"]


def arguments(a, b, c, source, target, programs: int, chosen: Configuration | None = None,
              blackwell: bool = False) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c[target[i], :] = a[source[i], :] b for each i.

    args:      a         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               b         (K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns (`x.T` of an (N, K))
               c         (M', N), rows contiguous, of any of these types; rows that `target` does not name stay as they are
               source    (R), int32: rows of a; one outside, or negative, counts as a row of zeros
               target    (R), int32: rows of c; one outside, or negative, is left out. Of equal ones any may win
               programs  how many persistent programs: one per SM, never more than output tiles
               blackwell for `blackwell_kernel`
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of_rank(2, a=a, b=b, c=c)
    of_rank(1, source=source, target=target)
    programs = persistent(programs)
    for name, matrix in (("a", a), ("b", b), ("c", c)):
        if str(matrix.dtype).removeprefix("torch.") not in TYPES:
            raise ValueError(f"{name} is {matrix.dtype}; it may be {', '.join(TYPES)}")
    for name, numbers in (("source", source), ("target", target)):
        if str(numbers.dtype).removeprefix("torch.") != "int32":
            raise ValueError(f"{name} is {numbers.dtype}; row numbers are int32")
    (_, k), (k_b, n), (rows, ) = a.shape, b.shape, source.shape
    if k != k_b or c.shape[1] != n:
        raise ValueError(f"a is {a.shape[0]} x {k} and b is {k_b} x {n}, so c should have {n} columns with equal inner extents; "
                         f"c is {' x '.join(map(str, c.shape))}")
    if tuple(target.shape) != (rows, ):
        raise ValueError(f"there are {rows} rows to read and {target.shape[0]} to write; each product row has one of both")
    if a.dtype != b.dtype and (a.dtype.itemsize, b.dtype.itemsize) != (1, 1):
        raise ValueError(f"a is {a.dtype} and b is {b.dtype}: both must be one type, or both fp8")
    b_is_nk = _strides(b)[0] == 1 and _strides(b)[1] != 1 or n == 1
    if a.dtype.itemsize != 2 and not b_is_nk:
        raise ValueError(f"b of {b.dtype} must be contiguous along K, as wgmma reads 8-bit and 32-bit operands only so: "
                         "pass the transpose of an (N, K) row-major matrix")
    b = b.T if b_is_nk else b
    for name, matrix in (("a", a), ("b, as it lies in memory,", b), ("c", c)):
        row, step = _strides(matrix)
        if step != 1 or row * matrix.dtype.itemsize % 16:
            raise ValueError(f"the rows of {name} must be contiguous and a multiple of 16 bytes apart for TMA; its strides are "
                             f"{row * matrix.dtype.itemsize} and {step * matrix.dtype.itemsize} bytes")
    chosen = chosen or Configuration()
    meta = chosen.meta(a.dtype.itemsize, c.dtype.itemsize, b_is_nk, blackwell)
    describe = mimw.TensorDescriptor.from_tensor
    b_block = [meta["BN"], meta["BK"]] if b_is_nk else [meta["BK"], meta["BN"]]
    tiles = -(-rows // chosen.bm) * -(-n // chosen.bn)
    args = (describe(a, [1, meta["BK"]]), describe(b, b_block), describe(c, [1, meta["BN"] // meta["PIECES"]]), source, target,
            rows, n, k, c.shape[0])
    return (min(programs, tiles), ), args, {**meta, "num_warps": 4}


def _strides(matrix) -> tuple[int, int]:
    """Strides in elements of a numpy or torch matrix."""
    if hasattr(matrix, "strides"):
        return tuple(step // matrix.itemsize for step in matrix.strides)
    return tuple(matrix.stride())


def gather_matmul_scatter(a, b, c, source, target, chosen: Configuration | None = None):
    """c[target] = a[source] @ b on the GPU that holds them, in place; arguments and errors as `arguments`. The result is c."""
    import torch
    on_one_gpu("gather_matmul_scatter", a=a, b=b, c=c, source=source, target=target)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    blackwell = torch.cuda.get_device_capability(a.device)[0] == 10
    grid, args, meta = arguments(a, b, c, source, target, programs, chosen, blackwell)
    (blackwell_kernel if blackwell else kernel)[grid](*args, **meta)
    return c
