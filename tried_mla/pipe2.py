"""Candidates of the pipe form.

Input: those of the pipe form. Output: the same:

    listed_ahead[(H // BH, S, B)](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, ...)
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import Descriptors, work_of
from .pipe import left, right
from .steps import NO_LOGIT, at, copy_queries, landed, masked, powers, store_half, store_lse


@mimw.jit
def named(work, first, form):
    """Entries first .. first + BK of the list; -1 behind its end."""
    entry = first + tl.arange(0, form.BK)
    return tl.load(work.indices + entry, mask=entry < work.length, other=-1)


@mimw.jit
def counted(row, work, form):
    ok = (row >= 0) & (row < work.count)
    if form.CAUSAL:
        ok = ok & (row <= work.query)
    return ok


@mimw.jit
def places(row, work, form, columns: tl.constexpr):
    """(pointers to columns 0 .. columns of those rows of KV that entries name, which of them count), both (BK, columns)."""
    rows = tl.broadcast_to(row[:, None], (form.BK, columns))
    ok = counted(rows, work, form)
    return work.kv + tl.where(ok, rows, 0).to(tl.int64) * work.stride + tl.arange(0, columns)[None, :], ok


@mimw.jit
def fill(buffer, place, column: tl.constexpr):
    """Start to fill a (BK, N) buffer with columns column .. column + N."""
    pointers, ok = place
    tlx.async_load(pointers + column, buffer, mask=ok, other=0.0, eviction_policy="evict_last")


@mimw.jit
def produce_1(tiles, work, form):
    """Block after block of listed rows; entries of the next block come while rows of this one do."""
    row = named(work, 0, form)
    for block in range(tl.cdiv(work.length, form.BK)):
        wide, narrow, ok = places(row, work, form, form.DV // 2), places(row, work, form, form.DT), counted(row, work, form)
        slot = tiles.acquire(block)
        fill(slot.kv_l, wide, 0)
        fill(slot.kv_r, wide, form.DV // 2)
        fill(slot.tail, narrow, form.DV)
        tl.store(tle.gpu.local_ptr(slot.valid), ok.to(tl.int32))
        row = named(work, (block + 1) * form.BK, form)
        landed()
        tiles.commit(block)


@mimw.jit
def listed_ahead(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, FORM: tl.constexpr):
    """The pipe form whose producer reads lists ahead."""
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

    fill_q = q.writer()
    copy_queries(Descriptors(q_desc, tail_desc, out_desc), fill_q.acquire(0), work.row, FORM)
    fill_q.commit(0)
    tle.gpu.warp_specialize([
        (produce_1, (tiles.writer(), work, FORM)),
        (left, (q.reader("left"), tiles.reader("left"), scores.writer(), probabilities, out_desc, lse, work, problem.scale, FORM)),
        (right, (q.reader("right"), tiles.reader("right", fields=("kv_r", )), scores.reader(), probabilities, out_desc, work,
                 FORM)),
    ], [4, 4], [240, 168])


@mimw.jit
def produce_2(lows, highs, work, form):
    """Block after block of listed rows: left half and tail, then right half, each handed over when it is there."""
    row = named(work, 0, form)
    for block in range(tl.cdiv(work.length, form.BK)):
        wide, narrow, ok = places(row, work, form, form.DV // 2), places(row, work, form, form.DT), counted(row, work, form)
        low = lows.acquire(block)
        fill(low.tail, narrow, form.DV)
        fill(low.kv_l, wide, 0)
        tlx.async_load_commit_group()
        tl.store(tle.gpu.local_ptr(low.valid), ok.to(tl.int32))
        high = highs.acquire(block)
        fill(high.kv_r, wide, form.DV // 2)
        tlx.async_load_commit_group()
        row = named(work, (block + 1) * form.BK, form)
        tlx.async_load_wait_group(1)
        lows.commit(block)
        tlx.async_load_wait_group(0)
        highs.commit(block)


@mimw.jit
def left_2(q, lows, highs, scores, probabilities, out_desc, lse, work, scale, form):
    """Scores and softmax of every block, and the left half of the output."""
    mine = q.wait(0).slot
    BH: tl.constexpr = form.BH
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, form.DV // 2), tl.float32)
    for block in range(tl.cdiv(work.length, form.BK)):
        low = lows.wait(block).slot
        logits = tl.dot(at(mine.q_tail), tl.trans(at(low.tail)))
        logits = tl.dot(at(mine.q_l), tl.trans(at(low.kv_l)), logits)
        high = highs.wait(block).slot
        logits = tl.dot(at(mine.q_r), tl.trans(at(high.kv_r)), logits)
        logits = masked(logits, at(low.valid))
        highs.release(block)
        before, most = most, tl.maximum(most, tl.max(logits, 1))
        shrink = tl.exp2((before - most) * scale)
        acc *= shrink[:, None]
        p = powers(logits, most, scale)
        total = total * shrink + tl.sum(p, 1)
        given = scores.acquire(block)
        tl.store(tle.gpu.local_ptr(given.shrink), shrink)
        tl.store(tle.gpu.local_ptr(given.total), total)
        tl.store(tle.gpu.local_ptr(probabilities), p.to(probabilities.dtype))
        scores.commit(block)
        acc = tl.dot(p.to(probabilities.dtype), at(low.kv_l), acc)
        lows.release(block)
    store_half(acc, total, mine.q_l, out_desc, work.row, 0)
    store_lse(lse, work.row, most, total, scale, form)


@mimw.jit
def right_2(q, highs, scores, probabilities, out_desc, work, form):
    """The right half of the output."""
    mine = q.wait(0).slot
    total = tl.zeros((form.BH, ), tl.float32)
    acc = tl.zeros((form.BH, form.DV // 2), tl.float32)
    for block in range(tl.cdiv(work.length, form.BK)):
        received = scores.wait(block).slot
        high = highs.wait(block).slot
        total = at(received.total)
        acc = tl.dot(at(probabilities), at(high.kv_r), acc * at(received.shrink)[:, None])
        scores.release(block)
        highs.release(block)
    store_half(acc, total, mine.q_r, out_desc, work.row, form.DV // 2)


@mimw.jit
def by_halves(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, FORM: tl.constexpr):
    """The pipe form whose rows come by halves."""
    work = work_of(kv, indices, lengths, problem, FORM)

    BH: tl.constexpr = FORM.BH
    BK: tl.constexpr = FORM.BK
    HALF: tl.constexpr = FORM.DV // 2
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    q = tle.pipe(capacity=1, one_shot=True, readers=("left", "right"), q_l=tle.gpu.alloc([1, BH, HALF], TYPE),
                 q_r=tle.gpu.alloc([1, BH, HALF], TYPE), q_tail=tle.gpu.alloc([1, BH, FORM.DT], TYPE))
    lows = tle.pipe(capacity=2, kv_l=tle.gpu.alloc([2, BK, HALF], TYPE), tail=tle.gpu.alloc([2, BK, FORM.DT], TYPE),
                    valid=tle.gpu.alloc([2, BK], tl.int32))
    highs = tle.pipe(capacity=2, readers=("left", "right"), kv_r=tle.gpu.alloc([2, BK, HALF], TYPE))
    scores = tle.pipe(capacity=1, shrink=tle.gpu.alloc([1, BH], tl.float32), total=tle.gpu.alloc([1, BH], tl.float32))
    probabilities = tle.gpu.alloc([BH, BK], TYPE)

    fill_q = q.writer()
    copy_queries(Descriptors(q_desc, tail_desc, out_desc), fill_q.acquire(0), work.row, FORM)
    fill_q.commit(0)
    tle.gpu.warp_specialize([
        (produce_2, (lows.writer(), highs.writer(), work, FORM)),
        (left_2, (q.reader("left"), lows.reader(), highs.reader("left"), scores.writer(), probabilities, out_desc, lse, work,
                  problem.scale, FORM)),
        (right_2, (q.reader("right"), highs.reader("right"), scores.reader(), probabilities, out_desc, work, FORM)),
    ], [4, 4], [240, 168])


# ---- two producers, and products that are not waited for at once ----------------------------------------------------------------


@tle.struct
class Queries:
    """Both halves of queries and their tail."""

    q_l: Any
    q_r: Any
    q_tail: Any


@mimw.jit
def blocks_of(work, form):
    return tl.maximum(tl.cdiv(work.length, form.BK), 1)


@mimw.jit
def rows_of(row, form, columns: tl.constexpr):
    return tl.broadcast_to(row[:, None], (form.BK, columns))


@mimw.jit
def fill_from(buffer, rows, work, form, column: tl.constexpr):
    """Start to fill a (BK, N) buffer with columns column .. column + N of the rows of KV that entries name; zeros for those that do
    not count."""
    ok = counted(rows, work, form)
    at_row = work.kv + tl.where(ok, rows, 0).to(tl.int64) * work.stride
    tlx.async_load(at_row + (column + tl.arange(0, buffer.shape[1]))[None, :], buffer, mask=ok, other=0.0,
                   eviction_policy="evict_last")


@mimw.jit
def produce_lows(lows, work, form, STILL: tl.constexpr, TAILH: tl.constexpr, WHOLE: tl.constexpr):
    """Left halves and tails of listed rows, block after block; entries of the next block come while rows of this one do."""
    row = named(work, 0, form)
    for block in range(blocks_of(work, form)):
        wide, narrow = rows_of(row, form, form.DV // 2), rows_of(row, form, form.DT)
        low = lows.acquire(block)
        if not STILL:
            if not TAILH:
                fill_from(low.tail, narrow, work, form, form.DV)
            fill_from(low.kv_l, wide, work, form, 0)
        ok = counted(row, work, form).to(tl.int32)
        tl.store(tle.gpu.local_ptr(low.valid), ok)
        if WHOLE:
            tl.store(tle.gpu.local_ptr(low.whole), tl.full((1, ), 0, tl.int32) + (tl.sum(ok) == form.BK).to(tl.int32))
        row = named(work, (block + 1) * form.BK, form)
        landed()
        lows.commit(block)


@mimw.jit
def to_l2(row, work, form):
    """Ask for rows."""
    LINES: tl.constexpr = (form.DV + form.DT) // 64
    ok = counted(row, work, form)
    start = work.kv + tl.where(ok, row, 0).to(tl.int64) * work.stride
    for line in tl.static_range(LINES):
        tlx.prefetch(start + line * 64, mask=ok)


@mimw.jit
def produce_highs(highs, work, form, AHEAD: tl.constexpr, STILL: tl.constexpr, TAILH: tl.constexpr):
    """Right halves."""
    row, far = named(work, 0, form), named(work, form.BK, form)
    for block in range(blocks_of(work, form)):
        wide = rows_of(row, form, form.DV // 2)
        high = highs.acquire(block)
        if not STILL:
            if TAILH:
                fill_from(high.tail, rows_of(row, form, form.DT), work, form, form.DV)
            fill_from(high.kv_r, wide, work, form, form.DV // 2)
        if AHEAD:
            row, far = far, named(work, (block + 2) * form.BK, form)
            to_l2(far, work, form)
        else:
            row = named(work, (block + 1) * form.BK, form)
        landed()
        highs.commit(block)


@mimw.jit
def produce_one(lows, highs, work, form):
    """Both halves, by four warps; of pipes whose tail comes with the right half."""
    row = named(work, 0, form)
    for block in range(blocks_of(work, form)):
        wide, narrow = rows_of(row, form, form.DV // 2), rows_of(row, form, form.DT)
        low = lows.acquire(block)
        fill_from(low.kv_l, wide, work, form, 0)
        tlx.async_load_commit_group()
        ok = counted(row, work, form).to(tl.int32)
        tl.store(tle.gpu.local_ptr(low.valid), ok)
        tl.store(tle.gpu.local_ptr(low.whole), tl.full((1, ), 0, tl.int32) + (tl.sum(ok) == form.BK).to(tl.int32))
        high = highs.acquire(block)
        fill_from(high.tail, narrow, work, form, form.DV)
        fill_from(high.kv_r, wide, work, form, form.DV // 2)
        tlx.async_load_commit_group()
        row = named(work, (block + 1) * form.BK, form)
        tlx.async_load_wait_group(1)
        lows.commit(block)
        tlx.async_load_wait_group(0)
        highs.commit(block)


@mimw.jit
def scored(lows, highs, queries, block, zero, TAILH: tl.constexpr):
    """(the scores of a block, on their way, its left half)."""
    low = lows.wait(block).slot
    if TAILH:
        logits = tlx.async_dot(queries.q_l.slot(zero), tlx.local_trans(low.kv_l))
        high = highs.wait(block).slot
        logits = tlx.async_dot(queries.q_tail.slot(zero), tlx.local_trans(high.tail), logits)
    else:
        logits = tlx.async_dot(queries.q_tail.slot(zero), tlx.local_trans(low.tail))
        logits = tlx.async_dot(queries.q_l.slot(zero), tlx.local_trans(low.kv_l), logits)
        high = highs.wait(block).slot
    return tlx.async_dot(queries.q_r.slot(zero), tlx.local_trans(high.kv_r), logits), low


@mimw.jit
def weighed(logits, low, acc, most, total, scores, probabilities, scale, block, PARTS: tl.constexpr, WHOLE: tl.constexpr):
    """Softmax of a block whose scores are on their way; its product on the way, and its probabilities handed on."""
    valid = at(low.valid)
    if WHOLE:
        whole = tl.sum(at(low.whole), 0)
        logits = tlx.async_dot_wait(0, logits)
        if whole == 0:
            logits = masked(logits, valid)
    else:
        logits = masked(tlx.async_dot_wait(0, logits), valid)
    before, most = most, tl.maximum(most, tl.max(logits, 1))
    shrink = tl.exp2((before - most) * scale)
    acc *= shrink[:, None]
    if PARTS:
        BH: tl.constexpr = logits.shape[0]
        HALF: tl.constexpr = logits.shape[1] // 2
        early = powers(tle.extract_tile(logits, [0, 0], [BH, HALF]), most, scale)
        early_p = early.to(probabilities.dtype)
        acc = tlx.async_dot(early_p, tlx.local_slice(low.kv_l, [0, 0], [HALF, low.kv_l.shape[1]]), acc)
        late = powers(tle.extract_tile(logits, [0, 1], [BH, HALF]), most, scale)
        late_p = late.to(probabilities.dtype)
        acc = tlx.async_dot(late_p, tlx.local_slice(low.kv_l, [HALF, 0], [HALF, low.kv_l.shape[1]]), acc)
        given = scores.acquire(block)
        tl.store(tle.gpu.local_ptr(given.shrink), shrink)
        tlx.local_store(tlx.local_slice(probabilities, [0, 0], [BH, HALF]), early_p)
        tlx.local_store(tlx.local_slice(probabilities, [0, HALF], [BH, HALF]), late_p)
        added = tl.sum(early + late, 1)
    else:
        p = powers(logits, most, scale)
        given_p = p.to(probabilities.dtype)
        acc = tlx.async_dot(given_p, low.kv_l, acc)
        given = scores.acquire(block)
        tl.store(tle.gpu.local_ptr(given.shrink), shrink)
        tl.store(tle.gpu.local_ptr(probabilities), given_p)
        added = tl.sum(p, 1)
    scores.commit(block)
    return acc, most, total * shrink + added


@mimw.jit
def left_3(q, queries, lows, highs, scores, probabilities, out_desc, lse, work, scale, form, ZERO: tl.constexpr,
           TRAIL: tl.constexpr, PARTS: tl.constexpr, IDLE: tl.constexpr, TAILH: tl.constexpr, WHOLE: tl.constexpr):
    """Scores and softmax of every block, and the left half of the output, whose products run while probabilities are handed on."""
    mine = q.wait(0).slot
    BH: tl.constexpr = form.BH
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, form.DV // 2), tl.float32)
    blocks = blocks_of(work, form)
    if IDLE:
        for block in range(blocks):
            low, high = lows.wait(block).slot, highs.wait(block).slot
            given = scores.acquire(block)
            tl.store(tle.gpu.local_ptr(given.shrink), total)
            scores.commit(block)
            highs.release(block)
            lows.release(block)
    elif TRAIL:
        logits, _ = scored(lows, highs, queries, 0, 0, TAILH)
        for block in range(blocks - 1):
            low = lows.wait(block).slot
            acc, most, total = weighed(logits, low, acc, most, total, scores, probabilities, scale, block, PARTS, WHOLE)
            highs.release(block)
            after = block + 1
            logits, _ = scored(lows, highs, queries, after, (block >> 20 if ZERO else 0), TAILH)
            acc = tlx.async_dot_wait(3, acc)
            lows.release(block)
        last = blocks - 1
        low = lows.wait(last).slot
        acc, most, total = weighed(logits, low, acc, most, total, scores, probabilities, scale, last, PARTS, WHOLE)
        highs.release(last)
        acc = tlx.async_dot_wait(0, acc)
        lows.release(last)
    else:
        for block in range(blocks):
            logits, low = scored(lows, highs, queries, block, (block >> 20 if ZERO else 0), TAILH)
            acc, most, total = weighed(logits, low, acc, most, total, scores, probabilities, scale, block, PARTS, WHOLE)
            highs.release(block)
            acc = tlx.async_dot_wait(0, acc)
            lows.release(block)
    given = scores.acquire(blocks)
    tl.store(tle.gpu.local_ptr(given.shrink), total)
    scores.commit(blocks)
    store_half(acc, total, mine.q_l, out_desc, work.row, 0)
    store_lse(lse, work.row, most, total, scale, form)


@mimw.jit
def right_3(q, highs, scores, probabilities, out_desc, work, form, IDLE: tl.constexpr):
    """The right half of the output."""
    mine = q.wait(0).slot
    acc = tl.zeros((form.BH, form.DV // 2), tl.float32)
    blocks = blocks_of(work, form)
    for block in range(blocks):
        received = scores.wait(block).slot
        high = highs.wait(block).slot
        if not IDLE:
            acc = tl.dot(at(probabilities), at(high.kv_r), acc * at(received.shrink)[:, None])
        scores.release(block)
        highs.release(block)
    total = at(scores.wait(blocks).slot.shrink)
    store_half(acc, total, mine.q_r, out_desc, work.row, form.DV // 2)


@mimw.jit
def two_producers(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, FORM: tl.constexpr, ZERO: tl.constexpr = False,
                  TRAIL: tl.constexpr = False, AHEAD: tl.constexpr = False, PARTS: tl.constexpr = False, STILL: tl.constexpr = False, IDLE: tl.constexpr = False,
                  TAILH: tl.constexpr = False, WHOLE: tl.constexpr = False, ONE: tl.constexpr = False):
    """The pipe form with a producer for each half."""
    work = work_of(kv, indices, lengths, problem, FORM)

    BH: tl.constexpr = FORM.BH
    BK: tl.constexpr = FORM.BK
    HALF: tl.constexpr = FORM.DV // 2
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    queries = Queries(tle.gpu.alloc([1, BH, HALF], TYPE), tle.gpu.alloc([1, BH, HALF], TYPE), tle.gpu.alloc([1, BH, FORM.DT], TYPE))
    q = tle.pipe(queries, capacity=1, one_shot=True, readers=("left", "right"))
    if TAILH:
        lows = tle.pipe(capacity=2, kv_l=tle.gpu.alloc([2, BK, HALF], TYPE), valid=tle.gpu.alloc([2, BK], tl.int32),
                        whole=tle.gpu.alloc([2, 1], tl.int32))
        highs = tle.pipe(capacity=2, readers=("left", "right"), kv_r=tle.gpu.alloc([2, BK, HALF], TYPE),
                         tail=tle.gpu.alloc([2, BK, FORM.DT], TYPE))
    else:
        lows = tle.pipe(capacity=2, kv_l=tle.gpu.alloc([2, BK, HALF], TYPE), tail=tle.gpu.alloc([2, BK, FORM.DT], TYPE),
                        valid=tle.gpu.alloc([2, BK], tl.int32),
                        whole=tle.gpu.alloc([2, 1], tl.int32))
        highs = tle.pipe(capacity=2, readers=("left", "right"), kv_r=tle.gpu.alloc([2, BK, HALF], TYPE))
    scores = tle.pipe(capacity=1, shrink=tle.gpu.alloc([1, BH], tl.float32))
    probabilities = tle.gpu.alloc([BH, BK], TYPE)

    fill_q = q.writer()
    copy_queries(Descriptors(q_desc, tail_desc, out_desc), fill_q.acquire(0), work.row, FORM)
    fill_q.commit(0)
    if ONE:
        tle.gpu.warp_specialize([
            (left_3, (q.reader("left"), queries, lows.reader(), highs.reader("left"), scores.writer(), probabilities, out_desc, lse, work,
                      problem.scale, FORM, ZERO, TRAIL, PARTS, IDLE, TAILH, WHOLE)),
            (right_3, (q.reader("right"), highs.reader("right"), scores.reader(), probabilities, out_desc, work, FORM, IDLE)),
            (produce_one, (lows.writer(), highs.writer(), work, FORM)),
        ], [4, 4], [160, 96])
    else:
        tle.gpu.warp_specialize([
            (left_3, (q.reader("left"), queries, lows.reader(), highs.reader("left"), scores.writer(), probabilities, out_desc, lse, work,
                      problem.scale, FORM, ZERO, TRAIL, PARTS, IDLE, TAILH, WHOLE)),
            (right_3, (q.reader("right"), highs.reader("right"), scores.reader(), probabilities, out_desc, work, FORM, IDLE)),
            (produce_lows, (lows.writer(), work, FORM, STILL, TAILH, WHOLE)),
            (produce_highs, (highs.writer(), work, FORM, AHEAD, STILL, TAILH)),
        ], [4, 2, 2], [160, 96, 96])


# ---- the form without roles, whose lists are read ahead ---------------------------------------------------------------------------


@mimw.jit
def fetch_2(keys, tails, row, work, form):
    """Start to bring the rows that entries name; which of them count."""
    fill_from(keys, rows_of(row, form, form.DV), work, form, 0)
    fill_from(tails, rows_of(row, form, form.DT), work, form, form.DV)
    tlx.async_load_commit_group()
    return counted(row, work, form)


@mimw.jit
def shared_2(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, FORM: tl.constexpr, ZERO: tl.constexpr = False, EARLY: tl.constexpr = False):
    """BH heads of one query."""
    work = work_of(kv, indices, lengths, problem, FORM)

    BH: tl.constexpr = FORM.BH
    BK: tl.constexpr = FORM.BK
    DV: tl.constexpr = FORM.DV
    DT: tl.constexpr = FORM.DT
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    q, q_tail = tle.gpu.alloc([1, BH, DV], TYPE), tle.gpu.alloc([1, BH, DT], TYPE)
    keys, tails = tle.gpu.alloc([2, BK, DV], TYPE), tle.gpu.alloc([2, BK, DT], TYPE)
    ahead = fetch_2(keys.slot(0), tails.slot(0), named(work, 0, FORM), work, FORM)
    row = named(work, BK, FORM)
    tle.gpu.copy(q_desc, q.slot(0), [BH, DV], [work.row, 0])
    tle.gpu.copy(tail_desc, q_tail.slot(0), [BH, DT], [work.row, DV])
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, DV), tl.float32)
    for block in range(tl.cdiv(work.length, BK)):
        ok, place, other = ahead, block % 2, 1 - block % 2
        if EARLY:
            tlx.async_load_wait_group(0)
            logits = tlx.async_dot(q_tail.slot(block >> 20 if ZERO else 0), tlx.local_trans(tails.slot(place)))
            logits = tlx.async_dot(q.slot(block >> 20 if ZERO else 0), tlx.local_trans(keys.slot(place)), logits)
            ahead = fetch_2(keys.slot(other), tails.slot(other), row, work, FORM)
            row = named(work, (block + 2) * BK, FORM)
            logits = masked(tlx.async_dot_wait(0, logits), ok)
        else:
            ahead = fetch_2(keys.slot(other), tails.slot(other), row, work, FORM)
            row = named(work, (block + 2) * BK, FORM)
            tlx.async_load_wait_group(1)
            logits = tl.dot(at(q_tail.slot(block >> 20 if ZERO else 0)), tl.trans(at(tails.slot(place))))
            logits = masked(tl.dot(at(q.slot(block >> 20 if ZERO else 0)), tl.trans(at(keys.slot(place))), logits), ok)
        before, most = most, tl.maximum(most, tl.max(logits, 1))
        shrink = tl.exp2((before - most) * problem.scale)
        acc *= shrink[:, None]
        p = powers(logits, most, problem.scale)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(TYPE), at(keys.slot(place)), acc)
    tlx.async_load_wait_group(0)
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(tle.gpu.local_ptr(q.slot(0)), out.to(TYPE))
    tle.gpu.copy(q.slot(0), out_desc, [BH, DV], [work.row, 0])
    store_lse(lse, work.row, most, total, problem.scale, FORM)
