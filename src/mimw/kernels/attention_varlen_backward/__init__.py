"""The gradients of attention on packed sequences for Hopper: bf16 and fp16, heads of up to 256; where sequences begin, only the
device knows.

Input: q (total_q, heads, dim), k, v, cu_seqlens_q, cu_seqlens_k, o and the log-sum-exps of the forward kernel, and the gradient of
o. Output: the gradients of q, k and v. For example:

    attention_varlen_backward(q, k, v, o, lse, do, cu_q, cu_k, 500, 500)        (dq, dk, dv) of torch tensors of a GPU
    work = [np.empty(*one) if one else None for one in workspace(q, k, v, cu_q, 500, 500)]          shapes and types
    launches(q, k, v, o, lse, do, dq, dk, dv, cu_q, cu_k, work, 500, 500)       three launches, each (kernel, grid, args, meta)

Heads of up to 128, with values as wide, are computed as `mimw.kernels.attention_backward` does, with the lengths of each sequence:
the last bits of dQ differ from run to run, unless one order is asked for. Other heads, up to 256, are computed as by
`wide_attention_backward`, always in one order. The first launch also lists the tiles of keys, and of queries for one order; rows of
gradients that are in no sequence get zeros. A sink is in the log-sum-exps; `rows`, the first of the workspace, is what its gradient
is made of, as there.
"""

from __future__ import annotations

from dataclasses import replace
from math import e, log2, prod, sqrt

import mimw

from ..attention.changes import bounds, check_changes, slopes_step
from ..attention_backward.configs import HEAD_DIMS, Configuration, configuration
from ..attention_backward.terms import by, tile_columns
from ..attention_varlen import FAR, LONGEST_WITH_SLOPES
from ..attention_varlen.maps import ending, steps
from ..checks import of_rank, on_one_gpu, one_of, strides, type_name
from ..wide_attention_backward import WIDEST
from .kernel import attention_varlen_backward as kernel
from .queries import packed_query_gradients
from .rows import after, before
from .tiles import ENTRY
from .wide import packed_wide_key_gradients

__all__ = ["Configuration", "after", "attention_varlen_backward", "before", "kernel", "launches", "packed_query_gradients",
           "packed_wide_key_gradients", "workspace"]

OF_QUERIES = 128                            # queries of a tile where dQ is made in one order
WIDE = Configuration(bn=64, dq="not")       # tiles of wide heads


def _chosen(dim: int, value_dim: int, causal: bool, chosen: Configuration | None, one_order: bool) -> Configuration:
    if dim != value_dim or dim > max(HEAD_DIMS):
        return WIDE
    chosen = chosen or configuration(tile_columns(dim), causal)
    return replace(chosen, dq="not") if one_order else chosen


def workspace(q, k, v, cu_seqlens_q, max_seqlen_q: int, max_seqlen_k: int, causal: bool = False,
              chosen: Configuration | None = None, one_order: bool = False) -> list[tuple[tuple[int, ...], str] | None]:
    """(shape, type) of `rows`, `sums`, tiles of keys and tiles of queries for a launch on such arrays; None for what it has not."""
    (total_q, heads, dim), sequences = q.shape, cu_seqlens_q.shape[0] - 1
    chosen = _chosen(dim, v.shape[2], causal, chosen, one_order)
    blocks = total_q // chosen.bm + sequences

    def tiles(total: int, longest: int, rows: int) -> tuple[tuple[int, int], str]:
        most = min((total + sequences * (rows - 1)) // rows, sequences * -(-longest // rows))
        return (max(most, 1), ENTRY.value), "int32"

    sums = ((heads * blocks * chosen.bm * tile_columns(dim) // 32, 32), "float32") if chosen.dq == "tma" else None
    return [((2, heads, blocks * chosen.bm), "float32"), sums, tiles(k.shape[0], max_seqlen_k, chosen.bn),
            None if sums else tiles(total_q, max_seqlen_q, OF_QUERIES)]


def launches(q, k, v, o, lse, do, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, work, max_seqlen_q: int, max_seqlen_k: int,
             causal: bool = False, scale: float | None = None, chosen: Configuration | None = None, dlse=None,
             one_order: bool = False, *, window: tuple[int | None, int | None] = (None, None), softcap: float | None = None,
             slopes=None) -> list[tuple]:
    """The launches that compute dq, dk and dv, in order; each a (kernel, grid, args, meta).

    args:      q, dq          (total_q, heads, dim) of bf16 or fp16, contiguous along dim, which is a multiple of 8 and at most 256;
                              the other strides are multiples of 16 bytes
               k, dk          (total_k, kv_heads, dim), v and dv the same of value_dim; kv_heads divides heads. Totals below 2^30
               o, do          (total_q, heads, value_dim)
               lse            (heads, total_q) fp32, contiguous: the natural logarithms of the softmax's denominators
               cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal    as `mimw.kernels.attention_varlen.arguments` has
                              them; rows behind max_seqlen_q and max_seqlen_k may stay without gradients
               work           arrays as `workspace` says, contiguous, of any content; None where it says None
               scale          of the scores; by default 1 / sqrt(dim)
               chosen         by default `mimw.kernels.attention_backward`'s configuration, for heads of up to 128
               dlse           the gradient of lse, like it, if there is one
               one_order      dQ by a kernel that owns its queries: the same bits in every run, for seven products instead of five
               window, softcap, slopes     as `mimw.kernels.attention_varlen.arguments` has them
    errors:    ValueError where a shape, a stride or a type is not what the kernels take, with the numbers
    """
    of_rank(3, q=q, k=k, v=v, o=o)
    of_rank(1, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    (total_q, heads, dim), (total_k, kv_heads, _), of_values = q.shape, k.shape, v.shape[2]
    sequences = cu_seqlens_q.shape[0] - 1
    _check(q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, dict(q=dict(dq=dq), k=dict(dk=dk), v=dict(dv=dv), o=dict(do=do)), dlse)
    left, right = bounds(window)
    causal = causal or right == 0
    right = None if causal else right
    check_changes(sequences, heads, softcap, None, slopes)
    if slopes is not None and max_seqlen_q + max_seqlen_k > LONGEST_WITH_SLOPES:
        raise ValueError(f"slopes: sequences of up to {max_seqlen_q} queries and {max_seqlen_k} keys; distances are exact for up "
                         f"to {LONGEST_WITH_SLOPES} of both")
    wanted = workspace(q, k, v, cu_seqlens_q, max_seqlen_q, max_seqlen_k, causal, chosen, one_order)
    _check_work(work, wanted, f"q {by(q)}, k {by(k)} and {sequences} sequences")
    chosen, (rows, sums, tiles, query_tiles) = _chosen(dim, of_values, causal, chosen, one_order), work
    scale = 1 / sqrt(dim) if scale is None else float(scale)
    inner, outer = (None, scale) if softcap is None else (scale / softcap, float(softcap))
    terms = scale, outer * log2(e), heads
    changes = left, right, inner, slopes, slopes_step(slopes)
    blocks, columns, value_columns = rows.shape[2] // chosen.bm, tile_columns(dim), tile_columns(of_values)
    many = dict(TOGETHER=128 if sequences <= 128 else 1024, BM=chosen.bm, num_warps=8)
    strides_of = {name: steps(x)[:2] for name, x in dict(o=o, do=do, dq=dq, dk=dk, dv=dv).items()}
    first = (before, (blocks, heads),
             (o, do, lse, dlse, rows, sums, dq if query_tiles is not None else None, dk, dv, tiles, query_tiles, cu_seqlens_q,
              cu_seqlens_k, *(step for pair in strides_of.values() for step in pair), heads, kv_heads, sequences, total_q, total_k,
              tiles.shape[0], 0 if query_tiles is None else query_tiles.shape[0]),
             many | dict(D=dim, COLUMNS=columns, DV=of_values, DV_COLUMNS=value_columns, BN=chosen.bn, QUERIES=OF_QUERIES))
    describe, numbers = mimw.TensorDescriptor.from_tensor, [1, chosen.bm]
    read = (ending(q, chosen.bm, columns), ending(k, chosen.bn, columns), ending(v, chosen.bn, value_columns),
            ending(do, chosen.bm, value_columns), describe(rows[0], numbers), describe(rows[1], numbers))
    written = ending(dk, 64, columns), ending(dv, 64, value_columns)
    meta = dict(BM=chosen.bm, BN=chosen.bn, D=columns, GROUP=heads // kv_heads, Q_STAGES=chosen.q_stages,
                DO_STAGES=chosen.do_stages, CAUSAL=causal, num_warps=4)
    grid = tiles.shape[0], kv_heads
    if chosen is WIDE:
        main = packed_wide_key_gradients, grid, (*read, *written, tiles, *terms, 0, *changes), meta | dict(DV=value_columns)
    else:
        share = None if sums is None else describe(sums, [64 * chosen.share_columns(columns) // 32, 32])
        main = kernel, grid, (*read, share, *written, tiles, *terms, blocks, 0, *changes), meta | dict(DQ=chosen.dq)
    if query_tiles is None:
        return [first, main, (after, (blocks, heads), (sums, dq, cu_seqlens_q, scale, *strides_of["dq"], sequences, total_q),
                              many | dict(D=dim, COLUMNS=columns, SHARE_COLUMNS=chosen.share_columns(columns)))]
    bn, slots = 128 if columns <= 128 else 64, (2, 1) if value_columns == WIDEST else (3, 2)
    args = (ending(q, OF_QUERIES, columns), ending(k, bn, columns), ending(v, bn, value_columns),
            ending(do, OF_QUERIES, value_columns), ending(dq, 64, columns), rows, query_tiles, *terms, rows.shape[2], 0, *changes)
    of_queries = dict(ROWS=chosen.bm, BM=OF_QUERIES, BN=bn, D=columns, DV=value_columns, GROUP=heads // kv_heads, K_STAGES=slots[0],
                      V_STAGES=slots[1], CAUSAL=causal, num_warps=4)
    return [first, main, (packed_query_gradients, (query_tiles.shape[0], heads), args, of_queries)]


def _check_work(work, wanted: list, what: str) -> None:
    for name, x, one in zip(("rows", "sums", "tiles", "tiles of queries"), work, wanted, strict=True):
        if (x is None) != (one is None):
            raise ValueError(f"the array for {name} must {'not ' * (one is None)}be there for {what}")
        if one is not None and (tuple(x.shape) != one[0] or type_name(x) != one[1] or strides(x)[0] != prod(one[0][1:])
                                or strides(x)[-1] != 1):
            raise ValueError(f"{name} is {by(x)} {x.dtype}; for {what} it must be {' x '.join(map(str, one[0]))} {one[1]}, "
                             "contiguous")


def _check(q, k, v, o, lse, cu_q, cu_k, like: dict, dlse) -> None:
    (total_q, heads, dim), (total_k, kv_heads, _), of_values = q.shape, k.shape, v.shape[2]
    if max(dim, of_values) > WIDEST or dim % 8 or of_values % 8:
        raise ValueError(f"heads of {dim}, with values of {of_values}: both may be multiples of 8 up to {WIDEST}")
    if k.shape[2] != dim or heads % kv_heads or tuple(v.shape[:2]) != (total_k, kv_heads):
        raise ValueError(f"q is {by(q)}, k {by(k)} and v {by(v)}: k must be of q's head dim, v like k but for its width, and their "
                         "heads must divide q's")
    if tuple(o.shape) != (total_q, heads, of_values):
        raise ValueError(f"o is {by(o)}; for q {by(q)} and v {by(v)} it must be {total_q} x {heads} x {of_values}")
    one_of(("bfloat16", "float16"), q=q)
    one_of((type_name(q), ), k=k, v=v, o=o)
    arrays = dict(q=q, k=k, v=v, o=o)
    for name, others in like.items():
        for other, x in others.items():
            if tuple(x.shape) != tuple(arrays[name].shape) or x.dtype != arrays[name].dtype:
                raise ValueError(f"{other} is {by(x)} {x.dtype}; it must be like {name}, {by(arrays[name])} {arrays[name].dtype}")
    for name, x in (("lse", lse), ("dlse", dlse)):
        if x is not None and (tuple(x.shape) != (heads, total_q) or type_name(x) != "float32" or strides(x)[1] != 1):
            raise ValueError(f"{name} is {by(x)} {x.dtype}; for q {by(q)} it must be {heads} x {total_q} float32, contiguous")
    if max(total_q, k.shape[0]) >= FAR:
        raise ValueError(f"{total_q} queries and {k.shape[0]} keys: each must be fewer than 2^30")
    one_of(("int32", ), cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    if cu_q.shape != cu_k.shape or cu_q.shape[0] < 2:
        raise ValueError(f"cu_seqlens_q has {cu_q.shape[0]} elements and cu_seqlens_k {cu_k.shape[0]}; both must have one more "
                         "than there are sequences")
    for name, x in dict(**arrays, **{other: x for others in like.values() for other, x in others.items()}).items():
        row, head, _ = steps(x)
        if strides(x)[2] != 1 or row * x.dtype.itemsize % 16 or head * x.dtype.itemsize % 16:
            raise ValueError(f"{name} must be contiguous along the head dim and have strides of multiples of 16 bytes for TMA; its "
                             f"strides are {', '.join(map(str, strides(x)))} elements of {x.dtype.itemsize} bytes")


def attention_varlen_backward(q, k, v, o, lse, do, cu_seqlens_q, cu_seqlens_k, max_seqlen_q: int, max_seqlen_k: int,
                              causal: bool = False, scale: float | None = None, chosen: Configuration | None = None, **changes):
    """(dq, dk, dv) on the GPU that holds the tensors; arguments and errors as `launches`."""
    import torch
    on_one_gpu("attention_varlen_backward", q=q, k=k, v=v, o=o, lse=lse, do=do, cu_seqlens_q=cu_seqlens_q,
               cu_seqlens_k=cu_seqlens_k)
    of_rank(3, q=q, k=k, v=v)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    one_order = changes.get("one_order", False)
    wanted = workspace(q, k, v, cu_seqlens_q, max_seqlen_q, max_seqlen_k, causal, chosen, one_order)
    work = [None if one is None else torch.empty(one[0], dtype=getattr(torch, one[1]), device=q.device) for one in wanted]
    for launched, grid, args, meta in launches(q, k, v, o, lse, do, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, work, max_seqlen_q,
                                               max_seqlen_k, causal, scale, chosen, **changes):
        launched[grid](*args, **meta)
    return dq, dk, dv
