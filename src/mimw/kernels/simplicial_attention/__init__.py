"""2-simplicial attention for Hopper (Roy et al. 2025, "Fast and Simplex"): bf16 and fp16, head dims 64 and 128, two windows.

Input: q as (batch, heads, seq_q, dim), k, v, k2 and v2 as (batch, kv_heads, seq_k, dim), torch tensors, or numpy arrays for the
simulator. Output: o, and the logarithms of the softmax's denominators. For example:

    arguments(q, k, v, k2, v2, o, lse, programs)                (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

Query i is at position p = i + seq_k - seq_q. A logit is scale sum_d q_id k_jd k2_kd, for keys p - window < j <= p and second keys
p - window2 < k <= p; the softmax is over pairs (j, k), and o_id = sum_jk p_ijk v_jd v2_kd.
"""

from __future__ import annotations

from math import e, log2

import mimw

from ..attention.changes import SCALE, scale_of
from ..checks import PROGRAMS
from ..contract import Contract
from ..contract.memory import strides
from .configs import HEAD_DIMS, HEADS, Configuration, configuration
from .kernel import simplicial_attention as kernel
from .nouns import Problem, Steps, StepsOfSeconds

__all__ = ["CONTRACT", "FITS", "HEADS", "HEAD_DIMS", "WINDOWS", "Configuration", "arguments", "configuration", "kernel", "tensors"]

WINDOWS = 512, 32       # of the paper's models
FITS = (                # rules of contracts
    "kv_heads > 0 and heads % kv_heads == 0 -- the heads of the keys must divide those of q",
    "seq_k >= seq_q -- the last query is at the last key, and the first would see none",
    "len(windows) == 2 and whole(max(windows)) and whole(min(windows)) and min(windows) >= 1 -- windows must be two whole numbers "
    "of 1 or more")


def tensors(types: str, memory: str, *like_queries: str) -> tuple[str, ...]:
    """The lines of contracts for q, k, v, k2, v2, and tensors like q."""
    keys = (f"{name}: =q (batch, kv_heads, seq_k, dim){memory}" for name in ("k", "v", "k2", "v2"))
    return (f"q: {types} (batch, heads, seq_q, dim){memory}", *keys,
            *(f"{name}: =q (batch, heads, seq_q, dim){memory}" for name in like_queries))


OF_HOPPER = (f"dim in {HEAD_DIMS} and heads // kv_heads % {HEADS} == 0 -- the head dim may be {' or '.join(map(str, HEAD_DIMS))}, "
             f"and the query heads that share keys must be a multiple of {HEADS}")
CONTRACT = Contract(*tensors("bf16|fp16", " tma", "o"), "lse: fp32 (batch, heads, seq_q)", *FITS, OF_HOPPER, SCALE, PROGRAMS)


def arguments(q, k, v, k2, v2, o, lse, programs: int, windows: tuple[int, int] = WINDOWS, scale: float | None = None,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute o and the logarithms of the softmax's denominators.

    args:      q         (batch, heads, seq_q, dim) of bf16 or fp16, dim 64 or 128, contiguous along dim, the other strides
                         multiples of 16 bytes, as those of all others
               k, v, k2, v2   (batch, kv_heads, seq_k, dim), seq_k >= seq_q; heads / kv_heads is a multiple of 64
               o         like q
               lse       (batch, heads, seq_q) fp32, contiguous
               programs  how many persistent programs: one per SM
               windows   how many keys and second keys a query sees, 1 or more of each: its own and those before it
               scale     of the logits, more than 0; by default 1 / sqrt(dim)
               chosen    by default the configuration of the head dim
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    of = CONTRACT.check(q=q, k=k, v=v, k2=k2, v2=v2, o=o, lse=lse, windows=windows, scale=scale, programs=programs)
    batch, heads, seq_q, dim, scale = of.batch, of.heads, of.seq_q, of.dim, scale_of(scale, of.dim)
    chosen = chosen or configuration(dim)
    group = heads // of.kv_heads
    describe = mimw.TensorDescriptor.from_tensor
    rows, keys = [1, HEADS, 1, dim], [1, 1, chosen.bn, dim]
    steps = StepsOfSeconds(*(Steps(*strides(x)[:3]) for x in (k2, v2)))
    args = (describe(q, rows), describe(k, keys), describe(v, keys), describe(o, rows), k2, v2, lse,
            Problem(scale * log2(e), batch, heads, seq_q, of.seq_k, *windows), steps)
    tiles = batch * heads // HEADS * seq_q
    return (min(programs, tiles), ), args, chosen.meta(dim, group)
