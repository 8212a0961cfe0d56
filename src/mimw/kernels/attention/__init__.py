"""Attention forward for Hopper: bf16 and fp16, head dims 64, 96, 128, 192 (with values of 128) and 256, any lengths, grouped
queries, causal or with a sliding window, soft cap, attention sinks, ALiBi.

Input: q, k and v as (batch, heads, length, dim), torch tensors, or numpy arrays for the simulator. Output: o =
softmax(scale q k^T) v, and with it the logarithms of the softmax's denominators. For example:

    attention(q, k, v)                              on torch tensors of a GPU
    arguments(q, k, v, o, lse, counter, programs)   (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

With p = i + seq_k - seq_q the position of query i among the keys, a score is s = scale q_i k_j, with a soft cap
softcap tanh(s / softcap), with ALiBi less slope |p - j| after that, and counts where p - left <= j <= p + right. A sink is
one score more in the sum of a row, with no value. Soft caps take the chip's tanh.approx: its relative error is at most 2^-11 (PTX
ISA), which changes a capped score s by up to |s| / 2048; the simulator computes a tanh of fp32.
"""

from __future__ import annotations

from math import e, log2, sqrt

import mimw

from ..checks import of_rank, on_one_gpu, persistent
from .changes import bounds, check_changes, slopes_step
from .configs import HEAD_DIMS, PARTS, VALUES, Configuration, configuration, heads_in_band, value_dim
from .kernel import attention as kernel

__all__ = ["Configuration", "arguments", "attention", "configuration", "kernel"]

LONGEST_WITH_SLOPES = 1 << 22    # queries and keys: distances are floats of 22 bits


def arguments(q, k, v, o, lse, counter, programs: int, causal: bool = False, scale: float | None = None,
              chosen: Configuration | None = None, *, window: tuple[int | None, int | None] = (None, None),
              softcap: float | None = None, sinks=None, slopes=None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute o = softmax(scale q k^T) v and the logarithms of the softmax's denominators.

    args:      q         (batch, heads, seq_q, dim) of bf16 or fp16, dim 64, 96, 128, 192 or 256, contiguous along dim; the other
                         strides are multiples of 16 bytes
               k, v      (batch, kv_heads, seq_k, dim), but v's dim is 128 where that of q and k is 192; kv_heads divides heads, and
                         head h reads kv head h * kv_heads // heads
               o         (batch, heads, seq_q, dim of v)
               lse       (batch, heads, seq_q) fp32, contiguous
               counter   one int32, 0 before and after a launch, for one launch at a time
               programs  how many persistent programs: one per SM, never more than output tiles
               causal    query i sees keys up to i + seq_k - seq_q: the last query sees all
               scale     of the scores, more than 0; by default 1 / sqrt(dim)
               chosen    by default the measured configuration of the head dim
               window    (left, right): how many keys before and after its own position a query sees, 0 or more; None is no bound.
                         With causal the right bound is 0. Blocks of keys that no query of a tile sees are not looked at
               softcap   more than 0: scores become softcap tanh(score / softcap); None leaves them
               sinks     (heads) fp32, contiguous: a logit of each head that joins the denominators, so that lse has it, too
               slopes    (heads) or (batch, heads) fp32, contiguous: ALiBi, for up to 2^22 queries and keys together
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    of_rank(4, q=q, k=k, v=v, o=o)
    of_rank(3, lse=lse)
    of_rank(1, counter=counter)
    programs = persistent(programs)
    batch, heads, seq_q, dim = q.shape
    kv_heads, seq_k = k.shape[1], k.shape[2]
    _check_shapes(q, k, v, o, lse, counter)
    for name, x in (("q", q), ("k", k), ("v", v), ("o", o)):
        _check_strides(name, x)
    left, right = bounds(window)
    causal = causal or right == 0
    right = None if causal else right
    if (causal or right is not None) and seq_k + (right or 0) < seq_q:
        raise ValueError(f"{'causal' if causal else f'right bound {right}'}: {seq_q} queries on {seq_k} keys; the first "
                         f"{seq_q - seq_k - (right or 0)} would see none")
    scale = 1 / sqrt(dim) if scale is None else scale
    if not scale > 0:
        raise ValueError(f"scale is {scale}, it must be more than 0")
    check_changes(batch, heads, softcap, sinks, slopes)
    if slopes is not None and seq_q + seq_k > LONGEST_WITH_SLOPES:
        raise ValueError(f"slopes: {seq_q} queries and {seq_k} keys; distances are exact for up to {LONGEST_WITH_SLOPES} of both")
    windowed = left is not None or right is not None
    chosen = chosen or configuration(dim, causal, windowed or any(x is not None for x in (softcap, sinks, slopes)))
    group = heads // kv_heads
    rows = chosen.bm // chosen.consumers
    descs, rests = zip(*(_described(x, of) for x, of in ((q, rows), (k, chosen.bn), (v, chosen.bn), (o, rows))))
    band = heads_in_band(batch * heads, group, seq_k, dim, causal and left is None)
    inner, scale = (None, scale) if softcap is None else (scale / softcap, float(softcap))
    args = (*descs, lse, counter, scale * log2(e), batch, heads, seq_q, seq_k, band, left, right, inner, sinks, slopes,
            slopes_step(slopes), *rests)
    tiles = -(-seq_q // chosen.bm) * batch * heads
    return (min(programs, tiles), ), args, {**chosen.meta(dim, group, causal, seq_q, seq_k, windowed), "num_warps": 4}


def _described(x, rows: int) -> tuple[mimw.TensorDescriptor, mimw.TensorDescriptor | None]:
    """Descriptors of `rows` rows of a head at a time, and of what is left of them where a head is two tiles."""
    first, rest = (mimw.TensorDescriptor.from_tensor(x, [1, 1, rows, width]) if width else None for width in PARTS[x.shape[3]])
    return first, rest


def _check_shapes(q, k, v, o, lse, counter) -> None:
    batch, heads, seq_q, dim = q.shape
    alike = *tuple(k.shape)[:3], value_dim(dim)
    if tuple(v.shape) != alike or (k.shape[0], k.shape[3]) != (batch, dim) or heads % k.shape[1]:
        raise ValueError(f"q is {_by(q)}, k {_by(k)} and v {_by(v)}: k and v must be alike, of q's batch and head dim (v of "
                         f"{VALUES[192]} where that is 192), and their heads must divide q's")
    shape = batch, heads, seq_q, value_dim(dim)
    if tuple(o.shape) != shape or tuple(lse.shape) != (batch, heads, seq_q):
        raise ValueError(f"o is {_by(o)} and lse {_by(lse)}; for q {_by(q)} they must be {' x '.join(map(str, shape))} and "
                         f"{batch} x {heads} x {seq_q}")
    for name, array, wanted in (("lse", lse, "float32"), ("counter", counter, "int32")):
        if str(array.dtype).removeprefix("torch.") != wanted:
            raise ValueError(f"{name} is {array.dtype}; it must be {wanted}")
    if dim not in HEAD_DIMS:
        raise ValueError(f"the head dim is {dim}; it may be {', '.join(map(str, HEAD_DIMS))}")
    if str(q.dtype).removeprefix("torch.") not in ("bfloat16", "float16") or any(x.dtype != q.dtype for x in (k, v, o)):
        raise ValueError(f"q, k, v and o are {q.dtype}, {k.dtype}, {v.dtype} and {o.dtype}: all must be bf16 or all fp16")


def _check_strides(name: str, x) -> None:
    strides = tuple(x.strides) if not callable(getattr(x, "stride", None)) else tuple(s * x.dtype.itemsize for s in x.stride())
    if strides[3] != x.dtype.itemsize or any(stride % 16 for stride in strides[:3]):
        raise ValueError(f"{name} must be contiguous along the head dim and have strides of multiples of 16 bytes for TMA; its "
                         f"strides are {', '.join(map(str, strides))} bytes")


def _by(x) -> str:
    return " x ".join(map(str, x.shape))


def attention(q, k, v, causal: bool = False, scale: float | None = None, chosen: Configuration | None = None, **changes):
    """(o, lse) on the GPU that holds q, k and v; arguments, `changes` (window, softcap, sinks, slopes), errors as `arguments`."""
    import torch
    on_one_gpu("attention", q=q, k=k, v=v)
    of_rank(4, q=q, k=k, v=v)
    o = q.new_empty(*q.shape[:3], VALUES[q.shape[3]]) if q.shape[3] in VALUES else torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    programs = torch.cuda.get_device_properties(q.device).multi_processor_count
    grid, args, meta = arguments(q, k, v, o, lse, counter, programs, causal, scale, chosen, **changes)
    kernel[grid](*args, **meta)
    return o, lse
