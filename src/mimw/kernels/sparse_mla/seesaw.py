"""Sparse MLA prefill, the seesaw form: two consumers score every other block and multiply half of the columns of both.

Input: descriptors of q and out, KV and the lists of rows as pointers, for one batch and one group of KV heads, without
a causal mask. Output: out and lse of BH heads of one query a program:

    seesaw[(H // BH, S)](q_desc, tail_desc, out_desc, kv, indices, lengths, lse, SKV, H, TOPK, scale, ...)

Work goes in pairs of blocks:

    first    scores block 0, multiplies the left halves of blocks 0 and 1
    second   scores block 1, multiplies the right halves of blocks 1 and 0
    produce  gathers K0-left, K1-right, K0-right, K1-left, in the order in which the consumers want these tiles

Each consumer needs the other's probabilities, and both need one maximum: `first` hands over its own, `second` the joint
one, and `first` then shrinks its sums. All pipes have one place. The probabilities of block 0 lie where the tail of
block 0 was; both maxima share one row, and so do the sums that the two consumers exchange at the end.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .steps import NO_LOGIT, at, gather, landed, listed, masked, powers, store_half, store_lse


@mimw.jit
def produce(k0_left, k0_right, k1_left, k1_right, validity, kv, indices, length, SKV, BK: tl.constexpr, DV: tl.constexpr,
            DT: tl.constexpr):
    """Pair after pair of blocks of listed rows."""
    for pair in range(tl.cdiv(length, 2 * BK)):
        rows0, ok0 = listed(indices, pair * 2 * BK, length, 0, SKV, False, BK)
        rows1, ok1 = listed(indices, pair * 2 * BK + BK, length, 0, SKV, False, BK)
        from0, from1 = kv + rows0 * (DV + DT), kv + rows1 * (DV + DT)
        gather(k0_left.acquire(pair).k, from0, ok0, 0)
        landed()
        k0_left.commit(pair)
        slot = k1_right.acquire(pair)
        gather(slot.k, from1, ok1, DV // 2)
        gather(slot.tail, from1, ok1, DV)
        landed()
        k1_right.commit(pair)
        slot = k0_right.acquire(pair)
        gather(slot.k, from0, ok0, DV // 2)
        gather(slot.tail, from0, ok0, DV)
        landed()
        k0_right.commit(pair)
        gather(k1_left.acquire(pair).k, from1, ok1, 0)
        landed()
        k1_left.commit(pair)
        valid = validity.acquire(pair).valid
        tl.store(tle.gpu.local_ptr(valid.slot(0)), ok0.to(tl.int8))
        tl.store(tle.gpu.local_ptr(valid.slot(1)), ok1.to(tl.int8))
        validity.commit(pair)


@mimw.jit
def first(fill_q, q, k0_left, k0_right, k1_left, validity, own_most, joint_most, own_p, other_p, own_sum, other_sum, q_desc,
          tail_desc, out_desc, row, length, scale, BK: tl.constexpr, DV: tl.constexpr, DT: tl.constexpr):
    """Blocks 0, 2, ..: their scores; and the left half of the output."""
    filled = fill_q.acquire(0)
    BH: tl.constexpr = filled.q_l.shape[0]
    HALF: tl.constexpr = DV // 2
    tle.gpu.copy(q_desc, filled.q_l, [BH, HALF], [row, 0])
    tle.gpu.copy(q_desc, filled.q_r, [BH, HALF], [row, HALF])
    tle.gpu.copy(tail_desc, filled.q_tail, [BH, DT], [row, DV])
    fill_q.commit(0)
    mine = q.wait(0).slot
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, HALF), tl.float32)
    for pair in range(tl.cdiv(length, 2 * BK)):
        low = k0_left.wait(pair).slot
        logits = tl.dot(at(mine.q_l), tl.trans(at(low.k)))
        high = k0_right.wait(pair).slot
        logits = tl.dot(at(mine.q_r), tl.trans(at(high.k)), logits)
        logits = tl.dot(at(mine.q_tail), tl.trans(at(high.tail)), logits)
        logits = masked(logits, at(validity.wait(pair).slot.valid.slot(0)))
        validity.release(pair)
        before, most = most, tl.maximum(most, tl.max(logits, 1))
        shrink = tl.exp2((before - most) * scale)
        p = powers(logits, most, scale)
        total = total * shrink + tl.sum(p, 1)
        tl.store(tle.gpu.local_ptr(own_most.acquire(pair).most), most)
        own_most.commit(pair)
        acc = tl.dot(p.to(low.k.dtype), at(low.k), acc * shrink[:, None])
        k0_left.release(pair)
        k0_right.release(pair)

        joint = at(joint_most.wait(pair).slot.most)
        joint_most.release(pair)
        shrink = tl.exp2((most - joint) * scale)
        tl.store(tle.gpu.local_ptr(own_p.acquire(pair).p), (p * shrink[:, None]).to(low.k.dtype))
        own_p.commit(pair)
        total, most = total * shrink, joint
        theirs = other_p.wait(pair).slot
        acc = tl.dot(at(theirs.p), at(k1_left.wait(pair).slot.k), acc * shrink[:, None])
        k1_left.release(pair)
        other_p.release(pair)
    tl.store(tle.gpu.local_ptr(own_sum.acquire(0).total), total)
    own_sum.commit(0)
    total += at(other_sum.wait(1).slot.total)
    store_half(acc, total, mine.q_l, out_desc, row, 0)


@mimw.jit
def second(q, k1_left, k1_right, k0_right, validity, own_most, other_most, own_p, other_p, own_sum, other_sum, out_desc, lse, row,
           length, scale, BASE_2: tl.constexpr, BK: tl.constexpr):
    """Blocks 1, 3, ..: their scores and the joint maximum; the right half of the output, and lse."""
    mine = q.wait(0).slot
    BH: tl.constexpr = mine.q_r.shape[0]
    most, total = tl.full((BH, ), NO_LOGIT, tl.float32), tl.zeros((BH, ), tl.float32)
    acc = tl.zeros((BH, mine.q_r.shape[1]), tl.float32)
    for pair in range(tl.cdiv(length, 2 * BK)):
        high = k1_right.wait(pair).slot
        logits = tl.dot(at(mine.q_r), tl.trans(at(high.k)))
        logits = tl.dot(at(mine.q_tail), tl.trans(at(high.tail)), logits)
        logits = tl.dot(at(mine.q_l), tl.trans(at(k1_left.wait(pair).slot.k)), logits)
        k1_left.release(pair)
        logits = masked(logits, at(validity.wait(pair).slot.valid.slot(1)))
        validity.release(pair)
        other = at(other_most.wait(pair).slot.most)
        other_most.release(pair)
        before, most = most, tl.maximum(tl.maximum(most, other), tl.max(logits, 1))
        tl.store(tle.gpu.local_ptr(own_most.acquire(pair).most), most)
        own_most.commit(pair)
        shrink = tl.exp2((before - most) * scale)
        p = powers(logits, most, scale)
        total = total * shrink + tl.sum(p, 1)
        tl.store(tle.gpu.local_ptr(own_p.acquire(pair).p), p.to(high.k.dtype))
        own_p.commit(pair)
        acc = tl.dot(p.to(high.k.dtype), at(high.k), acc * shrink[:, None])
        k1_right.release(pair)
        theirs = other_p.wait(pair).slot
        acc = tl.dot(at(theirs.p), at(k0_right.wait(pair).slot.k), acc)
        other_p.release(pair)
        k0_right.release(pair)
    tl.store(tle.gpu.local_ptr(own_sum.acquire(1).total), total)
    own_sum.commit(1)
    total += at(other_sum.wait(0).slot.total)
    store_half(acc, total, mine.q_r, out_desc, row, mine.q_r.shape[1])
    store_lse(lse, row, most, total, scale, BASE_2)


@mimw.jit
def seesaw(q_desc, tail_desc, out_desc, kv, indices, lengths, lse, SKV, H, TOPK, scale, DV: tl.constexpr, DT: tl.constexpr,
           BH: tl.constexpr, BK: tl.constexpr, BASE_2: tl.constexpr):
    """Heads head .. head + BH of query `tl.program_id(1)`; `scale` is the logits' times log2(e)."""
    head, query = tl.program_id(0) * BH, tl.program_id(1)
    row = query * H + head
    length = tl.minimum(tl.load(lengths + query), TOPK)
    list_ = indices + query.to(tl.int64) * TOPK

    HALF: tl.constexpr = DV // 2
    TYPE: tl.constexpr = tlx.dtype_of(kv)
    q = tle.pipe(capacity=1, one_shot=True, readers=("first", "second"), q_l=tle.gpu.alloc([1, BH, HALF], TYPE),
                 q_r=tle.gpu.alloc([1, BH, HALF], TYPE), q_tail=tle.gpu.alloc([1, BH, DT], TYPE))
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
    tle.gpu.warp_specialize([
        (first, (q.writer(), q.reader("first"), k0_left.reader(), k0_right.reader("scores"), k1_left.reader("product"),
                 validity.reader("first"), most0.writer(), most1.reader(), p0.writer(), p1.reader(), sum0.writer(), sum1.reader(),
                 q_desc, tail_desc, out_desc, row, length, scale, BK, DV, DT)),
        (second, (q.reader("second"), k1_left.reader("scores"), k1_right.reader(), k0_right.reader("product"),
                  validity.reader("second"), most1.writer(), most0.reader(), p1.writer(), p0.reader(), sum1.writer(),
                  sum0.reader(), out_desc, lse, row, length, scale, BASE_2, BK)),
        (produce, (k0_left.writer(), k0_right.writer(), k1_left.writer(), k1_right.writer(), validity.writer(), kv, list_, length,
                   SKV, BK, DV, DT)),
    ], [4, 4], [216, 72])
