"""What few.py and finished.py share, whose warps have a quarter of every block's keys each: blocks, tiles of queries, sums.

Input: pipes, descriptors of the caches' pages, Q. Output: blocks in the ring, queries, each warp's sums of a tile. For example:

    rows = rows_of(q, batch, tile, problem, ROWS, form)
    sums = attend(ring, rows of all warps, chunk, item, lowest, scores, problem, form)

A warp's products are one of a batch of four, for the compiler: a block costs one wait and one release, and no exchange between
warps. `endings` is a pipe that tells who else has keys of a tile.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import Ending, Sums, row_at

ROWS, WARPS = tl.constexpr(16), tl.constexpr(4)     # rows of a tile: those of a product of one warp; warps of a consumer


@mimw.jit
def load_block(ring, chunk, caches, pages, head, row, BN: tl.constexpr):
    """Block number `chunk` of keys and values: boxes from each of its pages, from `row` of the page on."""
    slot = ring.acquire(chunk)
    BOX: tl.constexpr = caches.k.block_shape
    D: tl.constexpr = slot.k.shape[1]
    k, v = tlx.local_reshape(slot.k, [1, 1, BN, D]), tlx.local_reshape(slot.v, [1, 1, BN, D])
    for box in tl.static_range(BN // BOX[2]):
        for column in tl.static_range(0, D, BOX[3]):
            tle.gpu.copy(caches.k, tlx.local_slice(k, [0, 0, box * BOX[2], column], BOX), BOX, [pages[box], head, row, column])
        for column in tl.static_range(0, D, BOX[3]):
            tle.gpu.copy(caches.v, tlx.local_slice(v, [0, 0, box * BOX[2], column], BOX), BOX, [pages[box], head, row, column])
    ring.commit(chunk)


@mimw.jit
def send_ending(endings, turn, ending):
    """Who has keys of the tile of item number `turn`."""
    slot = endings.acquire(turn)
    tlx.local_store(slot.first, tl.full((1, ), ending.first, tl.int32))
    tlx.local_store(slot.count, tl.full((1, ), ending.count, tl.int32))
    tlx.local_store(slot.place, tl.full((1, ), ending.place, tl.int32))
    endings.commit(turn)


@mimw.jit
def received_ending(endings, turn):
    """The ending that `send_ending` sent."""
    slot = endings.wait(turn).slot
    first, count = tl.max(tlx.local_load(slot.first), 0), tl.max(tlx.local_load(slot.count), 0)
    place = tl.max(tlx.local_load(slot.place), 0)
    endings.release(turn)
    return Ending(first, count, place)


@mimw.jit
def rows_of(q, batch, tile, problem, MANY: tl.constexpr, form):
    """MANY rows of a tile's queries; zeros in rows that do not count, and in columns that heads do not have."""
    packed, column = tl.arange(0, MANY), tl.arange(0, form.D)
    query, head = packed // problem.group, tile * problem.group + packed % problem.group
    place = row_at(q, batch, query, head)
    inside = (packed < problem.queries * problem.group)[:, None] & (column < form.WIDTH)[None, :]
    return tl.load(q.data + place[:, None] + column[None, :], mask=inside, other=0.0)


@mimw.jit
def without_strangers(values, block, length, lowest, BN: tl.constexpr):
    """Zeros over the values of keys that no query sees: these rows are not the sequence's, and 0 * NaN is NaN."""
    if (block * BN < lowest) | ((block + 1) * BN > length):
        key = block * BN + tl.arange(0, BN)
        mine = (key >= lowest) & (key < length)
        tlx.local_store(values, tl.where(mine[:, None], tlx.local_load(values), 0.0))


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
        if rules.inner is not None:
            scores = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [scores * rules.inner], tl.float32, True, 1)
        key = block * form.BN + inside
        scores = tl.where(key[:, None, :] <= last[None, :, None], scores, float("-inf"))
        if problem.left is not None:
            scores = tl.where(key[:, None, :] >= (last - problem.left)[None, :, None], scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 2) * rules.scale)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores * rules.scale - base[:, :, None]), tl.exp2(before - base)
        total = total * shrink + tl.sum(p, 2)
        without_strangers(slot.v, block, item.length, lowest, form.BN)
        v = tlx.local_load(tlx.local_reshape(slot.v, [WARPS, KEYS, D])).to(rows.dtype)
        acc = tl.dot(p.to(rows.dtype), v, acc * shrink[:, :, None])
        ring.release(chunk)
        chunk += 1
    return Sums(highest, total, acc)
