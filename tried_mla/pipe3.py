"""Candidate: the pipe form, whose programs go on with other queries.

Input: as the pipe form. Output: the same:

    going_on[(programs, )](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, tasks, ...)
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import Work
from .steps import NO_LOGIT, at, landed, masked, powers, store_half, store_lse


@mimw.jit
def entries(work, first, form):
    """The rows of KV that entries first .. first + BK of the list name, -1 for those that do not count."""
    entry = first + tl.arange(0, form.BK)
    row = tl.load(work.indices + entry, mask=entry < work.length, other=-1)
    ok = (row >= 0) & (row < work.count)
    if form.CAUSAL:
        ok = ok & (row <= work.query)
    return tl.where(ok, row, -1)


@mimw.jit
def across(entry, form, columns: tl.constexpr):
    """Entries as a (BK, columns) tile: for a `gather` that follows, each thread has those whose rows it brings."""
    return tl.broadcast_to(entry[:, None], (form.BK, columns))


@mimw.jit
def gather(buffer, entry, work, form, column: tl.constexpr):
    """Start to fill a (BK, N) buffer with columns column .. column + N of the rows that a (BK, N) tile of entries names, by
    cp.async, which needs no registers, so that whole tiles are under way; rows that do not count become zeros: a row that no list
    names may hold NaN, and 0 * NaN is NaN. `landed` waits."""
    ok = entry >= 0
    rows = work.kv + entry.to(tl.int64) * work.stride
    part = tl.arange(0, buffer.shape[1])[None, :]
    tlx.async_load(rows + (column + part), buffer, mask=ok, other=0.0, eviction_policy="evict_last")


@mimw.jit
def grown(logits, most, scale):
    """(the maxima with those of `logits`, by how much what was summed before shrinks)."""
    most, before = tl.maximum(most, tl.max(logits, 1)), most
    return most, tl.exp2((before - most) * scale)


@tle.struct
class Queries:
    """BH heads of one query: both halves of the columns that values have, and the tail."""

    left: Any
    right: Any
    tail: Any


@mimw.jit
def blocks_of(work, form):
    """How many blocks a list has: at least one, so that the first scores are asked for without a branch."""
    return tl.maximum(tl.cdiv(work.length, form.BK), 1)


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


@tle.struct
class Given:
    kv: Any
    indices: Any
    lengths: Any
    problem: Any
    tasks: Any


@mimw.jit
def work_of(task, given, form):
    problem = given.problem
    groups = problem.H // form.BH
    line, head = task // groups, task % groups * form.BH
    group = head // (problem.H // problem.HKV)
    batch, query = line // problem.S, line % problem.S
    length = tl.minimum(tl.load(given.lengths + line * problem.HKV + group), problem.TOPK)
    stride = problem.HKV * (form.DV + form.DT)
    rows = given.kv + batch.to(tl.int64) * problem.SKV * stride + group * (form.DV + form.DT)
    of_query = given.indices + (line * problem.HKV + group).to(tl.int64) * problem.TOPK
    return Work(line * problem.H + head, rows, stride, problem.SKV, of_query, length, query)


@mimw.jit
def bring_lefts(lefts, given, form):
    done = 0
    for task in range(tl.program_id(0), given.tasks, tl.num_programs(0)):
        work = work_of(task, given, form)
        entry = entries(work, 0, form)
        blocks = blocks_of(work, form)
        for block in range(blocks):
            wide = across(entry, form, form.DV // 2)
            slot = lefts.acquire(done + block)
            gather(slot.kv, wide, work, form, 0)
            ok = (entry >= 0).to(tl.int32)
            tl.store(tle.gpu.local_ptr(slot.valid), ok)
            tl.store(tle.gpu.local_ptr(slot.counted), tl.zeros((1, ), tl.int32) + tl.sum(ok))
            entry = entries(work, (block + 1) * form.BK, form)
            landed()
            lefts.commit(done + block)
        done += blocks


@mimw.jit
def to_l2(entry, work, form):
    """Ask for rows that are to be gathered later."""
    ok = entry >= 0
    rows = work.kv + entry.to(tl.int64) * work.stride
    for line in tl.static_range((form.DV + form.DT + 63) // 64):
        tlx.prefetch(rows + line * 64, mask=ok)


@mimw.jit
def bring_rights(q, q_desc, tail_desc, rights, given, form, AHEAD: tl.constexpr):
    done, number = 0, 0
    HALF: tl.constexpr = form.DV // 2
    for task in range(tl.program_id(0), given.tasks, tl.num_programs(0)):
        work = work_of(task, given, form)
        entry, far = entries(work, 0, form), entries(work, form.BK, form)
        blocks = blocks_of(work, form)
        for block in range(blocks):
            wide, narrow = across(entry, form, HALF), across(entry, form, form.DT)
            slot = rights.acquire(done + block)
            gather(slot.tail, narrow, work, form, form.DV)
            gather(slot.kv, wide, work, form, HALF)
            if AHEAD:
                entry, far = far, entries(work, (block + 2) * form.BK, form)
                to_l2(far, work, form)
            else:
                entry = entries(work, (block + 1) * form.BK, form)
            landed()
            rights.commit(done + block)
            if block == 0:
                heads = q.acquire(number)
                tle.gpu.copy(q_desc, heads.left, [form.BH, HALF], [work.row, 0])
                tle.gpu.copy(q_desc, heads.right, [form.BH, HALF], [work.row, HALF])
                tle.gpu.copy(tail_desc, heads.tail, [form.BH, form.DT], [work.row, form.DV])
                q.commit(number)
        done += blocks
        number += 1


@mimw.jit
def left(q, lefts, rights, scores, probabilities, out_desc, lse, given, scale, form):
    BH: tl.constexpr = form.BH
    HALF: tl.constexpr = form.DV // 2
    PARTS: tl.constexpr = 2 if form.BK % 32 == 0 and HALF & (HALF - 1) == 0 else 1
    PART: tl.constexpr = form.BK // PARTS
    done, number = 0, 0
    for task in range(tl.program_id(0), given.tasks, tl.num_programs(0)):
        work = work_of(task, given, form)
        mine = q.wait(number).slot
        most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
        acc = tl.zeros((BH, HALF), tl.float32)
        blocks = blocks_of(work, form)
        for block in range(blocks):
            chunk = done + block
            logits, low = scored(mine, lefts, rights, chunk, form)
            most, shrink = grown(logits, most, scale)
            p, first, acc = weighed(logits, low.kv, acc * shrink[:, None], most, scale, 0, PARTS)
            if PARTS == 2:
                more, second, acc = weighed(logits, low.kv, acc, most, scale, 1, PARTS)
                p += more
            given_row = scores.acquire(chunk + number).row
            tl.store(tle.gpu.local_ptr(given_row), shrink)
            tlx.local_store(tlx.local_slice(probabilities, [0, 0], [BH, PART]), first)
            if PARTS == 2:
                tlx.local_store(tlx.local_slice(probabilities, [0, PART], [BH, PART]), second)
            scores.commit(chunk + number)
            rights.release(chunk)
            total = total * shrink + tl.sum(p, 1)
            acc = tlx.async_dot_wait(0, acc)
            lefts.release(chunk)
        done += blocks
        tl.store(tle.gpu.local_ptr(scores.acquire(done + number).row), total)
        scores.commit(done + number)
        store_half(acc, total, mine.left, out_desc, work.row, 0)
        q.release(number)
        store_lse(lse, work.row, most, total, scale, form)
        number += 1


@mimw.jit
def right(q, rights, scores, probabilities, out_desc, given, form):
    done, number = 0, 0
    for task in range(tl.program_id(0), given.tasks, tl.num_programs(0)):
        work = work_of(task, given, form)
        mine = q.wait(number).slot
        acc = tl.zeros((form.BH, form.DV // 2), tl.float32)
        blocks = blocks_of(work, form)
        for block in range(blocks):
            chunk = done + block
            shrink = at(scores.wait(chunk + number).slot.row)
            acc = tl.dot(at(probabilities), at(rights.wait(chunk).slot.kv), acc * shrink[:, None])
            scores.release(chunk + number)
            rights.release(chunk)
        done += blocks
        total = at(scores.wait(done + number).slot.row)
        scores.release(done + number)
        store_half(acc, total, mine.right, out_desc, work.row, form.DV // 2)
        q.release(number)
        number += 1


@mimw.jit
def going_on(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, tasks, FORM: tl.constexpr, AHEAD: tl.constexpr = False):
    """BH heads of one query after the other."""
    BH: tl.constexpr = FORM.BH
    BK: tl.constexpr = FORM.BK
    DV: tl.constexpr = FORM.DV
    HALF: tl.constexpr = DV // 2
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    given = Given(kv, indices, lengths, problem, tasks)
    q = tle.pipe(Queries(tle.gpu.alloc([1, BH, HALF], TYPE), tle.gpu.alloc([1, BH, HALF], TYPE),
                         tle.gpu.alloc([1, BH, FORM.DT], TYPE)), capacity=1, readers=("left", "right"))
    lefts = tle.pipe(capacity=2, kv=tle.gpu.alloc([2, BK, HALF], TYPE), valid=tle.gpu.alloc([2, BK], tl.int32),
                     counted=tle.gpu.alloc([2, 1], tl.int32))
    rights = tle.pipe(capacity=2, readers=("left", "right"), kv=tle.gpu.alloc([2, BK, HALF], TYPE),
                      tail=tle.gpu.alloc([2, BK, FORM.DT], TYPE))
    scores = tle.pipe(capacity=1, row=tle.gpu.alloc([1, BH], tl.float32))
    probabilities = tle.gpu.alloc([BH, BK], TYPE)
    tle.gpu.warp_specialize([
        (left, (q.reader("left"), lefts.reader(), rights.reader("left"), scores.writer(), probabilities, out_desc, lse, given,
                problem.scale, FORM)),
        (right, (q.reader("right"), rights.reader("right"), scores.reader(), probabilities, out_desc, given, FORM)),
        (bring_lefts, (lefts.writer(), given, FORM)),
        (bring_rights, (q.writer(), q_desc, tail_desc, rights.writer(), given, FORM, AHEAD)),
    ], [4, 2, 2], [160, 96, 96])
