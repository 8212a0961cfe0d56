"""Attention with a cache of keys and values that takes any strides, head dims and page sizes and runs on any GPU, in bf16, fp16
and fp32, with a window, soft cap and sinks; split-KV in two launches.

Input: q (batch, queries, heads, dim), caches (batch, length, kv_heads, dim) or (pages, page_size, kv_heads, dim), lengths
(batch). Output: o = softmax(scale q k^T) v, and the logarithms of the softmax's denominators. For example:

    arguments(q, k_cache, v_cache, lengths, o, lse, room)       [(kernel, grid, args, meta), ...], numpy or torch
"""

from __future__ import annotations

from ..attention.changes import scale_of
from ..attention_decode.contract_lines import CACHES, Q, caches
from ..contract import Contract
from ..contract.memory import strides
from .configs import meta as compile_time
from .configs import splits_for
from .kernel import plain_attention_decode as kernel
from .kernel import plain_combine
from .nouns import CombineForm, Problem, Rules, Steps, StepsOfAll

CONTRACT = Contract(Q.format(types="float", memory=""), *caches(""), *CACHES)

__all__ = ["CONTRACT", "arguments", "kernel", "plain_combine", "room_for", "splits_for"]


def room_for(q, value_dim: int, splits: int) -> int:
    """The fp32 numbers of room that so many splits need."""
    batch, queries, heads, _ = q.shape
    return splits * batch * queries * heads * (value_dim + 2) if splits > 1 else 0


def arguments(q, k_cache, v_cache, lengths, o, lse, room, page_table=None, scale: float | None = None, left: int | None = None,
              softcap: float | None = None, sinks=None, splits: int = 1, exact: bool = False, k_scale=None,
              v_scale=None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...], one or two launches in turn, that compute o = softmax(scale q k^T) v and lse.

    args:      q         (batch, queries, heads, dim) of bf16, fp16 or fp32, any strides
               k_cache, v_cache   (batch or pages, length or page_size, kv_heads, dim or value_dim), any strides; kv_heads
                                  divides heads
               lengths   (batch) int32, contiguous: keys of each sequence, those of its new queries among them
               o         (batch, queries, heads, value_dim)
               lse       (batch, heads, queries) fp32, contiguous
               room      fp32, as many numbers as `room_for` says, or None for one split
               page_table   (batch, pages) int32, contiguous along the last; what lies behind a sequence's keys is not looked at
               scale     of the scores, any number; by default 1 / sqrt(dim)
               left, softcap, sinks   as `mimw.kernels.attention_decode.arguments` has them
               splits    how many parts the keys are cut into
               exact     fp32 products as fp32 has them; else as tf32
               k_scale, v_scale   of caches of e4m3: (kv_heads) or (1) fp32, contiguous, what the head's keys and values are
                         multiplied by; else None
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of = CONTRACT.check(q=q, k_cache=k_cache, v_cache=v_cache, lengths=lengths, o=o, lse=lse, page_table=page_table, sinks=sinks,
                        softcap=softcap, k_scale=k_scale, v_scale=v_scale)
    queries, heads, group, page = of.queries, of.heads, of.heads // of.kv_heads, of.page_size
    scaled = k_scale is not None and v_scale is not None
    meta = compile_time(queries * group, of.dim, of.value_dim, q.dtype.itemsize, splits, exact)
    form = meta["FORM"]
    capacity, table_row = (page, 0) if page_table is None else (page * page_table.shape[1], strides(page_table)[0])
    steps = StepsOfAll(*(Steps(*strides(x)) for x in (q, k_cache, v_cache, o)))
    rules = Rules(sinks, k_scale, v_scale, int(scaled and k_scale.shape[0] > 1), float(scale_of(scale, of.dim)), softcap, left)
    problem = Problem(queries, heads, group, page, capacity, table_row)
    args = q, k_cache, v_cache, page_table, lengths, o, lse, room, rules, problem, steps
    launches = [(kernel, (splits, -(-queries * group // form.BM.value) * of.kv_heads * of.batch), args, meta)]
    if splits > 1:
        parts = max(2, min(1 << (splits - 1).bit_length(), 4096 // form.DV_TILE.value))
        launches.append((plain_combine, (of.batch * heads * queries, ), (o, lse, room, sinks, queries, heads, steps.o),
                         dict(FORM=CombineForm(of.value_dim, form.DV_TILE.value, splits, parts), num_warps=4)))
    return launches
