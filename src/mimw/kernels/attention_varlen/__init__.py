"""Attention forward on sequences of any lengths, packed one behind the other, for Hopper: where they begin, only the device knows.

Input: q (total_q, heads, dim), k and v (total_k, kv_heads, dim), and cu_seqlens_q and cu_seqlens_k. Output: o =
softmax(scale q k^T) v in each sequence, and the logarithms of the softmax's denominators. For example:

    attention_varlen(q, k, v, cu_q, cu_k, 500, 500)                         on torch tensors of a GPU
    arguments(q, k, v, o, lse, cu_q, cu_k, counter, programs, 500, 500)     (grid, args, meta) of a launch or of
                                                                            `mimw.simulate` of `kernel`

Head dims, masks, windows, soft caps, sinks and ALiBi are those of `mimw.kernels.attention`, with the lengths of each sequence: its
last query sees its last key. Every row of a result is made by one consumer in one order, so the bits are the same in every run.
"""

from __future__ import annotations

from math import e, log2, sqrt

from ..attention.changes import bounds, check_changes, slopes_step
from ..attention.configs import HEAD_DIMS, L2_BYTES, PARTS, VALUES, value_dim
from ..checks import of_rank, on_one_gpu, one_of, persistent, strides
from . import maps
from .configs import Configuration, configuration
from .kernel import attention_varlen as kernel
from .maps import ending, packed, steps

__all__ = ["Configuration", "arguments", "attention_varlen", "configuration", "kernel"]

FAR = maps.FAR.value            # each total of rows is below
LONGEST_WITH_SLOPES = 1 << 22   # queries and keys of a sequence: distances are floats of 22 bits


def arguments(q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, counter, programs: int, max_seqlen_q: int, max_seqlen_k: int,
              causal: bool = False, scale: float | None = None, chosen: Configuration | None = None, *,
              window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, sinks=None,
              slopes=None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute o = softmax(scale q k^T) v and the logarithms of the denominators, sequence by sequence.

    args:      q         (total_q, heads, dim) of bf16 or fp16, dim 64, 96, 128, 192 or 256, contiguous along dim; the other strides
                         are multiples of 16 bytes
               k, v      (total_k, kv_heads, dim), but v's dim is 128 where that of q and k is 192; kv_heads divides heads, and
                         head h reads kv head h * kv_heads // heads. Each total is below 2^30
               o         (total_q, heads, dim of v); rows that are in no sequence stay as they are
               lse       (heads, total_q) fp32, contiguous; likewise
               cu_seqlens_q, cu_seqlens_k   (sequences + 1) int32, ascending from 0 on, contiguous: sequence s has the queries from
                         cu_seqlens_q[s] up to cu_seqlens_q[s + 1], and may have none; read on the device, where nobody checks them
               counter   one int32, 0 before and after a launch, for one launch at a time
               programs  how many persistent programs: one per SM
               max_seqlen_q, max_seqlen_k   no sequence is longer; they choose a configuration and bound the grid
               causal    query i of a sequence sees its keys up to i + length_k - length_q; one that sees none gets o = 0 and lse =
                         -inf, or the head's sink
               scale     of the scores, more than 0; by default 1 / sqrt(dim)
               chosen    by default the measured configuration
               window, softcap, sinks, slopes   as `mimw.kernels.attention.arguments`; slopes (heads) or (sequences, heads)
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    of_rank(3, q=q, k=k, v=v, o=o)
    of_rank(2, lse=lse)
    of_rank(1, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, counter=counter)
    programs = persistent(programs)
    (total_q, heads, dim), kv_heads, sequences = q.shape, k.shape[1], cu_seqlens_q.shape[0] - 1
    _check(q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, counter)
    left, right = bounds(window)
    causal = causal or right == 0
    right = None if causal else right
    scale = 1 / sqrt(dim) if scale is None else scale
    if not scale > 0:
        raise ValueError(f"scale is {scale}, it must be more than 0")
    if min(max_seqlen_q, max_seqlen_k) < 0:
        raise ValueError(f"max_seqlen_q is {max_seqlen_q} and max_seqlen_k {max_seqlen_k}; lengths are 0 or more")
    check_changes(sequences, heads, softcap, sinks, slopes)
    if slopes is not None and max_seqlen_q + max_seqlen_k > LONGEST_WITH_SLOPES:
        raise ValueError(f"slopes: sequences of up to {max_seqlen_q} queries and {max_seqlen_k} keys; distances are exact for up "
                         f"to {LONGEST_WITH_SLOPES} of both")
    windowed = left is not None or right is not None
    chosen = chosen or configuration(dim, causal, windowed or any(x is not None for x in (softcap, sinks, slopes)), max_seqlen_q)
    rows, (width, rest), (v_width, v_rest) = chosen.bm // chosen.consumers, PARTS[dim], PARTS[value_dim(dim)]
    inner, scale = (None, scale) if softcap is None else (scale / softcap, float(softcap))
    args = (packed(q, rows, width), packed(k, chosen.bn, width), ending(v, chosen.bn, v_width), ending(o, rows, v_width), lse,
            cu_seqlens_q, cu_seqlens_k, counter, scale * log2(e), sequences, heads, total_q, L2_BYTES // (4 * dim), left, right,
            inner, sinks, slopes, slopes_step(slopes), packed(q, rows, rest), packed(k, chosen.bn, rest),
            ending(v, chosen.bn, v_rest), ending(o, rows, v_rest))
    meta = dict(BM=chosen.bm, BN=chosen.bn, D=width, REST=rest, V_D=v_width, V_REST=v_rest, GROUP=heads // kv_heads,
                Q_STAGES=chosen.slots(), K_STAGES=chosen.k_stages, V_STAGES=chosen.v_stages, CONSUMERS=chosen.consumers,
                CAUSAL=causal, MASKED=2 if causal or windowed else 1, PING_PONG=chosen.ping_pong, AHEAD=chosen.ahead,
                LATE=chosen.late)
    tiles = heads * min(-(-total_q // chosen.bm) + sequences, sequences * -(-max_seqlen_q // chosen.bm))
    return (max(min(programs, tiles), 1), ), args, {**meta, "num_warps": 4}


def _check(q, k, v, o, lse, cu_q, cu_k, counter) -> None:
    total_q, heads, dim = q.shape
    if dim not in HEAD_DIMS:
        raise ValueError(f"the head dim is {dim}; it may be {', '.join(map(str, HEAD_DIMS))}")
    of_values = value_dim(dim)
    if k.shape[2] != dim or tuple(v.shape) != (*tuple(k.shape)[:2], of_values) or heads % k.shape[1]:
        raise ValueError(f"q is {_by(q)}, k {_by(k)} and v {_by(v)}: k and v must be alike, of q's head dim (v of {VALUES[192]} "
                         "where that is 192), and their heads must divide q's")
    if tuple(o.shape) != (total_q, heads, of_values) or tuple(lse.shape) != (heads, total_q):
        raise ValueError(f"o is {_by(o)} and lse {_by(lse)}; for q {_by(q)} they must be {total_q} x {heads} x {of_values} and "
                         f"{heads} x {total_q}")
    if max(total_q, k.shape[0]) >= FAR:
        raise ValueError(f"{total_q} queries and {k.shape[0]} keys: each must be fewer than 2^30")
    one_of(("bfloat16", "float16"), q=q)
    one_of((str(q.dtype).removeprefix("torch."), ), k=k, v=v, o=o)
    one_of(("float32", ), lse=lse)
    one_of(("int32", ), cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, counter=counter)
    if cu_q.shape != cu_k.shape or cu_q.shape[0] < 2:
        raise ValueError(f"cu_seqlens_q has {cu_q.shape[0]} elements and cu_seqlens_k {cu_k.shape[0]}; both must have one more "
                         "than there are sequences")
    for name, x in (("cu_seqlens_q", cu_q), ("cu_seqlens_k", cu_k)):
        if strides(x)[0] != 1:
            raise ValueError(f"{name} has a stride of {strides(x)[0]} elements; it must be contiguous")
    for name, x in (("q", q), ("k", k), ("v", v), ("o", o)):
        row, head, step = strides(x)
        row, head, _ = steps(x)
        if step != 1 or row * x.dtype.itemsize % 16 or head * x.dtype.itemsize % 16:
            raise ValueError(f"{name} must be contiguous along the head dim and have strides of multiples of 16 bytes for TMA; its "
                             f"strides are {', '.join(map(str, strides(x)))} elements of {x.dtype.itemsize} bytes")


def _by(x) -> str:
    return " x ".join(map(str, x.shape))


def attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q: int, max_seqlen_k: int, causal: bool = False,
                     scale: float | None = None, chosen: Configuration | None = None, **changes):
    """(o, lse) on the GPU that holds q, k and v; arguments, `changes` (window, softcap, sinks, slopes), errors as `arguments`."""
    import torch
    on_one_gpu("attention_varlen", q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    of_rank(3, q=q, k=k, v=v)
    o = q.new_empty(*q.shape[:2], v.shape[2])
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device)
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    programs = torch.cuda.get_device_properties(q.device).multi_processor_count
    grid, args, meta = arguments(q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, counter, programs, max_seqlen_q, max_seqlen_k, causal,
                                 scale, chosen, **changes)
    kernel[grid](*args, **meta)
    return o, lse
