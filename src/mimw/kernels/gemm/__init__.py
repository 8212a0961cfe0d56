"""GEMM for Hopper: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs, fp32 accumulation.

Input: a (M, K) and b (K, N). Output: c = a b, (M, N). For example:

    matmul(a, b)                    on torch tensors of a GPU
    arguments(a, b, c, programs)    (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, for numpy or torch
"""

from __future__ import annotations

import mimw

from ..checks import of_rank, on_one_gpu, persistent
from .configs import Configuration, configuration
from .kernel import gemm as kernel

TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")

__all__ = ["Configuration", "arguments", "configuration", "kernel", "matmul"]


def arguments(a, b, c, programs: int, chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = a b.

    args:      a         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               b         (K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns (`x.T` of an (N, K))
               c         (M, N), rows contiguous, of any of these types
               programs  how many persistent programs: one per SM, never more than output tiles
               chosen    by default the measured configuration of the nearest shape
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of_rank(2, a=a, b=b, c=c)
    programs = persistent(programs)
    for name, matrix in (("a", a), ("b", b), ("c", c)):
        if str(matrix.dtype).removeprefix("torch.") not in TYPES:
            raise ValueError(f"{name} is {matrix.dtype}; it may be {', '.join(TYPES)}")
    (m, k), (k_b, n), in_bytes, out_bytes = a.shape, b.shape, a.dtype.itemsize, c.dtype.itemsize
    if k != k_b or tuple(c.shape) != (m, n):
        raise ValueError(f"a is {m} x {k} and b is {k_b} x {n}, so c should be {m} x {n} with equal inner extents; "
                         f"c is {' x '.join(map(str, c.shape))}")
    if a.dtype != b.dtype and (in_bytes, b.dtype.itemsize) != (1, 1):
        raise ValueError(f"a is {a.dtype} and b is {b.dtype}: both must be one type, or both fp8")
    b_is_nk = _strides(b)[0] == 1 and _strides(b)[1] != 1 or n == 1
    if in_bytes != 2 and not b_is_nk:
        raise ValueError(f"b of {b.dtype} must be contiguous along K, as wgmma reads 8-bit and 32-bit operands only so: "
                         "pass the transpose of an (N, K) row-major matrix")
    b = b.T if b_is_nk else b
    for name, matrix in (("a", a), ("b, as it lies in memory,", b), ("c", c)):
        row, step = _strides(matrix)
        if step != 1 or row * matrix.dtype.itemsize % 16:
            raise ValueError(f"the rows of {name} must be contiguous and a multiple of 16 bytes apart for TMA; its strides are "
                             f"{row * matrix.dtype.itemsize} and {step * matrix.dtype.itemsize} bytes")
    chosen = chosen or configuration(m, n, k, in_bytes)
    meta = chosen.meta(in_bytes, out_bytes, b_is_nk)
    describe = mimw.TensorDescriptor.from_tensor
    b_block = [meta["BN"], meta["BK"]] if b_is_nk else [meta["BK"], meta["BN"]]
    tiles = -(-m // chosen.bm) * -(-n // chosen.bn)
    args = (describe(a, [meta["BM"], meta["BK"]]), describe(b, b_block),
            describe(c, [chosen.rows(), meta["BN"] // meta["PIECES"]]), m, n, k)
    return (min(programs, tiles), ), args, {**meta, "num_warps": 4}


def _strides(matrix) -> tuple[int, int]:
    """Strides in elements of a numpy or torch matrix."""
    if hasattr(matrix, "strides"):
        return tuple(step // matrix.itemsize for step in matrix.strides)
    return tuple(matrix.stride())


def matmul(a, b, out=None, out_dtype=None, chosen: Configuration | None = None):
    """a @ b on the GPU that holds them; arguments and errors as `arguments`. fp8 inputs give bf16 unless `out_dtype` says."""
    import torch
    on_one_gpu("matmul", a=a, b=b, **({} if out is None else {"out": out}))
    of_rank(2, a=a, b=b)
    if out is None:
        out_dtype = out_dtype or (torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype)
        out = torch.empty(a.shape[0], b.shape[1], dtype=out_dtype, device=a.device)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    grid, args, meta = arguments(a, b, out, programs, chosen)
    kernel[grid](*args, **meta)
    return out
