"""The gradients of attention on Hopper: bf16 and fp16, heads of up to 128, grouped queries, any lengths, causal or with a sliding
window, soft cap, ALiBi, attention sinks.

Input: q, k, v, o and the log-sum-exps of the forward kernel, and the gradient of o. Output: the gradients of q, k and v.
For example:

    attention_backward(q, k, v, o, lse, do)                 (dq, dk, dv) of torch tensors of a GPU
    launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums)   the three launches of it, each (kernel, grid, args, meta)

With P = softmax(scale Q K^T) and delta the sum of each row of O dO: dV = P^T dO, dP = dO V^T, dS = P (dP - delta), dQ = scale dS K,
dK = scale dS^T Q. A launch before the products makes delta and clears fp32 sums, to which programs add their shares of dQ, in any
order; a launch after them makes dQ of the sums. So the last bits of dQ differ from run to run, unless one order is asked for
(queries.py); those of dK and dV do not.

Windows, soft caps and slopes are those of `mimw.kernels.attention`. A sink is in the log-sum-exps and changes nothing else; its own
gradient is - exp2(log2(e) sink - rows[0]) rows[1], summed over the queries of its head: `rows` is what that launch makes.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import mimw

from ..checks import of_rank, on_one_gpu, strides, type_name
from .configs import HEAD_DIMS, Configuration, configuration
from .kernel import attention_backward as kernel
from .order import bands_of, grid_of
from .queries import query_gradients
from .rows import after, before
from .terms import by, check_like, check_strides, of_queries, order_of, terms_of, tile_columns

__all__ = ["Configuration", "after", "arguments", "attention_backward", "before", "configuration", "kernel", "launches",
           "query_gradients", "workspace"]


def workspace(q, chosen: Configuration | None = None, causal: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of `rows` and `sums`, fp32, for queries like q: numbers for each query, and the sums of dQ."""
    batch, heads, seq_q, dim = q.shape
    columns = tile_columns(dim)
    chosen = chosen or configuration(columns, causal)
    padded = -(-seq_q // chosen.bm) * chosen.bm
    return (2, batch * heads, padded), (batch * heads * padded * columns // 32, 32)


def launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums, causal: bool = False, scale: float | None = None,
             chosen: Configuration | None = None, dlse=None, one_order: bool = False, *,
             window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, slopes=None) -> list[tuple]:
    """The launches that compute dq, dk and dv, in order; each a (kernel, grid, args, meta).

    args:      q, o, do, dq   (batch, heads, seq_q, dim) of bf16 or fp16, contiguous along dim, which is a multiple of 8 up to 128
                              (what tiles of 64 or 128 columns have more is 0); the other strides are multiples of 16 bytes
               k, v, dk, dv   (batch, kv_heads, seq_k, dim), strides like q's; kv_heads divides heads
               lse            (batch, heads, seq_q) fp32, contiguous: the natural logarithms of the softmax's denominators
               rows, sums     fp32 arrays of the shapes of `workspace`, contiguous, of any content; for `one_order` sums may be None
               causal         query i sees keys up to i + seq_k - seq_q: the last query sees all
               scale          of the scores; by default 1 / sqrt(dim)
               chosen         by default the measured configuration of the head dim
               dlse           the gradient of lse, like it, if there is one
               one_order      dQ by a kernel that owns its queries: the same bits in every run, for seven products instead of five
               window, softcap, slopes     as `mimw.kernels.attention.arguments` has them; blocks outside of a window cost nothing
    errors:    ValueError where a shape, a stride or a type is not what the kernels take, with the numbers
    """
    of_rank(4, q=q, o=o, dq=dq)
    batch, heads, seq_q, dim = q.shape
    check_like("q", q, o=o, do=do, dq=dq)
    for name, x in (("lse", lse), ("dlse", dlse)):
        if x is not None and (tuple(x.shape) != (batch, heads, seq_q) or type_name(x) != "float32"):
            raise ValueError(f"{name} is {by(x)} {x.dtype}; for q {by(q)} it must be {batch} x {heads} x {seq_q} float32")
    whole = tile_columns(dim)
    chosen = chosen or configuration(whole, causal)
    if one_order:
        chosen = replace(chosen, dq="not")
    changes = dict(window=window, softcap=softcap, slopes=slopes)
    main = kernel, *arguments(q, k, v, do, dk, dv, rows, sums, causal, scale, chosen, **changes)
    for name, x in (("o", o), ("dq", dq)):
        check_strides(name, x)
    padded, columns = rows.shape[2], chosen.share_columns(whole)
    grid = padded // chosen.bm, heads, batch
    first = (before, grid, (o, do, lse, dlse, rows, sums, *strides(o)[:3], *strides(do)[:3], heads, seq_q, padded),
             dict(D=dim, COLUMNS=whole, BM=chosen.bm, SUMS=not one_order, num_warps=8))
    if one_order:
        terms = terms_of(q, k, causal, scale, **changes)
        return [first, main, (query_gradients, *of_queries(q, k, v, do, dq, rows, terms, chosen.order))]
    last = (after, grid, (sums, dq, main[2][9], *strides(dq)[:3], heads, seq_q, padded),
            dict(D=dim, COLUMNS=whole, SHARE_COLUMNS=columns, BM=chosen.bm, num_warps=4))
    return [first, main, last]


def arguments(q, k, v, do, dk, dv, rows, sums, causal: bool = False, scale: float | None = None,
              chosen: Configuration | None = None, *, window: tuple[int | None, int | None] = (None, None),
              softcap: float | None = None, slopes=None) -> tuple[tuple[int, ...], tuple, dict]:
    """(grid, args, meta) of `kernel`, which computes dk and dv and adds to sums; `rows` is what `before` has made.

    Arguments and errors are as `launches` has them.
    """
    of_rank(4, q=q, k=k, v=v, do=do, dk=dk, dv=dv)
    batch, heads, seq_q, dim = q.shape
    kv_heads, seq_k = k.shape[1], k.shape[2]
    check_like("q", q, do=do)
    check_like("k", k, v=v, dk=dk, dv=dv)
    if (k.shape[0], k.shape[3]) != (batch, dim) or heads % kv_heads:
        raise ValueError(f"q is {by(q)} and k {by(k)}: k must be of q's batch and head dim, and its heads must divide q's")
    if dim > max(HEAD_DIMS) or dim % 8:
        raise ValueError(f"the head dim is {dim}; it may be a multiple of 8 up to {max(HEAD_DIMS)}")
    if type_name(q) not in ("bfloat16", "float16") or k.dtype != q.dtype:
        raise ValueError(f"q and k are {q.dtype} and {k.dtype}: both must be bf16, or both fp16")
    for name, x in (("q", q), ("k", k), ("v", v), ("do", do), ("dk", dk), ("dv", dv)):
        check_strides(name, x)
    causal, scales, changes = terms = terms_of(q, k, causal, scale, window, softcap, slopes)
    columns = tile_columns(dim)
    chosen = chosen or configuration(columns, causal)
    for name, x, shape in zip(("rows", "sums")[:1 if chosen.dq == "not" else 2], (rows, sums), workspace(q, chosen)):
        if tuple(x.shape) != shape or type_name(x) != "float32" or strides(x)[-1] != 1 or strides(x)[0] != prod(shape[1:]):
            raise ValueError(f"{name} is {by(x)} {x.dtype}; for q {by(q)} it must be {' x '.join(map(str, shape))} float32, "
                             "contiguous")
    describe = mimw.TensorDescriptor.from_tensor
    queries, keys, own, numbers = [1, 1, chosen.bm, columns], [1, 1, chosen.bn, columns], [1, 1, 64, columns], [1, chosen.bm]
    share = [64 * chosen.share_columns(columns) // 32, 32]
    args = (describe(q, queries), describe(k, keys), describe(v, keys), describe(do, queries),
            describe(rows[0], numbers), describe(rows[1], numbers), describe(sums, share) if chosen.dq == "tma" else sums,
            describe(dk, own), describe(dv, own), *scales, heads, seq_q, seq_k, 0, *changes)
    blocks = -(-seq_k // chosen.bn)
    bands = bands_of(blocks, kv_heads, batch, order_of(terms, chosen.order))
    meta = {**chosen.meta(columns, heads // kv_heads, causal, seq_k), "BANDS": bands, "num_warps": 4}
    return grid_of(blocks, kv_heads, batch, bands), args, meta


def attention_backward(q, k, v, o, lse, do, causal: bool = False, scale: float | None = None, chosen: Configuration | None = None,
                       **changes):
    """(dq, dk, dv) on the GPU that holds the tensors; arguments and errors as `launches`."""
    import torch
    on_one_gpu("attention_backward", q=q, k=k, v=v, o=o, lse=lse, do=do)
    of_rank(4, q=q, k=k, v=v)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    rows, sums = (torch.empty(shape, dtype=torch.float32, device=q.device) for shape in workspace(q, chosen, causal))
    for launched, grid, args, meta in launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums, causal, scale, chosen, **changes):
        launched[grid](*args, **meta)
    return dq, dk, dv
