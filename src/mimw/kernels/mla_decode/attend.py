"""The consumers: `left` scores every block and multiplies the left half of its values, `right` multiplies the right half.

Input: queries and blocks in pipes. Output: out and lse of sequences that one group of programs reads alone, else parts of their
sums in room. For example:

    left(items.reader("left"), q, lefts.reader(), rights.reader("left"), scores.writer(), probabilities, outputs,
         rules, problem, FORM)

64 rows of 512 sums are twice what the registers of four warps hold: so each consumer has half of the columns. `left` hands on the
probabilities of a block, and by how much the sums so far shrink; its own product begins with half of them, and runs meanwhile.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_decode.items import received
from ..attention_decode.nouns import Sums
from ..sparse_mla.pipe import weighed
from ..sparse_mla.steps import NO_LOGIT, at, grown
from .finish import place_of, put, scale_of_values
from .nouns import Ends, Step


@mimw.jit
def clear_behind(values, block, length, form):
    """Zeros over the values of keys behind the last one: these rows are not the sequence's, and 0 * NaN is NaN. Who brings a cache
    of e4m3 looks at none of them."""
    if (block + 1) * form.BN > length:
        for piece in tl.static_range(0, form.BN, 16):        # few registers: all others are a tile's
            rows = tlx.local_slice(values, [piece, 0], [16, values.shape[1]])
            key = block * form.BN + piece + tl.arange(0, 16)
            tlx.local_store(rows, tl.where((key < length)[:, None], tlx.local_load(rows), 0.0))
        tlx.fence_async_shared()


@mimw.jit
def asked(q, lefts, rights, chunk, form):
    """The scores of a block, three products that have begun. The compiler does not know that the queries are always in place 0: it
    would move what it knows of their places out of the loop, and has no registers for that."""
    at = chunk >> 30
    low = lefts.wait(chunk).slot
    logits = tlx.async_dot(q.left.rows[at], tlx.local_trans(low.kv))
    if form.CACHE != 0:
        logits = tlx.async_dot(q.tail[at], tlx.local_trans(low.tail), logits)
    high = rights.wait(chunk).slot
    if form.CACHE == 0:
        logits = tlx.async_dot(q.tail[at], tlx.local_trans(high.tail), logits)
    return tlx.async_dot(q.right.rows[at], tlx.local_trans(high.kv), logits)


@mimw.jit
def seen(logits, block, last, item, problem, form):
    """-inf for keys that a query does not see; blocks that all queries see whole stay as they are."""
    most = item.length
    if form.CAUSAL:
        most = item.length - (problem.queries - 1)
    if (block + 1) * form.BN > most:
        key = block * form.BN + tl.arange(0, form.BN)
        logits = tl.where(key[None, :] <= last[:, None], logits, float("-inf"))
    return logits


@mimw.jit
def weigh(state, logits, block, step, item, place, ends, scale, problem, form):
    """Softmax of a block's scores, and its product with the left half of its values, two products that have begun; the other
    consumer is given the probabilities."""
    BN: tl.constexpr = form.BN
    HALF: tl.constexpr = form.DV // 2
    PARTS: tl.constexpr = 2 if BN % 32 == 0 and HALF & (HALF - 1) == 0 else 1
    PART: tl.constexpr = BN // PARTS
    values = ends.lefts.held(step.chunk).kv
    if form.CACHE == 0:
        clear_behind(values, block, item.length, form)
    logits = seen(logits, block, place.last, item, problem, form)
    most, shrink = grown(logits, state.highest, scale)
    p, first, acc = weighed(logits, values, state.acc * shrink[:, None], most, scale, 0, PARTS)
    if PARTS == 2:
        more, second, acc = weighed(logits, values, acc, most, scale, 1, PARTS)
        p += more
    given = ends.scores.acquire(step.number)
    tl.store(tle.gpu.local_ptr(given.row), shrink)
    tlx.local_store(tlx.local_slice(ends.probabilities, [0, 0], [64, PART]), first)
    if PARTS == 2:
        tlx.local_store(tlx.local_slice(ends.probabilities, [0, PART], [64, PART]), second)
    ends.scores.commit(step.number)
    ends.rights.release(step.chunk)
    return Sums(most, state.total * shrink + tl.sum(p, 1), acc)


@mimw.jit
def left(items, q, lefts, rights, scores, probabilities, outputs, rules, problem, form):
    """Scores and softmax of every block, and the left half of the output."""
    scale = rules.scale
    if rules.of_keys is not None:
        scale = scale * tl.load(rules.of_keys)
    ends = Ends(lefts, rights, scores, probabilities)
    turn, chunk, number = 0, 0, 0
    item = received(items, turn)
    while item.first < item.stop:
        place = place_of(item, problem, form)
        tlx.barrier_wait(q.full, turn % 2)
        state = Sums(tl.full((64, ), NO_LOGIT, tl.float32), tl.zeros((64, ), tl.float32), tl.zeros((64, form.DV // 2), tl.float32))
        for block in range(item.first, item.stop):
            logits = tlx.async_dot_wait(0, asked(q, lefts, rights, chunk, form))
            state = weigh(state, logits, block, Step(chunk, number), item, place, ends, scale, problem, form)
            state = Sums(state.highest, state.total, tlx.async_dot_wait(0, state.acc))
            lefts.release(chunk)
            chunk += 1
            number += 1
        tl.store(tle.gpu.local_ptr(scores.acquire(number).row), state.total)
        scores.commit(number)
        number += 1
        put(state.acc, state.total, state.highest * scale, q.left, 0, item, place, outputs, scale_of_values(rules), problem, form)
        tlx.barrier_arrive(q.free)
        turn += 1
        item = received(items, turn)


@mimw.jit
def multiplied(acc, rights, scores, probabilities, block, step, item, form):
    """The sums with a block's product, whose values and probabilities are given back."""
    shrink = at(scores.wait(step.number).slot.row)
    values = rights.wait(step.chunk).slot.kv
    if form.CACHE == 0:
        clear_behind(values, block, item.length, form)
    acc = tlx.async_dot_wait(0, tlx.async_dot(probabilities, values, acc * shrink[:, None]))
    scores.release(step.number)
    rights.release(step.chunk)
    return acc


@mimw.jit
def end(acc, q, scores, number, outputs, rules, item, problem, form):
    """The right half of an item's results, or of its sums. Its buffer is that of q's right half, which `left` has read when the
    last scores are here."""
    total = at(scores.wait(number).slot.row)
    scores.release(number)
    place = place_of(item, problem, form)
    put(acc, total, None, q.right, form.DV // 2, item, place, outputs, scale_of_values(rules), problem, form)


@mimw.jit
def right(items, q, rights, scores, probabilities, outputs, rules, problem, form):
    """The right half of the output."""
    turn, chunk, number = 0, 0, 0
    item = received(items, turn)
    while item.first < item.stop:
        tlx.barrier_wait(q.full, turn % 2)
        acc = tl.zeros((64, form.DV // 2), tl.float32)
        for block in range(item.first, item.stop):
            acc = multiplied(acc, rights, scores, probabilities, block, Step(chunk, number), item, form)
            chunk += 1
            number += 1
        end(acc, q, scores, number, outputs, rules, item, problem, form)
        number += 1
        tlx.barrier_arrive(q.free)
        turn += 1
        item = received(items, turn)
