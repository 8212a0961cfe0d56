"""2-simplicial attention that takes any strides, head dims and groups of heads and runs on any GPU, in bf16, fp16 and fp32.

Input: q as (batch, heads, seq_q, dim), k, v, k2 and v2 as (batch, kv_heads, seq_k, dim). Output: o, and the logarithms of the
softmax's denominators. For example:

    arguments(q, k, v, k2, v2, o, lse)      (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, numpy or torch
    gradient_arguments(q, k, v, k2, v2, do, lse, delta, dq, dk, dv, dk2, dv2)       (kernel, grid, args, meta) of two launches

What is computed `mimw.kernels.simplicial_attention` says.
"""

from __future__ import annotations

from math import e, log2

from ..attention.changes import scale_of
from ..contract import Contract
from ..contract.memory import strides
from ..plain_attention.nouns import Steps
from ..simplicial_attention import FITS, WINDOWS, tensors
from .backward import of_keys, of_queries
from .configs import gradient_meta
from .configs import meta as compile_time
from .kernel import plain_simplicial_attention as kernel
from .nouns import Inputs, Problem, StepsBackward, StepsForward

__all__ = ["CONTRACT", "GRADIENT", "arguments", "gradient_arguments", "kernel", "of_keys", "of_queries"]

NUMBERS = "fp32 (batch, heads, seq_q)"
KEYS = "(batch, kv_heads, seq_k, dim) contiguous"
CONTRACT = Contract(*tensors("float", "", "o"), f"lse: {NUMBERS}", *FITS)
GRADIENT = Contract(*tensors("float", "", "do"), f"lse: {NUMBERS}", f"delta: {NUMBERS} contiguous",
                    "dq: any (batch, heads, seq_q, dim) contiguous", f"dk: any {KEYS}", f"dv: any {KEYS}", f"dk2: fp32 {KEYS}",
                    f"dv2: fp32 {KEYS}", *FITS)


def arguments(q, k, v, k2, v2, o, lse, windows: tuple[int, int] = WINDOWS, scale: float | None = None,
              exact: bool = False) -> tuple[tuple[int, int], tuple, dict]:
    """(grid, args, meta) that compute o and lse.

    args:      q         (batch, heads, seq_q, dim) of bf16, fp16 or fp32, any strides
               k, v, k2, v2   (batch, kv_heads, seq_k, dim) of q's type, seq_k >= seq_q; kv_heads divides heads
               o         like q
               lse       (batch, heads, seq_q) fp32, contiguous
               windows   how many keys and second keys a query sees: its own and those before it
               scale     of the logits, any number; by default 1 / sqrt(dim)
               exact     fp32 products as fp32 has them; else as tf32
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    arrays = dict(q=q, k=k, v=v, k2=k2, v2=v2, o=o)
    of = CONTRACT.check(**arrays, lse=lse, windows=windows)
    batch, heads, seq_q, dim, kv_heads, seq_k = of.batch, of.heads, of.seq_q, of.dim, of.kv_heads, of.seq_k
    meta = compile_time(heads // kv_heads, seq_q, seq_k, dim, q.dtype.itemsize, exact)
    steps = StepsForward(*(Steps(*strides(x)) for x in arrays.values()))
    problem = Problem(float(scale_of(scale, dim)) * log2(e), kv_heads, seq_q, seq_k, *windows)
    grid = -(-seq_q * (heads // kv_heads) // meta["FORM"].BM.value), batch * kv_heads
    return grid, (*arrays.values(), lse, problem, steps), meta


def gradient_arguments(q, k, v, k2, v2, do, lse, delta, dq, dk, dv, dk2, dv2, windows: tuple[int, int] = WINDOWS,
                       scale: float | None = None, exact: bool = False) -> list[tuple]:
    """(kernel, grid, args, meta) of the launches that compute dq, and dk and dv with dk2 and dv2.

    args:      q ... v2      as of `arguments`
               do            the gradient of o, of q's shape and type, any strides
               lse           of `arguments`
               delta         (batch, heads, seq_q) fp32, contiguous: sum(o do) along the head dim, less the gradient of lse
               dq, dk, dv    like q and k, contiguous, of any type
               dk2, dv2      like k, contiguous, fp32, 0 before; shares are added to them in any order
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    arrays = dict(q=q, k=k, v=v, k2=k2, v2=v2, do=do)
    of = GRADIENT.check(**arrays, lse=lse, delta=delta, dq=dq, dk=dk, dv=dv, dk2=dk2, dv2=dv2, windows=windows)
    batch, heads, seq_q, dim, kv_heads, seq_k = of.batch, of.heads, of.seq_q, of.dim, of.kv_heads, of.seq_k
    group = heads // kv_heads
    problem = Problem(float(scale_of(scale, dim)), kv_heads, seq_q, seq_k, *windows)
    steps = StepsBackward(*(Steps(*strides(x)) for x in arrays.values()))
    meta = gradient_meta(group, seq_q, seq_k, dim, q.dtype.itemsize, exact)
    rows, keys = -(-seq_q * group // meta["FORM"].BM.value), -(-seq_k // meta["FORM"].BN.value)
    inputs = Inputs(**arrays)
    return [(of_queries, (rows, batch * kv_heads), (inputs, lse, delta, dq, problem, steps), meta),
            (of_keys, (keys, batch * kv_heads), (inputs, lse, delta, dk, dv, dk2, dv2, problem, steps), meta)]
