"""The gradients of attention on packed sequences for Hopper: bf16 and fp16, head dims 64 and 128; where sequences begin, only the
device knows.

Input: q (total_q, heads, dim), k, v, cu_seqlens_q, cu_seqlens_k, o and the log-sum-exps of the forward kernel, and the gradient of
o. Output: the gradients of q, k and v. For example:

    attention_varlen_backward(q, k, v, o, lse, do, cu_q, cu_k, 500, 500)        (dq, dk, dv) of torch tensors of a GPU
    launches(q, k, v, o, lse, do, dq, dk, dv, cu_q, cu_k, rows, sums, tiles, 500, 500)      three launches, each (kernel, grid,
                                                                                            args, meta)

The launches are those of `mimw.kernels.attention_backward`, with the lengths of each sequence: the last bits of dQ differ from run
to run, those of dK and dV do not. The first one also lists the tiles of keys; it and the last one write zeros into rows of
gradients that are in no sequence. A sink is in the log-sum-exps; `rows` is what its gradient is made of, as there.
"""

from __future__ import annotations

from math import e, log2, prod, sqrt

import mimw

from ..attention.changes import bounds, check_changes, slopes_step
from ..attention_backward.configs import HEAD_DIMS, Configuration, configuration
from ..attention_varlen import FAR, LONGEST_WITH_SLOPES
from ..attention_varlen.maps import ending, steps
from ..checks import of_rank, on_one_gpu, one_of, strides, type_name
from .kernel import attention_varlen_backward as kernel
from .rows import after, before
from .tiles import ENTRY

__all__ = ["Configuration", "after", "attention_varlen_backward", "before", "configuration", "kernel", "launches", "workspace"]


def workspace(q, k, cu_seqlens_q, max_seqlen_k: int, causal: bool = False, chosen: Configuration | None = None) -> tuple:
    """The shapes of `rows` and `sums`, fp32, and of `tiles`, int32, for queries and keys like q and k."""
    (total_q, heads, dim), sequences = q.shape, cu_seqlens_q.shape[0] - 1
    chosen = chosen or configuration(dim, causal)
    blocks = total_q // chosen.bm + sequences
    most = min((k.shape[0] + sequences * (chosen.bn - 1)) // chosen.bn, sequences * -(-max_seqlen_k // chosen.bn))
    return (2, heads, blocks * chosen.bm), (heads * blocks * chosen.bm * dim // 32, 32), (max(most, 1), ENTRY.value)


def launches(q, k, v, o, lse, do, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, rows, sums, tiles, max_seqlen_q: int, max_seqlen_k: int,
             causal: bool = False, scale: float | None = None, chosen: Configuration | None = None, dlse=None, *,
             window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, slopes=None) -> list[tuple]:
    """The launches that compute dq, dk and dv, in order; each a (kernel, grid, args, meta).

    args:      q, o, do, dq   (total_q, heads, dim) of bf16 or fp16, dim 64 or 128, contiguous along dim; the other strides of q
                              and do are multiples of 16 bytes
               k, v, dk, dv   (total_k, kv_heads, dim), strides like q's; kv_heads divides heads. Each total is below 2^30
               lse            (heads, total_q) fp32, contiguous: the natural logarithms of the softmax's denominators
               cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal    as `mimw.kernels.attention_varlen.arguments` has
                              them; keys behind max_seqlen_k may stay without gradients
               rows, sums, tiles    arrays of the shapes of `workspace`, contiguous, of any content
               scale          of the scores; by default 1 / sqrt(dim)
               chosen         by default `mimw.kernels.attention_backward`'s configuration of the head dim
               dlse           the gradient of lse, like it, if there is one
               window, softcap, slopes     as `mimw.kernels.attention_varlen.arguments` has them
    errors:    ValueError where a shape, a stride or a type is not what the kernels take, with the numbers
    """
    of_rank(3, q=q, k=k, v=v)
    of_rank(1, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    (total_q, heads, dim), (total_k, kv_heads, _), sequences = q.shape, k.shape, cu_seqlens_q.shape[0] - 1
    _check(q, k, lse, cu_seqlens_q, cu_seqlens_k, dict(o=o, do=do, dq=dq), dict(v=v, dk=dk, dv=dv), dlse)
    left, right = bounds(window)
    causal = causal or right == 0
    right = None if causal else right
    check_changes(sequences, heads, softcap, None, slopes)
    if slopes is not None and max_seqlen_q + max_seqlen_k > LONGEST_WITH_SLOPES:
        raise ValueError(f"slopes: sequences of up to {max_seqlen_q} queries and {max_seqlen_k} keys; distances are exact for up "
                         f"to {LONGEST_WITH_SLOPES} of both")
    chosen = chosen or configuration(dim, causal)
    shapes = workspace(q, k, cu_seqlens_q, max_seqlen_k, causal, chosen)
    for name, x, shape, kind in zip(("rows", "sums", "tiles"), (rows, sums, tiles), shapes, ("float32", "float32", "int32")):
        if tuple(x.shape) != shape or type_name(x) != kind or strides(x)[0] != prod(shape[1:]) or strides(x)[-1] != 1:
            raise ValueError(f"{name} is {_by(x)} {x.dtype}; for q {_by(q)}, k {_by(k)} and {sequences} sequences it must be "
                             f"{' x '.join(map(str, shape))} {kind}, contiguous")
    scale = 1 / sqrt(dim) if scale is None else float(scale)
    inner, outer = (None, scale) if softcap is None else (scale / softcap, float(softcap))
    blocks, size, columns = shapes[0][2] // chosen.bm, shapes[2][0], chosen.share_columns(dim)
    of_rows = [steps(x)[:2] for x in (o, do, dk, dv, dq)]
    meta = dict(D=dim, COLUMNS=dim, BM=chosen.bm, TOGETHER=128 if sequences <= 128 else 1024, num_warps=8)
    first = (before, (blocks, heads), (o, do, lse, dlse, rows, sums, dk, dv, tiles, cu_seqlens_q, cu_seqlens_k,
                                       *(step for pair in of_rows[:4] for step in pair), heads, kv_heads, sequences, total_q,
                                       total_k, size), meta | dict(BN=chosen.bn))
    describe, numbers = mimw.TensorDescriptor.from_tensor, [1, chosen.bm]
    args = (ending(q, chosen.bm, dim), ending(k, chosen.bn, dim), ending(v, chosen.bn, dim), ending(do, chosen.bm, dim),
            describe(rows[0], numbers), describe(rows[1], numbers), describe(sums, [64 * columns // 32, 32]), ending(dk, 64, dim),
            ending(dv, 64, dim), tiles, scale, outer * log2(e), heads, blocks, 0, left, right, inner, slopes, slopes_step(slopes))
    main = dict(BM=chosen.bm, BN=chosen.bn, D=dim, GROUP=heads // kv_heads, Q_STAGES=chosen.q_stages, DO_STAGES=chosen.do_stages,
                CAUSAL=causal, num_warps=4)
    last = (after, (blocks, heads), (sums, dq, cu_seqlens_q, scale, *of_rows[4], sequences, total_q),
            meta | dict(SHARE_COLUMNS=columns))
    return [first, (kernel, (size, kv_heads), args, main), last]


def _check(q, k, lse, cu_q, cu_k, like_q: dict, like_k: dict, dlse) -> None:
    (total_q, heads, dim), kv_heads = q.shape, k.shape[1]
    if dim not in HEAD_DIMS:
        raise ValueError(f"the head dim is {dim}; it may be {', '.join(map(str, HEAD_DIMS))}")
    if k.shape[2] != dim or heads % kv_heads:
        raise ValueError(f"q is {_by(q)} and k {_by(k)}: k must be of q's head dim, and its heads must divide q's")
    one_of(("bfloat16", "float16"), q=q)
    one_of((type_name(q), ), k=k)
    for model, name, others in ((q, "q", like_q), (k, "k", like_k)):
        for other, x in others.items():
            if tuple(x.shape) != tuple(model.shape) or x.dtype != model.dtype:
                raise ValueError(f"{other} is {_by(x)} {x.dtype}; it must be like {name}, {_by(model)} {model.dtype}")
    for name, x in (("lse", lse), ("dlse", dlse)):
        if x is not None and (tuple(x.shape) != (heads, total_q) or type_name(x) != "float32" or strides(x)[1] != 1):
            raise ValueError(f"{name} is {_by(x)} {x.dtype}; for q {_by(q)} it must be {heads} x {total_q} float32, contiguous")
    if max(total_q, k.shape[0]) >= FAR:
        raise ValueError(f"{total_q} queries and {k.shape[0]} keys: each must be fewer than 2^30")
    one_of(("int32", ), cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    if cu_q.shape != cu_k.shape or cu_q.shape[0] < 2:
        raise ValueError(f"cu_seqlens_q has {cu_q.shape[0]} elements and cu_seqlens_k {cu_k.shape[0]}; both must have one more "
                         "than there are sequences")
    for name, x in dict(q=q, k=k, **like_q, **like_k).items():
        row, head, _ = steps(x)
        if strides(x)[2] != 1 or row * x.dtype.itemsize % 16 or head * x.dtype.itemsize % 16:
            raise ValueError(f"{name} must be contiguous along the head dim and have strides of multiples of 16 bytes for TMA; its "
                             f"strides are {', '.join(map(str, strides(x)))} elements of {x.dtype.itemsize} bytes")


def _by(x) -> str:
    return " x ".join(map(str, x.shape))


def attention_varlen_backward(q, k, v, o, lse, do, cu_seqlens_q, cu_seqlens_k, max_seqlen_q: int, max_seqlen_k: int,
                              causal: bool = False, scale: float | None = None, chosen: Configuration | None = None, **changes):
    """(dq, dk, dv) on the GPU that holds the tensors; arguments and errors as `launches`."""
    import torch
    on_one_gpu("attention_varlen_backward", q=q, k=k, v=v, o=o, lse=lse, do=do, cu_seqlens_q=cu_seqlens_q,
               cu_seqlens_k=cu_seqlens_k)
    of_rank(3, q=q, k=k, v=v)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    shapes = workspace(q, k, cu_seqlens_q, max_seqlen_k, causal, chosen)
    work = [torch.empty(shape, dtype=kind, device=q.device) for shape, kind in
            zip(shapes, (torch.float32, torch.float32, torch.int32))]
    for launched, grid, args, meta in launches(q, k, v, o, lse, do, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, *work, max_seqlen_q,
                                               max_seqlen_k, causal, scale, chosen, **changes):
        launched[grid](*args, **meta)
    return dq, dk, dv
