"""Rules for blocks of scores, and for values of keys that nobody sees.

Input: a block's scores or values. Output: the same under the soft cap, or with zeros for keys that no
query sees. For example:

    scores = softcapped(scores, rules.inner)                    s / cap by tanh, where there is a cap
    clear_unseen(slot.v, block, length, lowest, form.BN)        zeros over the values of keys that are not the sequence's
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def softcapped(scores, inner):
    """tanh of the scores times `inner`, or the scores as they are without a soft cap."""
    if inner is None:
        return scores
    else:
        return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [scores * inner], tl.float32, True, 1)


@mimw.jit
def clear_rows(values, block, length, lowest, BN: tl.constexpr, ZERO: tl.constexpr):
    """Zeros over the rows of keys that no query sees: these rows are not the sequence's, and 0 * NaN is NaN."""
    key = block * BN + tl.arange(0, BN)
    mine = (key >= lowest) & (key < length)
    tlx.local_store(values, tl.where(mine[:, None], tlx.local_load(values), ZERO))


@mimw.jit
def clear_unseen(values, block, length, lowest, BN: tl.constexpr):
    """Zeros over the values of keys that no query sees. It ends in a barrier of its own, so that none stands in front of every
    block's values."""
    if (block * BN < lowest) | ((block + 1) * BN > length):
        for piece in tl.static_range(0, BN, 16):        # few registers: all others are a tile's
            rows = tlx.local_slice(values, [piece, 0], [16, values.shape[1]])
            clear_rows(rows, block * (BN // 16) + piece // 16, length, lowest, 16, 0.0)
        tl.debug_barrier()
