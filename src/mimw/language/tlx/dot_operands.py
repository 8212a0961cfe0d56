"""Requirements of asynchronous products on their operands on every chip: element types, and the depth K.

Input: element types and shapes of A (M, K) and B (K, N). Output: nothing, or an error at the author's line. For example:

    check_types(tl.float16, tl.bfloat16)                       AssertionError: both operands must have the same dtype
    check_depth((64, 32), (64, 128), tl.float16)               AssertionError: the inner dimensions differ .. K is 32 and 64
"""

from __future__ import annotations

import triton.language.core as tl

from ..refuse import refuse

_SUPPORTED = "f16, bf16, f32 (as tf32), fp8 (e5m2, e4m3), int8"


def check_types(a: tl.dtype, b: tl.dtype) -> None:
    """An error unless the tensor cores multiply elements of these types."""
    for name, dtype in (("A", a), ("B", b)):
        known = dtype.is_fp8e5() or dtype.is_fp8e4nv() or dtype in (tl.float16, tl.bfloat16, tl.float32, tl.int8)
        if not known:
            refuse(AssertionError, f"async_dot: unsupported dtype {dtype} of {name}; supported are {_SUPPORTED}",
                   mend=f"convert {name} first")
    if a != b and (not a.is_fp8() or not b.is_fp8()):
        refuse(AssertionError, f"async_dot: both operands must have the same dtype, got {a} and {b}",
               mend="convert one of them first")


def check_depth(a: tuple[int, int], b: tuple[int, int], dtype: tl.dtype) -> None:
    """An error unless both have one K, of whole steps of 32 bytes."""
    k, k_b = a[1], b[0]
    if k != k_b:
        refuse(AssertionError, f"async_dot: the inner dimensions differ: A is {list(a)}, B is {list(b)}, so K is {k} and {k_b}",
               mend="pass tlx.local_trans(B) if B is stored as (N, K)")
    step = 32 * 8 // dtype.primitive_bitwidth
    if k < 16:
        refuse(AssertionError, f"async_dot: K must be at least 16, got K = {k}", mend="load larger tiles along K, or use tl.dot")
    if k % step != 0:
        refuse(AssertionError, f"async_dot: K must be a multiple of {step} for {dtype} (32 bytes), got K = {k}",
               mend=f"load tiles of {step}, {2 * step}, ... along K")
