"""Sparse MLA prefill, the pipe form: two producers gather halves, one worker scores and multiplies left halves, one right halves.

Input: descriptors of q and out, KV and the lists of rows as pointers. Output: out and lse, of BH heads of one query a task:

    pipelined[(programs, )](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, ...)

Four partitions, of 4, 4, 2 and 2 warps, and four pipes: `q` (one place), `lefts` and `rights` (two places each: halves of the
gathered rows, with the left ones which of them count, with the right ones their tail) and `scores` (one place: by how much the sums
so far shrink, and last the sums; the probabilities lie beside it, under the same commits). A program goes on with other tasks: rows
of the next one come while this one ends.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import Lists, listed, work_of
from .steps import NO_LOGIT, across, at, gather, grown, landed, masked, powers, store_half, store_lse


@tle.struct
class Queries:
    """BH heads of one query: both halves of the columns that values have, and the tail."""

    left: Any
    right: Any
    tail: Any


@mimw.jit
def blocks_of(work, form):
    """The number of a list's blocks: at least one, so that no task has to ask whether there is any."""
    return tl.maximum(tl.cdiv(work.length, form.BK), 1)


@mimw.jit
def bring_lefts(lefts, lists, form):
    """Left halves of listed rows, block after block. The list of the next block comes while rows of this one do."""
    done = 0
    for task in range(tl.program_id(0), lists.problem.tasks, tl.num_programs(0)):
        work = work_of(task, lists, form)
        row, blocks = listed(work, 0, form), blocks_of(work, form)
        for block in range(blocks):
            wide = across(row, form, form.DV // 2)
            slot = lefts.acquire(done + block)
            gather(slot.kv, wide, work, 0)
            ok = (row >= 0).to(tl.int32)
            tl.store(tle.gpu.local_ptr(slot.valid), ok)
            tl.store(tle.gpu.local_ptr(slot.counted), tl.zeros((1, ), tl.int32) + tl.sum(ok))
            row = listed(work, (block + 1) * form.BK, form)
            landed()
            lefts.commit(done + block)
        done += blocks


@mimw.jit
def bring_queries(q, number, q_desc, tail_desc, row, form):
    """Queries of a task, as soon as those of the task before have been used."""
    HALF: tl.constexpr = form.DV // 2
    slot = q.acquire(number)
    tle.gpu.copy(q_desc, slot.left, [form.BH, HALF], [row, 0])
    tle.gpu.copy(q_desc, slot.right, [form.BH, HALF], [row, HALF])
    tle.gpu.copy(tail_desc, slot.tail, [form.BH, form.DT], [row, form.DV])
    q.commit(number)


@mimw.jit
def bring_rights(q, rights, q_desc, tail_desc, lists, form):
    """Right halves and tails in the same way; and queries, behind the first block: it comes while the task before ends."""
    done, number = 0, 0
    for task in range(tl.program_id(0), lists.problem.tasks, tl.num_programs(0)):
        work = work_of(task, lists, form)
        row, blocks = listed(work, 0, form), blocks_of(work, form)
        for block in range(blocks):
            wide, narrow = across(row, form, form.DV // 2), across(row, form, form.DT)
            slot = rights.acquire(done + block)
            gather(slot.tail, narrow, work, form.DV)
            gather(slot.kv, wide, work, form.DV // 2)
            row = listed(work, (block + 1) * form.BK, form)
            landed()
            rights.commit(done + block)
            if block == 0:
                bring_queries(q, number, q_desc, tail_desc, work.row, form)
        done += blocks
        number += 1


@mimw.jit
def scored(mine, lefts, rights, block, form):
    """(the scores of a block, its left half)."""
    low = lefts.wait(block).slot
    valid, complete = at(low.valid), tl.sum(at(low.counted), 0) == form.BK
    logits = tlx.async_dot(mine.left, tlx.local_trans(low.kv))
    high = rights.wait(block).slot
    logits = tlx.async_dot(mine.tail, tlx.local_trans(high.tail), logits)
    logits = tlx.async_dot_wait(0, tlx.async_dot(mine.right, tlx.local_trans(high.kv), logits))
    if not complete:
        logits = masked(logits, valid)
    return logits, low


@mimw.jit
def weighed(logits, kv, acc, most, scale, part: tl.constexpr, PARTS: tl.constexpr):
    """(powers of a part of a block's scores, the same as probabilities, acc with their product on its way)."""
    if PARTS > 1:
        PART: tl.constexpr = logits.shape[1] // PARTS
        logits = tle.extract_tile(logits, [0, part], [logits.shape[0], PART])
        kv = tlx.local_slice(kv, [part * PART, 0], [PART, kv.shape[1]])
    p = powers(logits, most, scale)
    given = p.to(kv.dtype)
    return p, given, tlx.async_dot(given, kv, acc)


@mimw.jit
def left(q, lefts, rights, scores, probabilities, out_desc, lse, lists, form):
    """Scores and softmax of every block, and the left half of the output. Its own product begins with half of a block's
    probabilities where its columns can be cut, and runs while all are handed on."""
    BH: tl.constexpr = form.BH
    HALF: tl.constexpr = form.DV // 2
    PARTS: tl.constexpr = 2 if form.BK % 32 == 0 and HALF & (HALF - 1) == 0 else 1
    PART: tl.constexpr = form.BK // PARTS
    scale, done, number = lists.problem.scale, 0, 0
    for task in range(tl.program_id(0), lists.problem.tasks, tl.num_programs(0)):
        work = work_of(task, lists, form)
        blocks = blocks_of(work, form)
        mine = q.wait(number).slot
        most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
        acc = tl.zeros((BH, HALF), tl.float32)
        for block in range(done, done + blocks):
            logits, low = scored(mine, lefts, rights, block, form)
            most, shrink = grown(logits, most, scale)
            p, first, acc = weighed(logits, low.kv, acc * shrink[:, None], most, scale, 0, PARTS)
            if PARTS == 2:
                more, second, acc = weighed(logits, low.kv, acc, most, scale, 1, PARTS)
                p += more
            given = scores.acquire(block + number)
            tl.store(tle.gpu.local_ptr(given.row), shrink)
            tlx.local_store(tlx.local_slice(probabilities, [0, 0], [BH, PART]), first)
            if PARTS == 2:
                tlx.local_store(tlx.local_slice(probabilities, [0, PART], [BH, PART]), second)
            scores.commit(block + number)
            rights.release(block)
            total = total * shrink + tl.sum(p, 1)
            acc = tlx.async_dot_wait(0, acc)
            lefts.release(block)
        done += blocks
        tl.store(tle.gpu.local_ptr(scores.acquire(done + number).row), total)
        scores.commit(done + number)
        store_half(acc, total, mine.left, out_desc, work.row, 0)
        q.release(number)
        store_lse(lse, work.row, most, total, scale, form)
        number += 1


@mimw.jit
def right(q, rights, scores, probabilities, out_desc, lists, form):
    """The right half of the output. Its buffer is that of q's right half, which `left` has read when the last scores are here."""
    done, number = 0, 0
    for task in range(tl.program_id(0), lists.problem.tasks, tl.num_programs(0)):
        work = work_of(task, lists, form)
        blocks = blocks_of(work, form)
        mine = q.wait(number).slot
        acc = tl.zeros((form.BH, form.DV // 2), tl.float32)
        for block in range(done, done + blocks):
            shrink = at(scores.wait(block + number).slot.row)
            acc = tl.dot(at(probabilities), at(rights.wait(block).slot.kv), acc * shrink[:, None])
            scores.release(block + number)
            rights.release(block)
        done += blocks
        total = at(scores.wait(done + number).slot.row)
        scores.release(done + number)
        store_half(acc, total, mine.right, out_desc, work.row, form.DV // 2)
        q.release(number)
        number += 1


@mimw.jit
def pipelined(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, FORM: tl.constexpr):
    """Task after task. All heads of a query run side by side, so that L2 answers all but the first."""
    BH: tl.constexpr = FORM.BH
    BK: tl.constexpr = FORM.BK
    HALF: tl.constexpr = FORM.DV // 2
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    lists = Lists(kv, indices, lengths, problem)
    q = tle.pipe(Queries(tle.gpu.alloc([1, BH, HALF], TYPE), tle.gpu.alloc([1, BH, HALF], TYPE),
                         tle.gpu.alloc([1, BH, FORM.DT], TYPE)), capacity=1, readers=("left", "right"))
    lefts = tle.pipe(capacity=2, kv=tle.gpu.alloc([2, BK, HALF], TYPE), valid=tle.gpu.alloc([2, BK], tl.int32),
                     counted=tle.gpu.alloc([2, 1], tl.int32))
    rights = tle.pipe(capacity=2, readers=("left", "right"), kv=tle.gpu.alloc([2, BK, HALF], TYPE),
                      tail=tle.gpu.alloc([2, BK, FORM.DT], TYPE))
    scores = tle.pipe(capacity=1, row=tle.gpu.alloc([1, BH], tl.float32))
    probabilities = tle.gpu.alloc([BH, BK], TYPE)
    tle.gpu.warp_specialize([
        (left, (q.reader("left"), lefts.reader(), rights.reader("left"), scores.writer(), probabilities, out_desc, lse, lists,
                FORM)),
        (right, (q.reader("right"), rights.reader("right"), scores.reader(), probabilities, out_desc, lists, FORM)),
        (bring_lefts, (lefts.writer(), lists, FORM)),
        (bring_rights, (q.writer(), rights.writer(), q_desc, tail_desc, lists, FORM)),
    ], [4, 2, 2], [32 + HALF // 2, 352 - HALF, 352 - HALF])     # sums have HALF // 2 registers, also those of `left`
