"""The consumer's loop for caches of e4m3: keys and values are the left operands of its products, by pairs of bytes.

Input: a ring of blocks, and queries turned, (WARPS, D / 2, rows), the even columns and the odd ones. Output: each warp's sums. For
example:

    sums = attend_pairs(ring, even, odd, chunk, item, lowest, scores, problem, form)

Tensor cores multiply fp16, which holds every e4m3, and `ldmatrix` brings them elements of 16 bits. So a row of D bytes is read as
D / 2 pairs, keys as they lie, values turned, and a pair is taken apart in registers: four numbers by one `prmt` and two `cvt`. Even
and odd columns are then two products with half of the queries each, and two halves of the sums, which are put together at the end.

Keys as rows of a product of 16 x 8 x 16 leave its 8 columns to the queries: up to 8 of them take half of the products, sums and
exponentials that 16 rows of queries would. Sums of probabilities stay apart by key until the end.
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attend import WARPS
from ..nouns import Sums
from ..scores import clear_rows, softcapped

_APART = tl.constexpr("""{ .reg .b16 low, high; .reg .b32 sorted;
    prmt.b32 sorted, $2, 0, 0x3120; mov.b32 {low, high}, sorted;
    cvt.rn.f16x2.e4m3x2 $0, low; cvt.rn.f16x2.e4m3x2 $1, high; }""")


@triton.constexpr_function
def left_operand(tall, wide):
    """The layout of the left operand of mma.m16n8k16, `tall` x `wide` numbers of 16 bits for each of four warps (PTX ISA, "Matrix
    fragments for mma.m16n8k16"). Said here, since Triton moves this layout through no assembly to the load by itself."""
    return tlx.layout(((4, 8, 4), (2, 2, 2, wide // 16, tall // 16)),
                      ((2, wide, tall * wide), (1, 8 * wide, 8, 16, 16 * wide)))


@mimw.jit
def halves(pairs, tall: tl.constexpr, wide: tl.constexpr):
    """(the first numbers, the second numbers) of pairs of e4m3, in fp16: two pairs of a register at a time."""
    pairs = tlx.require_layout(pairs, left_operand(tall, wide))
    return tl.inline_asm_elementwise(_APART, "=r,=r,r", [pairs], (tl.float16, tl.float16), True, 2)


@mimw.jit
def clear_unseen_words(values, block, length, lowest, BN: tl.constexpr):
    """Zeros over the values of keys that no query sees, four at a time. It ends in a barrier of its own, so that none stands in
    front of every block's values."""
    if (block * BN < lowest) | ((block + 1) * BN > length):
        clear_rows(tlx.local_reinterpret(values, tl.int32, [BN, values.shape[1] // 4]), block, length, lowest, BN, 0)
        tl.debug_barrier()


@mimw.jit
def attend_pairs(ring, even, odd, chunk, item, lowest, rules, problem, form):
    """Sums over each warp's keys of the item's blocks, as `attend`'s, of BN / 4 keys and `rows` columns a warp."""
    HALF: tl.constexpr = even.shape[1]
    TALL: tl.constexpr = even.shape[2]
    KEYS: tl.constexpr = form.BN // WARPS
    highest, total = tl.full((WARPS, TALL), float("-inf"), tl.float32), tl.zeros((WARPS, KEYS, TALL), tl.float32)
    first_acc, second_acc = tl.zeros((WARPS, HALF, TALL), tl.float32), tl.zeros((WARPS, HALF, TALL), tl.float32)
    last = tl.arange(0, TALL) // problem.group + (item.length - problem.queries)
    inside = tl.arange(0, WARPS)[:, None] * KEYS + tl.arange(0, KEYS)[None, :]
    for block in range(item.first, item.stop):
        slot = ring.wait(chunk).slot
        clear_unseen_words(slot.v, block, item.length, lowest, form.BN)
        k = tlx.local_load(tlx.local_reinterpret(slot.k, tl.int16, [WARPS, KEYS, HALF]))
        v = tlx.local_load(tlx.local_trans(tlx.local_reinterpret(slot.v, tl.int16, [WARPS, KEYS, HALF]), (0, 2, 1)))
        v_even, v_odd = halves(v, HALF, KEYS)
        k_even, k_odd = halves(k, KEYS, HALF)
        scores = tl.dot(k_even, even) + tl.dot(k_odd, odd)
        scores = softcapped(scores, rules.inner)
        key = block * form.BN + inside
        scores = tl.where(key[:, :, None] <= last[None, None, :], scores, float("-inf"))
        if problem.left is not None:
            scores = tl.where(key[:, :, None] >= (last - problem.left)[None, None, :], scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 1) * rules.scale)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores * rules.scale - base[:, None, :]), tl.exp2(before - base)
        total = total * shrink[:, None, :] + p
        weights = p.to(tl.float16)
        first_acc = tl.dot(v_even, weights, first_acc * shrink[:, None, :])
        second_acc = tl.dot(v_odd, weights, second_acc * shrink[:, None, :])
        ring.release(chunk)
        chunk += 1
    acc = tl.reshape(tl.permute(tl.join(first_acc, second_acc), (0, 1, 3, 2)), (WARPS, 2 * HALF, TALL))
    return Sums(highest, tl.sum(total, 1), acc)
