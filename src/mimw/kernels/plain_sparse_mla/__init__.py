"""Sparse MLA that takes any number of heads and columns and runs on any GPU, in bf16, fp16 and fp32.

Input: q, the cache kv, and for each query a list of rows of kv with its length. Output: out, and lse. For example:

    arguments(q, kv, indices, lengths, out, lse)    (grid, args, meta) of a launch or `mimw.simulate` of `kernel`,
                                                    numpy or torch
"""

from __future__ import annotations

from ..contract import Contract
from ..sparse_mla import tensors
from .configs import meta as compile_time
from .kernel import plain_sparse_mla as kernel
from .nouns import Problem

__all__ = ["CONTRACT", "arguments", "kernel"]

CONTRACT = Contract(*tensors("float"), "HKV > 0 and H % HKV == 0 -- H must be HKV equal groups of heads",
                    "1 <= DV <= W -- values are 1 to all of the columns")


def arguments(q, kv, indices, lengths, out, lse, scale: float | None = None, causal: bool = False, base_2: bool = False,
              exact: bool = False, wide: bool = False) -> tuple[tuple[int, int, int], tuple, dict]:
    """(grid, args, meta) that fill out and lse.

    args:      as those of `mimw.kernels.sparse_mla.arguments`, all contiguous, with any H that HKV divides, any DV from 1 to the
               width of a row, and q, kv and out of bf16, fp16 or fp32
               exact    fp32 products as fp32 has them; else as tf32
               wide     the chip is sm_90 or has as much shared memory: 64 heads a program for 2-byte types
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of = CONTRACT.check(q=q, kv=kv, indices=indices, lengths=lengths, out=out, lse=lse)
    b, s, h, width, skv, hkv, topk, dv = of.B, of.S, of.H, of.W, of.SKV, of.HKV, of.TOPK, of.DV
    meta = compile_time(h // hkv, dv, width, q.dtype.itemsize, wide, causal, base_2, exact)
    problem = Problem(width**-0.5 if scale is None else float(scale), s, h, skv, hkv, topk, width, dv)
    grid = s, b * hkv, -(-(h // hkv) // meta["FORM"].BH.value)
    return grid, (q, kv, indices, lengths, out, lse, problem), meta
