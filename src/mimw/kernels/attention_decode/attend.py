"""Attention of up to 16 rows, of which each warp has a quarter of every block's keys: tiles of queries, and the consumer's loop.

Input: Q, and a ring of blocks of keys and values. Output: queries, and each warp's sums of a tile. For example:

    rows = rows_of(q, batch, tile, problem, form)
    sums = attend(ring, rows of all warps, turned, chunk, item, lowest, scores, problem, form)

A warp's products are one of a batch of four, for the compiler: a block costs one wait and one release, and no exchange between
warps. Keys, and values turned, are the left operands, so that 8 rows of queries are the 8 columns of a product of 16 x 8 x 16.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .nouns import Scores, Sums, row_at
from .scores import clear_unseen, softcapped

WARPS = tl.constexpr(4)     # of a consumer


@mimw.jit
def rows_of(q, batch, tile, problem, form):
    """TALL rows of a tile's queries; zeros in rows that do not count, and in columns that heads do not have."""
    packed, column = tl.arange(0, form.TALL), tl.arange(0, form.D)
    query, head = packed // problem.group, tile * problem.group + packed % problem.group
    place = row_at(q, batch, query, head)
    inside = (packed < problem.queries * problem.group)[:, None] & (column < form.WIDTH)[None, :]
    return tl.load(q.data + place[:, None] + column[None, :], mask=inside, other=0.0)


@mimw.jit
def hint_rows(q, batch, tile, problem, form):
    """A tile's queries to L2, where nothing that the memory has to bring delays them."""
    packed, line = tl.arange(0, form.TALL), tl.arange(0, form.D // 64)
    query, head = packed // problem.group, tile * problem.group + packed % problem.group
    inside = (packed < problem.queries * problem.group)[:, None] & (line * 64 < form.WIDTH)[None, :]
    tlx.prefetch(q.data + row_at(q, batch, query, head)[:, None] + line[None, :] * 64, mask=inside)


@mimw.jit
def put_rows(place, rows):
    """The rows, once for each warp."""
    SHAPE: tl.constexpr = (1, rows.shape[0], rows.shape[1])
    for warp in tl.static_range(WARPS):
        tlx.local_store(tlx.local_slice(place, [warp, 0, 0], SHAPE), tl.reshape(rows, SHAPE))


@mimw.jit
def put_queries(place, rows, form, PAIRS: tl.constexpr):
    """The rows, or with PAIRS their even and odd columns in fp16."""
    if PAIRS:
        rows = tl.clamp(rows.to(tl.float32), -65504.0, 65504.0).to(tl.float16)      # bf16 that no fp16 holds
        even, odd = tl.split(tl.reshape(rows, (form.TALL, form.D // 2, 2)))
        put_rows(place.even, even)
        put_rows(place.odd, odd)
    else:
        put_rows(place.rows, rows)


@mimw.jit
def turned(place):
    """The rows of all warps as right operands."""
    return tlx.local_load(tlx.local_trans(place, (0, 2, 1)))


@mimw.jit
def scaled(rules, step, tile):
    """The rules for scores of a head whose keys may have a scale; scales are `step` apart."""
    if rules.of_keys is None:
        return rules
    else:
        of_keys = tl.load(rules.of_keys + tile * step)
        if rules.inner is None:
            return Scores(rules.scale * of_keys, None, None)
        else:
            return Scores(rules.scale, rules.inner * of_keys, None)


@mimw.jit
def attend(ring, rows, chunk, item, lowest, rules, problem, form):
    """Sums over each warp's keys of the item's blocks: (WARPS, TALL), and (WARPS, D, TALL) of p V."""
    D: tl.constexpr = rows.shape[1]
    TALL: tl.constexpr = rows.shape[2]
    KEYS: tl.constexpr = form.BN // WARPS
    highest, total = tl.full((WARPS, TALL), float("-inf"), tl.float32), tl.zeros((WARPS, KEYS, TALL), tl.float32)
    acc = tl.zeros((WARPS, D, TALL), tl.float32)
    last = tl.arange(0, TALL) // problem.group + (item.length - problem.queries)
    inside = tl.arange(0, WARPS)[:, None] * KEYS + tl.arange(0, KEYS)[None, :]
    for block in range(item.first, item.stop):
        slot = ring.wait(chunk).slot
        clear_unseen(slot.v, block, item.length, lowest, form.BN)
        scores = tl.dot(tlx.local_load(tlx.local_reshape(slot.k, [WARPS, KEYS, D])), rows)
        scores = softcapped(scores, rules.inner)
        key = block * form.BN + inside
        scores = tl.where(key[:, :, None] <= last[None, None, :], scores, float("-inf"))
        if problem.left is not None:
            scores = tl.where(key[:, :, None] >= (last - problem.left)[None, None, :], scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 1) * rules.scale)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores * rules.scale - base[:, None, :]), tl.exp2(before - base)
        total = total * shrink[:, None, :] + p
        v = tlx.local_load(tlx.local_trans(tlx.local_reshape(slot.v, [WARPS, KEYS, D]), (0, 2, 1)))
        acc = tl.dot(v, p.to(rows.dtype), acc * shrink[:, None, :])
        ring.release(chunk)
        chunk += 1
    return Sums(highest, tl.sum(total, 1), acc)
