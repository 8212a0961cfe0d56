"""Attention of up to 16 rows, of which each warp has a quarter of every block's keys: tiles of queries, and the consumer's loop.

Input: Q, and a ring of blocks of keys and values. Output: queries, and each warp's sums of a tile. For example:

    rows = rows_of(q, batch, tile, problem, ROWS, form)
    sums = attend(ring, rows of all warps, chunk, item, lowest, scores, problem, form)

A warp's products are one of a batch of four, for the compiler: a block costs one wait and one release, and no exchange between
warps.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..nouns import Sums, row_at
from .scores import clear_unseen, softcapped

ROWS, WARPS = tl.constexpr(16), tl.constexpr(4)     # rows of a tile: those of a product of one warp; warps of a consumer


@mimw.jit
def rows_of(q, batch, tile, problem, MANY: tl.constexpr, form):
    """MANY rows of a tile's queries; zeros in rows that do not count, and in columns that heads do not have."""
    packed, column = tl.arange(0, MANY), tl.arange(0, form.D)
    query, head = packed // problem.group, tile * problem.group + packed % problem.group
    place = row_at(q, batch, query, head)
    inside = (packed < problem.queries * problem.group)[:, None] & (column < form.WIDTH)[None, :]
    return tl.load(q.data + place[:, None] + column[None, :], mask=inside, other=0.0)


@mimw.jit
def attend(ring, rows, chunk, item, lowest, rules, problem, form):
    """Sums over each warp's keys of the item's blocks."""
    D: tl.constexpr = rows.shape[2]
    KEYS: tl.constexpr = form.BN // WARPS
    highest, total = tl.full((WARPS, ROWS), float("-inf"), tl.float32), tl.zeros((WARPS, ROWS), tl.float32)
    acc = tl.zeros((WARPS, ROWS, D), tl.float32)
    last = tl.arange(0, ROWS) // problem.group + (item.length - problem.queries)
    inside = tl.arange(0, WARPS)[:, None] * KEYS + tl.arange(0, KEYS)[None, :]
    for block in range(item.first, item.stop):
        slot = ring.wait(chunk).slot
        k = tlx.local_load(tlx.local_trans(tlx.local_reshape(slot.k, [WARPS, KEYS, D]), (0, 2, 1)))
        scores = tl.dot(rows, k.to(rows.dtype))
        scores = softcapped(scores, rules.inner)
        key = block * form.BN + inside
        scores = tl.where(key[:, None, :] <= last[None, :, None], scores, float("-inf"))
        if problem.left is not None:
            scores = tl.where(key[:, None, :] >= (last - problem.left)[None, :, None], scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 2) * rules.scale)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores * rules.scale - base[:, :, None]), tl.exp2(before - base)
        total = total * shrink + tl.sum(p, 2)
        clear_unseen(slot.v, block, item.length, lowest, form.BN)
        v = tlx.local_load(tlx.local_reshape(slot.v, [WARPS, KEYS, D])).to(rows.dtype)
        acc = tl.dot(p.to(rows.dtype), v, acc * shrink[:, :, None])
        ring.release(chunk)
        chunk += 1
    return Sums(highest, total, acc)
