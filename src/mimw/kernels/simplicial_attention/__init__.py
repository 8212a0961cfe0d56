"""2-simplicial attention for Hopper (Roy et al. 2025, "Fast and Simplex"): bf16 and fp16, head dims 64 and 128, two windows.

Input: q as (batch, heads, seq_q, dim), k, v, k2 and v2 as (batch, kv_heads, seq_k, dim), torch tensors, or numpy arrays for the
simulator. Output: o, and the logarithms of the softmax's denominators. For example:

    simplicial_attention(q, k, v, k2, v2)                       on torch tensors of a GPU
    arguments(q, k, v, k2, v2, o, lse, programs)                (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

Query i is at position p = i + seq_k - seq_q. A logit is scale sum_d q_id k_jd k2_kd, for keys p - window < j <= p and second keys
p - window2 < k <= p; the softmax is over pairs (j, k), and o_id = sum_jk p_ijk v_jd v2_kd.
"""

from __future__ import annotations

from math import e, log2, sqrt

import mimw

from ..checks import of_rank, on_one_gpu, one_of, persistent, rows_for_tma, strides
from .configs import HEAD_DIMS, HEADS, Configuration, configuration
from .kernel import simplicial_attention as kernel

__all__ = ["HEADS", "HEAD_DIMS", "WINDOWS", "Configuration", "arguments", "configuration", "kernel", "simplicial_attention"]

WINDOWS = 512, 32       # of the paper's models


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
    arrays = dict(q=q, k=k, v=v, k2=k2, v2=v2, o=o)
    of_rank(4, **arrays)
    of_rank(3, lse=lse)
    programs = persistent(programs)
    batch, heads, seq_q, dim = map(int, q.shape)
    check_shapes(q, k, v, k2, v2, o, lse, windows)
    if dim not in HEAD_DIMS or heads // k.shape[1] % HEADS:
        raise ValueError(f"the head dim is {dim} and {heads // k.shape[1]} query heads share keys; it may be "
                         f"{' or '.join(map(str, HEAD_DIMS))}, and they a multiple of {HEADS}")
    one_of(("bfloat16", "float16"), **arrays)
    rows_for_tma(**arrays)
    scale = 1 / sqrt(dim) if scale is None else scale
    if not scale > 0:
        raise ValueError(f"scale is {scale}, it must be more than 0")
    chosen = chosen or configuration(dim)
    group = heads // k.shape[1]
    describe = mimw.TensorDescriptor.from_tensor
    rows, keys = [1, HEADS, 1, dim], [1, 1, chosen.bn, dim]
    steps = [step for x in (k2, v2) for step in strides(x)[:3]]
    args = (describe(q, rows), describe(k, keys), describe(v, keys), describe(o, rows), k2, v2, lse, scale * log2(e), batch, heads,
            seq_q, int(k.shape[2]), *windows, *steps)
    tiles = batch * heads // HEADS * seq_q
    return (min(programs, tiles), ), args, chosen.meta(dim, group)


def check_shapes(q, k, v, k2, v2, o, lse, windows) -> None:
    """ValueError where shapes, types or windows do not fit each other."""
    batch, heads, seq_q, dim = q.shape
    shared = (batch, k.shape[1], k.shape[2], dim)
    for name, x in (("k", k), ("v", v), ("k2", k2), ("v2", v2)):
        if tuple(x.shape) != shared or heads % k.shape[1]:
            raise ValueError(f"{name} is {_by(x)}, k {_by(k)} and q {_by(q)}: k, v, k2 and v2 must be alike, of q's batch "
                             "and head dim, and their heads must divide q's")
        if x.dtype != q.dtype:
            raise ValueError(f"{name} is {x.dtype} and q {q.dtype}; all must be of one type")
    if k.shape[2] < seq_q:
        raise ValueError(f"{seq_q} queries on {k.shape[2]} keys: the last query is at the last key, and the first would see none")
    if tuple(o.shape) != tuple(q.shape) or tuple(lse.shape) != (batch, heads, seq_q):
        raise ValueError(f"o is {_by(o)} and lse {_by(lse)}; for q {_by(q)} they must be that and {batch} x {heads} x {seq_q}")
    if o.dtype != q.dtype or str(lse.dtype).removeprefix("torch.") != "float32":
        raise ValueError(f"o is {o.dtype} and lse {lse.dtype}; they must be {q.dtype} and float32")
    if len(windows) != 2 or any(not hasattr(one, "__index__") or one < 1 for one in windows):
        raise ValueError(f"windows are {windows}; they must be two whole numbers of 1 or more")


def _by(x) -> str:
    return " x ".join(map(str, x.shape))


def simplicial_attention(q, k, v, k2, v2, windows: tuple[int, int] = WINDOWS, scale: float | None = None,
                         chosen: Configuration | None = None):
    """(o, lse) on the GPU that holds q, k, v, k2 and v2; arguments and errors as `arguments`."""
    import torch
    on_one_gpu("simplicial_attention", q=q, k=k, v=v, k2=k2, v2=v2)
    of_rank(4, q=q)
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    programs = torch.cuda.get_device_properties(q.device).multi_processor_count
    grid, args, meta = arguments(q, k, v, k2, v2, o, lse, programs, windows, scale, chosen)
    kernel[grid](*args, **meta)
    return o, lse
