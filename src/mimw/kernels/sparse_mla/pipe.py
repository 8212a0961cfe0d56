"""Sparse MLA prefill, the pipe form: a producer gathers, one worker scores and multiplies the left half, one the right half.

Input: descriptors of q and out, KV and the lists of rows as pointers. Output: out and lse of BH heads of one query a program:

    pipelined[(H // BH, S, B)](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, S, SKV, H, HKV, TOPK, scale, ...)

Three partitions of 4 warps and three pipes: `q` (once), `kv` (two places: the gathered rows and which of them count) and `scores`
(one place: by how much the sums so far shrink, and the sums; the probabilities lie beside it, under the same commits).
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .steps import NO_LOGIT, at, gather, landed, listed, masked, powers, store_half, store_lse


@mimw.jit
def produce(tiles, kv, indices, length, query, SKV, stride, CAUSAL: tl.constexpr, BK: tl.constexpr, DV: tl.constexpr):
    """Block after block of listed rows; `kv` points to the first row of this batch and group, rows are `stride` apart."""
    for block in range(tl.cdiv(length, BK)):
        rows, ok = listed(indices, block * BK, length, query, SKV, CAUSAL, BK)
        pointers = kv + rows * stride
        slot = tiles.acquire(block)
        gather(slot.kv_l, pointers, ok, 0)
        gather(slot.kv_r, pointers, ok, DV // 2)
        gather(slot.tail, pointers, ok, DV)
        landed()
        tl.store(tle.gpu.local_ptr(slot.valid), ok.to(tl.int32))
        tiles.commit(block)


@mimw.jit
def left(q, tiles, scores, probabilities, out_desc, lse, row, length, scale, BASE_2: tl.constexpr, BK: tl.constexpr):
    """Scores and softmax of every block, and the left half of the output."""
    mine = q.wait(0).slot
    BH: tl.constexpr = mine.q_l.shape[0]
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, mine.q_l.shape[1]), tl.float32)
    for block in range(tl.cdiv(length, BK)):
        slot = tiles.wait(block).slot
        logits = tl.dot(at(mine.q_tail), tl.trans(at(slot.tail)))
        logits = tl.dot(at(mine.q_l), tl.trans(at(slot.kv_l)), logits)
        logits = tl.dot(at(mine.q_r), tl.trans(at(slot.kv_r)), logits)
        logits = masked(logits, at(slot.valid))
        before, most = most, tl.maximum(most, tl.max(logits, 1))
        shrink = tl.exp2((before - most) * scale)
        p = powers(logits, most, scale)
        total = total * shrink + tl.sum(p, 1)
        told = scores.acquire(block)
        tl.store(tle.gpu.local_ptr(told.shrink), shrink)
        tl.store(tle.gpu.local_ptr(told.total), total)
        tl.store(tle.gpu.local_ptr(probabilities), p.to(probabilities.dtype))
        scores.commit(block)
        acc = tl.dot(p.to(probabilities.dtype), at(slot.kv_l), acc * shrink[:, None])
        tiles.release(block)
    store_half(acc, total, mine.q_l, out_desc, row, 0)
    store_lse(lse, row, most, total, scale, BASE_2)


@mimw.jit
def right(q, tiles, scores, probabilities, out_desc, row, length, BK: tl.constexpr):
    """The right half of the output. Its buffer is that of q's right half, which `left` has read when the last scores are here."""
    mine = q.wait(0).slot
    total = tl.zeros((mine.q_r.shape[0], ), tl.float32)
    acc = tl.zeros((mine.q_r.shape[0], mine.q_r.shape[1]), tl.float32)
    for block in range(tl.cdiv(length, BK)):
        told = scores.wait(block).slot
        slot = tiles.wait(block).slot
        total = at(told.total)
        acc = tl.dot(at(probabilities), at(slot.kv_r), acc * at(told.shrink)[:, None])
        scores.release(block)
        tiles.release(block)
    store_half(acc, total, mine.q_r, out_desc, row, mine.q_r.shape[1])


@mimw.jit
def pipelined(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, S, SKV, H, HKV, TOPK, scale, DV: tl.constexpr,
              DT: tl.constexpr, BH: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
              BASE_2: tl.constexpr):
    """Heads head .. head + BH of query `tl.program_id(1)` of batch `tl.program_id(2)`; `scale` is the logits' times log2(e). All
    heads of a query run side by side, so that L2 answers all but the first."""
    head, query, batch = tl.program_id(0) * BH, tl.program_id(1), tl.program_id(2)
    group = head // (H // HKV)
    line = batch * S + query
    row = line * H + head
    length = tl.minimum(tl.load(lengths + line * HKV + group), TOPK)
    stride = HKV * (DV + DT)
    rows = kv + batch.to(tl.int64) * SKV * stride + group * (DV + DT)
    list_ = indices + (line * HKV + group).to(tl.int64) * TOPK

    HALF: tl.constexpr = DV // 2
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    q = tle.pipe(capacity=1, one_shot=True, readers=("left", "right"), q_l=tle.gpu.alloc([1, BH, HALF], TYPE),
                 q_r=tle.gpu.alloc([1, BH, HALF], TYPE), q_tail=tle.gpu.alloc([1, BH, DT], TYPE))
    tiles = tle.pipe(capacity=2, readers=("left", "right"), kv_l=tle.gpu.alloc([2, BK, HALF], TYPE),
                     kv_r=tle.gpu.alloc([2, BK, HALF], TYPE), tail=tle.gpu.alloc([2, BK, DT], TYPE),
                     valid=tle.gpu.alloc([2, BK], tl.int32))
    scores = tle.pipe(capacity=1, shrink=tle.gpu.alloc([1, BH], tl.float32), total=tle.gpu.alloc([1, BH], tl.float32))
    probabilities = tle.gpu.alloc([BH, BK], TYPE)

    fill = q.writer()
    slot = fill.acquire(0)
    tle.gpu.copy(q_desc, slot.q_l, [BH, HALF], [row, 0])
    tle.gpu.copy(q_desc, slot.q_r, [BH, HALF], [row, HALF])
    tle.gpu.copy(tail_desc, slot.q_tail, [BH, DT], [row, DV])
    fill.commit(0)
    tle.gpu.warp_specialize([
        (produce, (tiles.writer(), rows, list_, length, query, SKV, stride, CAUSAL, BK, DV)),
        (left, (q.reader("left"), tiles.reader("left"), scores.writer(), probabilities, out_desc, lse, row, length, scale,
                BASE_2, BK)),
        (right, (q.reader("right"), tiles.reader("right", fields=("kv_r", )), scores.reader(), probabilities, out_desc, row,
                 length, BK)),
    ], [4, 4], [240, 168])
