"""Attention over listed rows of a latent KV cache (DeepSeek's sparse MLA, prefill), for Hopper, in bf16 and fp16.

Input: q, the cache kv, and for each query a list of rows of kv with its length. Output: out, and lse, the logarithms of
the sums of exponentials. For example:

    sparse_mla(q, kv, indices, lengths)             (out, lse) of torch tensors of a GPU
    arguments(q, kv, indices, lengths, out, lse)    (kernel, grid, args, meta), numpy or torch, to launch or simulate

A row of q and of kv has DV + DT columns: the first DV are key and value, the last DT key only. There are three forms:
`pipelined` for all problems, in which one warpgroup gathers rows for two; `shared` for all problems, in which all warps gather
and multiply; and `seesaw`, in which two consumers share the work, for one batch and one KV head without a causal mask.
"""

from __future__ import annotations

import mimw

from ..checks import one_of
from .pipe import pipelined
from .seesaw import seesaw
from .shared import shared

__all__ = ["arguments", "pipelined", "seesaw", "shared", "sparse_mla"]

HEADS, BLOCK = 64, 64  # of one program; listed rows at a time
LOG2_E = 1.4426950408889634


def arguments(q, kv, indices, lengths, out, lse, scale: float | None = None, causal: bool = False, base_2: bool = False,
              form=None, heads: int = HEADS, block: int = BLOCK) -> tuple[object, tuple[int, ...], tuple, dict]:
    """(kernel, grid, args, meta) that fill out and lse.

    args:      q        (B, S, H, DV + DT), bf16 or fp16, contiguous, as all others
               kv       (B, SKV, HKV, DV + DT), of q's type; H / HKV is a multiple of `heads`
               indices  (B, S, HKV, TOPK), int32: rows of kv; those below 0, from SKV on, or (causal) behind the query do not count
               lengths  (B, S, HKV), int32: how many entries of each list count
               out      (B, S, H, DV), of q's type; rows without any entry become 0
               lse      (B, S, H), fp32: log of the sum of exponentials, natural or to base 2; +inf for rows without any entry
               scale    of the logits, by default (DV + DT) ** -0.5
               form     `pipelined`, by default, `shared`, or `seesaw`: which takes how long, docs/performance.md says
               heads, block  of a program: for tests on small problems; the halves of DV and DT are multiples of 16
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    one_of(("bfloat16", "float16"), q=q, kv=kv, out=out)
    if not q.dtype == kv.dtype == out.dtype:
        raise ValueError(f"q, kv and out are {q.dtype}, {kv.dtype} and {out.dtype}; all must be of one type")
    (b, s, h, width), (_, skv, hkv, _), dv, topk = q.shape, kv.shape, out.shape[-1], indices.shape[-1]
    expected = {"q": (b, s, h, width), "kv": (b, skv, hkv, width), "indices": (b, s, hkv, topk), "lengths": (b, s, hkv),
                "out": (b, s, h, dv), "lse": (b, s, h)}
    for (name, shape), array in zip(expected.items(), (q, kv, indices, lengths, out, lse)):
        if tuple(array.shape) != shape:
            raise ValueError(f"{name} must have the shape {shape}, it has {tuple(array.shape)}")
    if h % hkv or h // hkv % heads:
        raise ValueError(f"the {h} heads must be {hkv} groups of a multiple of {heads} heads")
    if not 0 < dv < width or dv % 32 or (width - dv) % 16:
        raise ValueError(f"rows of {width} columns with values of {dv}: the values must be a multiple of 32, the rest of 16")
    alone = b == hkv == 1 and not causal and topk % (2 * block) == 0 and width - dv == block == heads
    if form is seesaw and not alone:
        raise ValueError(f"the seesaw form takes one batch and one KV head without a causal mask, lists of a multiple of "
                         f"{2 * block} rows, and a tail of {block} columns; got {b} x {hkv}, causal={causal}, {topk} rows and "
                         f"{width - dv} columns")
    form = form or pipelined
    rows = b * s * h
    q_rows, out_rows = q.reshape(rows, width), out.reshape(rows, dv)
    describe = mimw.TensorDescriptor.from_tensor
    part = dv if form is shared else dv // 2
    descriptors = describe(q_rows, [heads, part]), describe(q_rows, [heads, width - dv]), describe(out_rows, [heads, part])
    scale = (width**-0.5 if scale is None else scale) * LOG2_E
    meta = dict(DV=dv, DT=width - dv, BH=heads, BK=block, BASE_2=base_2, num_warps=4)
    if form is seesaw:
        return seesaw, (h // heads, s), (*descriptors, kv, indices, lengths, lse, skv, h, topk, scale), meta
    args = (*descriptors, kv, indices, lengths, lse, s, skv, h, hkv, topk, scale)
    if form is shared:
        return shared, (h // heads, s, b), args, meta | dict(CAUSAL=causal, num_warps=8)
    return pipelined, (h // heads, s, b), args, meta | dict(CAUSAL=causal)


def sparse_mla(q, kv, indices, lengths, value_dim: int = 512, **options):
    """(out, lse) of torch tensors; arguments, options and errors as of `arguments`."""
    import torch
    out = torch.empty(*q.shape[:3], value_dim, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    kernel, grid, args, meta = arguments(q, kv, indices, lengths, out, lse, **options)
    kernel[grid](*args, **meta)
    return out, lse
