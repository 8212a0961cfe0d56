"""Sparse MLA prefill, the pipe form: a producer gathers, one worker scores and multiplies the left half, one the right half.

Input: descriptors of q and out, KV and the lists of rows as pointers. Output: out and lse of BH heads of one query a program:

    pipelined[(H // BH, S, B)](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, ...)

Three partitions of 4 warps and three pipes: `q` (once), `kv` (two places: the gathered rows and which of them count) and `scores`
(one place: by how much the sums so far shrink, and the sums; the probabilities lie beside it, under the same commits).
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import Descriptors, listed, work_of
from .steps import NO_LOGIT, at, copy_queries, gather, landed, masked, softmax, store_half, store_lse


@mimw.jit
def produce(tiles, work, form):
    """Block after block of listed rows."""
    for block in range(tl.cdiv(work.length, form.BK)):
        rows, ok = listed(work, block * form.BK, form)
        pointers = work.kv + rows * work.stride
        slot = tiles.acquire(block)
        gather(slot.kv_l, pointers, ok, 0)
        gather(slot.kv_r, pointers, ok, form.DV // 2)
        gather(slot.tail, pointers, ok, form.DV)
        landed()
        tl.store(tle.gpu.local_ptr(slot.valid), ok.to(tl.int32))
        tiles.commit(block)


@mimw.jit
def left(q, tiles, scores, probabilities, out_desc, lse, work, scale, form):
    """Scores and softmax of every block, and the left half of the output."""
    mine = q.wait(0).slot
    BH: tl.constexpr = form.BH
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, form.DV // 2), tl.float32)
    for block in range(tl.cdiv(work.length, form.BK)):
        slot = tiles.wait(block).slot
        logits = tl.dot(at(mine.q_tail), tl.trans(at(slot.tail)))
        logits = tl.dot(at(mine.q_l), tl.trans(at(slot.kv_l)), logits)
        logits = tl.dot(at(mine.q_r), tl.trans(at(slot.kv_r)), logits)
        p, most, total, shrink = softmax(masked(logits, at(slot.valid)), most, total, scale)
        given = scores.acquire(block)
        tl.store(tle.gpu.local_ptr(given.shrink), shrink)
        tl.store(tle.gpu.local_ptr(given.total), total)
        tl.store(tle.gpu.local_ptr(probabilities), p.to(probabilities.dtype))
        scores.commit(block)
        acc = tl.dot(p.to(probabilities.dtype), at(slot.kv_l), acc * shrink[:, None])
        tiles.release(block)
    store_half(acc, total, mine.q_l, out_desc, work.row, 0)
    store_lse(lse, work.row, most, total, scale, form)


@mimw.jit
def right(q, tiles, scores, probabilities, out_desc, work, form):
    """The right half of the output. Its buffer is that of q's right half, which `left` has read when the last scores are here."""
    mine = q.wait(0).slot
    total = tl.zeros((form.BH, ), tl.float32)
    acc = tl.zeros((form.BH, form.DV // 2), tl.float32)
    for block in range(tl.cdiv(work.length, form.BK)):
        received = scores.wait(block).slot
        slot = tiles.wait(block).slot
        total = at(received.total)
        acc = tl.dot(at(probabilities), at(slot.kv_r), acc * at(received.shrink)[:, None])
        scores.release(block)
        tiles.release(block)
    store_half(acc, total, mine.q_r, out_desc, work.row, form.DV // 2)


@mimw.jit
def pipelined(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, FORM: tl.constexpr):
    """BH heads of one query. All heads of a query run side by side, so that L2 answers all but the first."""
    work = work_of(kv, indices, lengths, problem, FORM)

    BH: tl.constexpr = FORM.BH
    BK: tl.constexpr = FORM.BK
    HALF: tl.constexpr = FORM.DV // 2
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    q = tle.pipe(capacity=1, one_shot=True, readers=("left", "right"), q_l=tle.gpu.alloc([1, BH, HALF], TYPE),
                 q_r=tle.gpu.alloc([1, BH, HALF], TYPE), q_tail=tle.gpu.alloc([1, BH, FORM.DT], TYPE))
    tiles = tle.pipe(capacity=2, readers=("left", "right"), kv_l=tle.gpu.alloc([2, BK, HALF], TYPE),
                     kv_r=tle.gpu.alloc([2, BK, HALF], TYPE), tail=tle.gpu.alloc([2, BK, FORM.DT], TYPE),
                     valid=tle.gpu.alloc([2, BK], tl.int32))
    scores = tle.pipe(capacity=1, shrink=tle.gpu.alloc([1, BH], tl.float32), total=tle.gpu.alloc([1, BH], tl.float32))
    probabilities = tle.gpu.alloc([BH, BK], TYPE)

    fill = q.writer()
    copy_queries(Descriptors(q_desc, tail_desc, out_desc), fill.acquire(0), work.row, FORM)
    fill.commit(0)
    tle.gpu.warp_specialize([
        (produce, (tiles.writer(), work, FORM)),
        (left, (q.reader("left"), tiles.reader("left"), scores.writer(), probabilities, out_desc, lse, work, problem.scale, FORM)),
        (right, (q.reader("right"), tiles.reader("right", fields=("kv_r", )), scores.reader(), probabilities, out_desc, work,
                 FORM)),
    ], [4, 4], [240, 168])
