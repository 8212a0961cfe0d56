"""Sparse MLA prefill, the form without roles: all warps ask for the scores of a block, then gather the next block of listed rows.

Input: descriptors of q, its tail and out, KV and the lists of rows as pointers. Output: out and lse, of BH heads of one query a
program:

    shared[(tasks, )](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, ...)

Every operand of a product lies in shared memory: q and its tail once, and the rows of a block, both key and value, in one of two
places. Rows come by cp.async, so that a block is on its way while the products of the one before run; its part of the list came
with the block before.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import Lists, listed, work_of
from .steps import NO_LOGIT, across, at, gather, grown, masked, powers, store_lse


@mimw.jit
def fetch(keys, tails, row, work, form):
    """Start to bring listed rows; which of them count. Behind the list all are zeros."""
    gather(keys, across(row, form, form.DV), work, 0)
    gather(tails, across(row, form, form.DT), work, form.DV)
    tlx.async_load_commit_group()
    return row >= 0


@mimw.jit
def shared(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, FORM: tl.constexpr):
    """BH heads of one query."""
    work = work_of(tl.program_id(0), Lists(kv, indices, lengths, problem), FORM)

    BH: tl.constexpr = FORM.BH
    BK: tl.constexpr = FORM.BK
    DV: tl.constexpr = FORM.DV
    DT: tl.constexpr = FORM.DT
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    q, q_tail = tle.gpu.alloc([BH, DV], TYPE), tle.gpu.alloc([BH, DT], TYPE)
    keys, tails = tle.gpu.alloc([2, BK, DV], TYPE), tle.gpu.alloc([2, BK, DT], TYPE)
    ahead = fetch(keys.slot(0), tails.slot(0), listed(work, 0, FORM), work, FORM)
    row = listed(work, BK, FORM)
    tle.gpu.copy(q_desc, q, [BH, DV], [work.row, 0])
    tle.gpu.copy(tail_desc, q_tail, [BH, DT], [work.row, DV])
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, DV), tl.float32)
    for block in range(tl.cdiv(work.length, BK)):
        ok, place, other = ahead, block % 2, 1 - block % 2
        tlx.async_load_wait_group(0)
        logits = tlx.async_dot(q_tail, tlx.local_trans(tails.slot(place)))
        logits = tlx.async_dot(q, tlx.local_trans(keys.slot(place)), logits)
        ahead = fetch(keys.slot(other), tails.slot(other), row, work, FORM)
        row = listed(work, (block + 2) * BK, FORM)
        logits = masked(tlx.async_dot_wait(0, logits), ok)
        most, shrink = grown(logits, most, problem.scale)
        p = powers(logits, most, problem.scale)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(TYPE), at(keys.slot(place)), acc * shrink[:, None])
    tlx.async_load_wait_group(0)
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(tle.gpu.local_ptr(q), out.to(TYPE))
    tle.gpu.copy(q, out_desc, [BH, DV], [work.row, 0])
    store_lse(lse, work.row, most, total, problem.scale, FORM)
