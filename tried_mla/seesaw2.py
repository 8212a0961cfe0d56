"""Sparse MLA prefill, the seesaw form: two consumers score every other block and multiply half of the columns of both.

Input: descriptors of q and out, KV and the lists of rows as pointers, for one batch and one group of KV heads, without
a causal mask. Output: out and lse of BH heads of one query a program:

    seesaw[(H // BH, S)](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, ...)

Work goes in pairs of blocks:

    first    scores block 0, multiplies the left halves of blocks 0 and 1
    second   scores block 1, multiplies the right halves of blocks 1 and 0
    produce  gathers K0-left, K1-right, K0-right, K1-left, in the order in which the consumers want these tiles

Each consumer needs the other's probabilities, and both need one maximum: `first` hands over its own, `second` the joint
one, and `first` then shrinks its sums. All pipes have one place. The probabilities of block 0 lie where the tail of
block 0 was; both maxima share one row, and so do the sums that the two consumers exchange at the end.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .pipe2 import Queries, counted, fill_from, named, rows_of
from .nouns import Descriptors, Work, listed
from .steps import NO_LOGIT, at, copy_queries, gather, landed, masked, powers, softmax, store_half, store_lse


@tle.struct
class Tiles:
    """A role's ends of the pipes of rows, by blocks and halves, and of which rows count; None where it has no part."""

    k0_left: Any
    k0_right: Any
    k1_left: Any
    k1_right: Any
    validity: Any


@tle.struct
class Exchange:
    """A consumer's ends of the pipes to and from the other one: maxima, probabilities, sums."""

    own_most: Any
    other_most: Any
    own_p: Any
    other_p: Any
    own_sum: Any
    other_sum: Any


@mimw.jit
def produce_lefts(tiles, work, form):
    """Left halves of both blocks of each pair, and which rows count."""
    row0, row1 = named(work, 0, form), named(work, form.BK, form)
    for pair in range(tl.cdiv(work.length, 2 * form.BK)):
        wide = rows_of(row0, form, form.DV // 2)
        fill_from(tiles.k0_left.acquire(pair).k, wide, work, form, 0)
        valid = tiles.validity.acquire(pair).valid
        tl.store(tle.gpu.local_ptr(valid.slot(0)), counted(row0, work, form).to(tl.int8))
        tl.store(tle.gpu.local_ptr(valid.slot(1)), counted(row1, work, form).to(tl.int8))
        tiles.validity.commit(pair)
        row0 = named(work, (pair + 1) * 2 * form.BK, form)
        landed()
        tiles.k0_left.commit(pair)
        wide = rows_of(row1, form, form.DV // 2)
        fill_from(tiles.k1_left.acquire(pair).k, wide, work, form, 0)
        row1 = named(work, (pair + 1) * 2 * form.BK + form.BK, form)
        landed()
        tiles.k1_left.commit(pair)


@mimw.jit
def produce_rights(tiles, work, form):
    """Right halves and tails of both blocks of each pair."""
    row0, row1 = named(work, 0, form), named(work, form.BK, form)
    for pair in range(tl.cdiv(work.length, 2 * form.BK)):
        wide, narrow = rows_of(row1, form, form.DV // 2), rows_of(row1, form, form.DT)
        slot = tiles.k1_right.acquire(pair)
        fill_from(slot.k, wide, work, form, form.DV // 2)
        fill_from(slot.tail, narrow, work, form, form.DV)
        row1 = named(work, (pair + 1) * 2 * form.BK + form.BK, form)
        landed()
        tiles.k1_right.commit(pair)
        wide, narrow = rows_of(row0, form, form.DV // 2), rows_of(row0, form, form.DT)
        slot = tiles.k0_right.acquire(pair)
        fill_from(slot.k, wide, work, form, form.DV // 2)
        fill_from(slot.tail, narrow, work, form, form.DV)
        row0 = named(work, (pair + 1) * 2 * form.BK, form)
        landed()
        tiles.k0_right.commit(pair)


@mimw.jit
def first(fill_q, q, queries, tiles, exchange, descriptors, work, scale, form):
    """Blocks 0, 2, ..: their scores; and the left half of the output."""
    copy_queries(descriptors, fill_q.acquire(0), work.row, form)
    fill_q.commit(0)
    mine = q.wait(0).slot
    most, total = tl.full((form.BH, ), NO_LOGIT, tl.float32), tl.zeros((form.BH, ), tl.float32)
    acc = tl.zeros((form.BH, form.DV // 2), tl.float32)
    for pair in range(tl.cdiv(work.length, 2 * form.BK)):
        low = tiles.k0_left.wait(pair).slot
        logits = tl.dot(at(queries.q_l.slot(pair >> 20)), tl.trans(at(low.k)))
        high = tiles.k0_right.wait(pair).slot
        logits = tl.dot(at(queries.q_r.slot(pair >> 20)), tl.trans(at(high.k)), logits)
        logits = tl.dot(at(queries.q_tail.slot(pair >> 20)), tl.trans(at(high.tail)), logits)
        logits = masked(logits, at(tiles.validity.wait(pair).slot.valid.slot(0)))
        tiles.validity.release(pair)
        p, most, total, shrink = softmax(logits, most, total, scale)
        tl.store(tle.gpu.local_ptr(exchange.own_most.acquire(pair).most), most)
        exchange.own_most.commit(pair)
        acc = tl.dot(p.to(low.k.dtype), at(low.k), acc * shrink[:, None])
        tiles.k0_left.release(pair)
        tiles.k0_right.release(pair)

        joint = at(exchange.other_most.wait(pair).slot.most)
        exchange.other_most.release(pair)
        shrink = tl.exp2((most - joint) * scale)
        tl.store(tle.gpu.local_ptr(exchange.own_p.acquire(pair).p), (p * shrink[:, None]).to(low.k.dtype))
        exchange.own_p.commit(pair)
        total, most = total * shrink, joint
        theirs = exchange.other_p.wait(pair).slot
        acc = tl.dot(at(theirs.p), at(tiles.k1_left.wait(pair).slot.k), acc * shrink[:, None])
        tiles.k1_left.release(pair)
        exchange.other_p.release(pair)
    tl.store(tle.gpu.local_ptr(exchange.own_sum.acquire(0).total), total)
    exchange.own_sum.commit(0)
    total += at(exchange.other_sum.wait(1).slot.total)
    store_half(acc, total, mine.q_l, descriptors.out, work.row, 0)


@mimw.jit
def second(q, queries, tiles, exchange, out_desc, lse, work, scale, form):
    """Blocks 1, 3, ..: their scores and the joint maximum; the right half of the output, and lse."""
    mine = q.wait(0).slot
    most, total = tl.full((form.BH, ), NO_LOGIT, tl.float32), tl.zeros((form.BH, ), tl.float32)
    acc = tl.zeros((form.BH, form.DV // 2), tl.float32)
    for pair in range(tl.cdiv(work.length, 2 * form.BK)):
        high = tiles.k1_right.wait(pair).slot
        logits = tl.dot(at(queries.q_r.slot(pair >> 20)), tl.trans(at(high.k)))
        logits = tl.dot(at(queries.q_tail.slot(pair >> 20)), tl.trans(at(high.tail)), logits)
        logits = tl.dot(at(queries.q_l.slot(pair >> 20)), tl.trans(at(tiles.k1_left.wait(pair).slot.k)), logits)
        tiles.k1_left.release(pair)
        logits = masked(logits, at(tiles.validity.wait(pair).slot.valid.slot(1)))
        tiles.validity.release(pair)
        other = at(exchange.other_most.wait(pair).slot.most)
        exchange.other_most.release(pair)
        before, most = most, tl.maximum(tl.maximum(most, other), tl.max(logits, 1))
        tl.store(tle.gpu.local_ptr(exchange.own_most.acquire(pair).most), most)
        exchange.own_most.commit(pair)
        shrink = tl.exp2((before - most) * scale)
        p = powers(logits, most, scale)
        total = total * shrink + tl.sum(p, 1)
        tl.store(tle.gpu.local_ptr(exchange.own_p.acquire(pair).p), p.to(high.k.dtype))
        exchange.own_p.commit(pair)
        acc = tl.dot(p.to(high.k.dtype), at(high.k), acc * shrink[:, None])
        tiles.k1_right.release(pair)
        theirs = exchange.other_p.wait(pair).slot
        acc = tl.dot(at(theirs.p), at(tiles.k0_right.wait(pair).slot.k), acc)
        exchange.other_p.release(pair)
        tiles.k0_right.release(pair)
    tl.store(tle.gpu.local_ptr(exchange.own_sum.acquire(1).total), total)
    exchange.own_sum.commit(1)
    total += at(exchange.other_sum.wait(0).slot.total)
    store_half(acc, total, mine.q_r, out_desc, work.row, form.DV // 2)
    store_lse(lse, work.row, most, total, scale, form)


@mimw.jit
def seesaw_2(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, problem, FORM: tl.constexpr):
    """BH heads of query `tl.program_id(1)`, from `tl.program_id(0)` * BH on."""
    head, query = tl.program_id(0) * FORM.BH, tl.program_id(1)
    row = query * problem.H + head
    length = tl.minimum(tl.load(lengths + query), problem.TOPK)
    work = Work(row, kv, FORM.DV + FORM.DT, problem.SKV, indices + query.to(tl.int64) * problem.TOPK, length, query)

    BH: tl.constexpr = FORM.BH
    BK: tl.constexpr = FORM.BK
    DT: tl.constexpr = FORM.DT
    HALF: tl.constexpr = FORM.DV // 2
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    queries = Queries(tle.gpu.alloc([1, BH, HALF], TYPE), tle.gpu.alloc([1, BH, HALF], TYPE), tle.gpu.alloc([1, BH, DT], TYPE))
    q = tle.pipe(queries, capacity=1, one_shot=True, readers=("first", "second"))
    tail0 = tle.gpu.alloc([1, BK, DT], TYPE)
    k0_left = tle.pipe(capacity=1, k=tle.gpu.alloc([1, BK, HALF], TYPE))
    k0_right = tle.pipe(capacity=1, readers=("scores", "product"), k=tle.gpu.alloc([1, BK, HALF], TYPE), tail=tail0)
    k1_left = tle.pipe(capacity=1, readers=("scores", "product"), k=tle.gpu.alloc([1, BK, HALF], TYPE))
    k1_right = tle.pipe(capacity=1, k=tle.gpu.alloc([1, BK, HALF], TYPE), tail=tle.gpu.alloc([1, BK, DT], TYPE))
    validity = tle.pipe(capacity=1, readers=("first", "second"), valid=tle.gpu.alloc([1, 2, BK], tl.int8))
    row_of_most = tle.gpu.alloc([1, BH], tl.float32)
    most0, most1 = tle.pipe(capacity=1, most=row_of_most), tle.pipe(capacity=1, most=row_of_most)
    p0, p1 = tle.pipe(capacity=1, p=tail0), tle.pipe(capacity=1, p=tle.gpu.alloc([1, BH, BK], TYPE))
    rows_of_sums = tle.gpu.alloc([2, BH], tl.float32)
    sum0, sum1 = tle.pipe(capacity=2, total=rows_of_sums), tle.pipe(capacity=2, total=rows_of_sums)
    of_first = Tiles(k0_left.reader(), k0_right.reader("scores"), k1_left.reader("product"), None, validity.reader("first"))
    of_second = Tiles(None, k0_right.reader("product"), k1_left.reader("scores"), k1_right.reader(), validity.reader("second"))
    written = Tiles(k0_left.writer(), k0_right.writer(), k1_left.writer(), k1_right.writer(), validity.writer())
    there = Exchange(most0.writer(), most1.reader(), p0.writer(), p1.reader(), sum0.writer(), sum1.reader())
    back = Exchange(most1.writer(), most0.reader(), p1.writer(), p0.reader(), sum1.writer(), sum0.reader())
    descriptors = Descriptors(q_desc, tail_desc, out_desc)
    tle.gpu.warp_specialize([
        (first, (q.writer(), q.reader("first"), queries, of_first, there, descriptors, work, problem.scale, FORM)),
        (second, (q.reader("second"), queries, of_second, back, out_desc, lse, work, problem.scale, FORM)),
        (produce_lefts, (written, work, FORM)),
        (produce_rights, (written, work, FORM)),
    ], [4, 2, 2], [232, 64, 64])
