"""Attention over listed rows of a latent KV cache (DeepSeek's sparse MLA, prefill), for Hopper, in bf16 and fp16.

Input: q, the cache kv, and for each query a list of rows of kv with its length. Output: out, and lse, the logarithms of
the sums of exponentials. For example:

    arguments(q, kv, indices, lengths, out, lse)    (kernel, grid, args, meta), numpy or torch, to launch or simulate

A row of q and of kv has DV + DT columns: the first DV are key and value, the last DT key only. There are two forms: `pipelined`,
in which some warps gather rows for others, and `shared`, in which all warps gather and multiply.
"""

from __future__ import annotations

import mimw

from ..contract import Contract
from .nouns import Form, Problem
from .pipe import pipelined
from .shared import shared

__all__ = ["CONTRACT", "arguments", "pipelined", "shared", "tensors"]

HEADS, BLOCK = 64, 64  # of one program; listed rows at a time
LOG2_E = 1.4426950408889634


def tensors(types: str) -> tuple[str, ...]:
    """The lines of contracts for its tensors, q and kv of these types."""
    return (f"q: {types} (B, S, H, W) contiguous", "kv: =q (B, SKV, HKV, W) contiguous",
            "indices: i32 (B, S, HKV, TOPK) contiguous",
            "lengths: i32 (B, S, HKV) contiguous", "out: =q (B, S, H, DV) contiguous", "lse: fp32 (B, S, H) contiguous")


CONTRACT = Contract(
    *tensors("bf16|fp16"), "H % HKV == 0 and H // HKV % of_program == 0 -- H must be HKV groups of a multiple of of_program heads",
    "0 < DV < W and DV % 32 == 0 and (W - DV) % 16 == 0 -- values must be a multiple of 32 columns, the rest of 16")


def arguments(q, kv, indices, lengths, out, lse, scale: float | None = None, causal: bool = False, base_2: bool = False, form=None,
              heads: int = HEADS, block: int = BLOCK, programs: int | None = None) -> tuple[object, tuple[int, ...], tuple, dict]:
    """(kernel, grid, args, meta) that fill out and lse.

    args:      q        (B, S, H, DV + DT), bf16 or fp16, contiguous, as all others
               kv       (B, SKV, HKV, DV + DT), of q's type; H / HKV is a multiple of `heads`
               indices  (B, S, HKV, TOPK), int32: rows of kv; those below 0, from SKV on, or (causal) behind the query do not count
               lengths  (B, S, HKV), int32: how many entries of each list count
               out      (B, S, H, DV), of q's type; rows without any entry become 0
               lse      (B, S, H), fp32: log of the sum of exponentials, natural or to base 2; +inf for rows without any entry
               scale    of the logits, by default (DV + DT) ** -0.5
               form     `pipelined`, by default, or `shared`: which takes how long, docs/performance.md says
               heads, block  of a program: for tests on small problems; the halves of DV and DT are multiples of 16
               programs of `pipelined`, one an SM, each with the heads of many queries; by default one for each 64 heads of a query
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of = CONTRACT.check(q=q, kv=kv, indices=indices, lengths=lengths, out=out, lse=lse, of_program=heads)
    b, s, h, width, skv, hkv, topk, dv = of.B, of.S, of.H, of.W, of.SKV, of.HKV, of.TOPK, of.DV
    form, rows, tasks = form or pipelined, b * s * h, b * s * h // heads
    q_rows, out_rows = q.reshape(rows, width), out.reshape(rows, dv)
    describe = mimw.TensorDescriptor.from_tensor
    part = dv if form is shared else dv // 2
    descriptors = describe(q_rows, [heads, part]), describe(q_rows, [heads, width - dv]), describe(out_rows, [heads, part])
    scale = (width**-0.5 if scale is None else scale) * LOG2_E
    meta = dict(FORM=Form(dv, width - dv, heads, block, causal, base_2), num_warps=8 if form is shared else 4)
    grid = min(tasks, programs or tasks) if form is pipelined else tasks
    return form, (grid, ), (*descriptors, kv, indices, lengths, lse, Problem(s, skv, h, hkv, topk, tasks, scale)), meta
