"""Products of groups of rows for Hopper, the sizes of the groups on the device: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs.

Input: a (M, K) of rows in groups, b (G, K, N), and the row behind each group's last one. Output: c (M, N). For example:

    grouped_matmul(a, b, ends)                      on torch tensors of a GPU; ends = tensor([5, 5, 9]): 5, no and 4 rows
    arguments(a, b, c, ends, programs)              (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

Sums are fp32. Rows behind the last group stay as they are.
"""

from __future__ import annotations

import mimw

from ..checks import of_rank, on_one_gpu, one_of, persistent, rows_for_tma, strides
from ..descriptors import described
from .configs import Configuration, configuration
from .kernel import grouped_gemm as kernel

TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")
FAR, WRAP = 2**30, 2**34        # of the map that ends where a group does: kernel.py

__all__ = ["Configuration", "arguments", "configuration", "grouped_matmul", "kernel", "ragged"]


def arguments(a, b, c, ends, programs: int, chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c[start of g : ends[g]] = a[start of g : ends[g]] b[g], where group g starts at ends[g - 1].

    args:      a         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2; M below 2^30
               b         (G, K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns (`x.mT` of (G, N, K))
               c         (M, N), rows contiguous, of any of these types; rows that are in no group stay as they are
               ends      (G, ) int32, ascending, the last at most M; read on the device
               programs  how many persistent programs: one per SM
               chosen    by default by the rows that a group has on average
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of_rank(2, a=a, c=c)
    of_rank(3, b=b)
    of_rank(1, ends=ends)
    programs = persistent(programs)
    one_of(TYPES, a=a, b=b, c=c)
    one_of(("int32", ), ends=ends)
    (m, k), (groups, k_b, n), in_bytes, out_bytes = a.shape, b.shape, a.dtype.itemsize, c.dtype.itemsize
    if k != k_b or tuple(c.shape) != (m, n):
        raise ValueError(f"a is {m} x {k} and b is {groups} x {k_b} x {n}, so c should be {m} x {n} with equal inner extents; "
                         f"c is {' x '.join(map(str, c.shape))}")
    if ends.shape[0] != groups or strides(ends)[0] != 1 and groups != 1:
        raise ValueError(f"ends has {ends.shape[0]} elements, {strides(ends)[0]} apart; it must have one for each of {groups} "
                         "groups, one behind the other")
    if a.dtype != b.dtype and (in_bytes, b.dtype.itemsize) != (1, 1):
        raise ValueError(f"a is {a.dtype} and b is {b.dtype}: both must be one type, or both fp8")
    b_is_nk = strides(b)[1] == 1 and strides(b)[2] != 1 or n == 1
    if in_bytes != 2 and not b_is_nk:
        raise ValueError(f"b of {b.dtype} must be contiguous along K, as wgmma reads 8-bit and 32-bit operands only so: "
                         "pass the transpose of a (G, N, K) array")
    b = b.swapaxes(1, 2) if b_is_nk else b
    rows_for_tma(a=a, **{"b, as it lies in memory,": b}, c=c)
    chosen = chosen or configuration(m, groups)
    meta = chosen.meta(in_bytes, out_bytes, b_is_nk)
    b_block = [1, meta["BN"], meta["BK"]] if b_is_nk else [1, meta["BK"], meta["BN"]]
    tiles = (groups + -(-m // chosen.bm)) * -(-n // chosen.bn)
    args = (described(a, [meta["BM"], meta["BK"]]), described(b, b_block), ragged(c, chosen.rows(), meta["BN"] // meta["PIECES"]),
            ends, groups, n, k)
    return (min(programs, tiles), ), args, {**meta, "num_warps": 4}


def ragged(c, rows: int, columns: int):
    """The descriptor of blocks of a matrix that end with a group's rows, by three coordinates for a row: see kernel.py."""
    stride = strides(c)[0] if c.shape[0] > 1 else -(-c.shape[1] * c.dtype.itemsize // 16) * 16 // c.dtype.itemsize
    shape, steps = [FAR + 1, FAR + 1, FAR, c.shape[1]], [WRAP - stride, stride, stride, 1]
    return mimw.TensorDescriptor(c, shape, steps, [1, 1, rows, columns])


def grouped_matmul(a, b, ends, out=None, out_dtype=None, chosen: Configuration | None = None):
    """The product of each group on the GPU that holds them, as `torch._grouped_mm(a, b, offs=ends)`; arguments and errors as
    `arguments`. fp8 inputs give bf16 unless `out_dtype` says. Rows in no group are not written: without `out` they are anything."""
    import torch
    on_one_gpu("grouped_matmul", a=a, b=b, ends=ends, **({} if out is None else {"out": out}))
    of_rank(2, a=a)
    of_rank(3, b=b)
    if out is None:
        out_dtype = out_dtype or (torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype)
        out = torch.empty(a.shape[0], b.shape[2], dtype=out_dtype, device=a.device)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    grid, args, meta = arguments(a, b, out, ends, programs, chosen)
    kernel[grid](*args, **meta)
    return out
