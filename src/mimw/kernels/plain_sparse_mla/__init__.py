"""Sparse MLA that takes any number of heads and columns and runs on any GPU, in bf16, fp16 and fp32.

Input: q, the cache kv, and for each query a list of rows of kv with its length. Output: out, and lse. For example:

    arguments(q, kv, indices, lengths, out, lse)    (grid, args, meta) of a launch or `mimw.simulate` of `kernel`,
                                                    numpy or torch
"""

from __future__ import annotations

from .configs import meta as compile_time
from .kernel import plain_sparse_mla as kernel

__all__ = ["arguments", "kernel"]

TYPES = ("bfloat16", "float16", "float32")


def arguments(q, kv, indices, lengths, out, lse, scale: float | None = None, causal: bool = False, base_2: bool = False,
              exact: bool = False, wide: bool = False) -> tuple[tuple[int, int, int], tuple, dict]:
    """(grid, args, meta) that fill out and lse.

    args:      as those of `mimw.kernels.sparse_mla.arguments`, all contiguous, with any H that HKV divides, any DV from 1 to the
               width of a row, and q, kv and out of bf16, fp16 or fp32
               exact    fp32 products as fp32 has them; else as tf32
               wide     the chip is sm_90 or has as much shared memory: 64 heads a program for 2-byte types
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    (b, s, h, width), (_, skv, hkv, _), dv, topk = q.shape, kv.shape, out.shape[-1], indices.shape[-1]
    expected = {"q": (b, s, h, width), "kv": (b, skv, hkv, width), "indices": (b, s, hkv, topk), "lengths": (b, s, hkv),
                "out": (b, s, h, dv), "lse": (b, s, h)}
    for (name, shape), array in zip(expected.items(), (q, kv, indices, lengths, out, lse)):
        if tuple(array.shape) != shape:
            raise ValueError(f"{name} must have the shape {shape}, it has {tuple(array.shape)}")
    if hkv == 0 or h % hkv:
        raise ValueError(f"the {h} heads must be {hkv} equal groups")
    if not 1 <= dv <= width:
        raise ValueError(f"rows of {width} columns with values of {dv}: the values are 1 to all of the columns")
    if str(q.dtype).removeprefix("torch.") not in TYPES or any(x.dtype != q.dtype for x in (kv, out)):
        raise ValueError(f"q, kv and out are {q.dtype}, {kv.dtype} and {out.dtype}: all must be of one type of {', '.join(TYPES)}")
    meta = compile_time(h // hkv, dv, width, q.dtype.itemsize, wide)
    args = (q, kv, indices, lengths, out, lse, width**-0.5 if scale is None else float(scale), s, h, skv, hkv, topk, width, dv)
    return (s, b * hkv, -(-(h // hkv) // meta["BH"])), args, {**meta, "CAUSAL": causal, "BASE_2": base_2,
                                                             "EXACT": exact and q.dtype.itemsize == 4}
