"""Sparse MLA prefill, the form without roles: all warps gather the next block of listed rows, then work on the block before.

Input: descriptors of q, its tail and out, KV and the lists of rows as pointers. Output: out and lse of BH heads of one query a
program:

    shared[(H // BH, S, B)](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, S, SKV, H, HKV, TOPK, scale, ...)

Every operand of a product lies in shared memory: q and its tail once, and the rows of a block, both key and value, in one of two
places. Rows come by cp.async, so that a block is on its way while the products of the one before run.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .steps import NO_LOGIT, at, gather, listed, masked, powers, store_lse


@mimw.jit
def fetch(keys, tails, kv, stride, indices, first, length, query, SKV, CAUSAL: tl.constexpr):
    """Start to bring the rows that a list names from entry `first` on; which of them count. Behind the list all are zeros."""
    rows, ok = listed(indices, first, length, query, SKV, CAUSAL, keys.shape[0])
    gather(keys, kv + rows * stride, ok, 0)
    gather(tails, kv + rows * stride, ok, keys.shape[1])
    tlx.async_load_commit_group()
    return ok


@mimw.jit
def shared(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, S, SKV, H, HKV, TOPK, scale, DV: tl.constexpr,
           DT: tl.constexpr, BH: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr, BASE_2: tl.constexpr):
    """Heads head .. head + BH of query `tl.program_id(1)` of batch `tl.program_id(2)`; `scale` is the logits' times log2(e)."""
    head, query, batch = tl.program_id(0) * BH, tl.program_id(1), tl.program_id(2)
    group = head // (H // HKV)
    line = batch * S + query
    row = line * H + head
    length = tl.minimum(tl.load(lengths + line * HKV + group), TOPK)
    stride = HKV * (DV + DT)
    rows = kv + batch.to(tl.int64) * SKV * stride + group * (DV + DT)
    list_ = indices + (line * HKV + group).to(tl.int64) * TOPK

    TYPE: tl.constexpr = tlx.dtype_of(kv)
    q, q_tail = tle.gpu.alloc([BH, DV], TYPE), tle.gpu.alloc([BH, DT], TYPE)
    keys, tails = tle.gpu.alloc([2, BK, DV], TYPE), tle.gpu.alloc([2, BK, DT], TYPE)
    ahead = fetch(keys.slot(0), tails.slot(0), rows, stride, list_, 0, length, query, SKV, CAUSAL)
    tle.gpu.copy(q_desc, q, [BH, DV], [row, 0])
    tle.gpu.copy(tail_desc, q_tail, [BH, DT], [row, DV])
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, DV), tl.float32)
    for block in range(tl.cdiv(length, BK)):
        ok, place, other = ahead, block % 2, 1 - block % 2
        ahead = fetch(keys.slot(other), tails.slot(other), rows, stride, list_, (block + 1) * BK, length, query, SKV, CAUSAL)
        tlx.async_load_wait_group(1)
        logits = tl.dot(at(q_tail), tl.trans(at(tails.slot(place))))
        logits = masked(tl.dot(at(q), tl.trans(at(keys.slot(place))), logits), ok)
        before, most = most, tl.maximum(most, tl.max(logits, 1))
        shrink = tl.exp2((before - most) * scale)
        p = powers(logits, most, scale)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(TYPE), at(keys.slot(place)), acc * shrink[:, None])
    tlx.async_load_wait_group(0)
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(tle.gpu.local_ptr(q), out.to(TYPE))
    tle.gpu.copy(q, out_desc, [BH, DV], [row, 0])
    store_lse(lse, row, most, total, scale, BASE_2)
