"""What few.py and finished.py share, whose warps have a quarter of every block's keys each: blocks, tiles of queries, sums.

Input: pipes, descriptors of the caches' pages, Q. Output: blocks in the ring, queries, each warp's sums of a tile. For example:

    rows = rows_of(q, q_steps, batch, tile, group, shape, ROWS, D, WIDTH)
    highest, total, acc = attend(ring, rows of all warps, chunk, first, stop, length, lowest, group, scale, inner, shape, BN)

A warp's products are one of a batch of four, for the compiler: a block costs one wait and one release, and no exchange between
warps. `endings` is a pipe that tells who else has keys of a tile.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

ROWS, WARPS = tl.constexpr(16), tl.constexpr(4)     # rows of a tile: those of a product of one warp; warps of a consumer


@mimw.jit
def load_block(ring, chunk, k_desc, v_desc, pages, head, row, BN: tl.constexpr):
    """Block number `chunk` of keys and values: boxes from each of its pages, from `row` of the page on."""
    slot = ring.acquire(chunk)
    BOX: tl.constexpr = k_desc.block_shape
    D: tl.constexpr = slot.k.shape[1]
    k, v = tlx.local_reshape(slot.k, [1, 1, BN, D]), tlx.local_reshape(slot.v, [1, 1, BN, D])
    for box in tl.static_range(BN // BOX[2]):
        for column in tl.static_range(0, D, BOX[3]):
            tle.gpu.copy(k_desc, tlx.local_slice(k, [0, 0, box * BOX[2], column], BOX), BOX, [pages[box], head, row, column])
        for column in tl.static_range(0, D, BOX[3]):
            tle.gpu.copy(v_desc, tlx.local_slice(v, [0, 0, box * BOX[2], column], BOX), BOX, [pages[box], head, row, column])
    ring.commit(chunk)


@mimw.jit
def tell_ending(endings, turn, first, count, place):
    """Of item number `turn`: the first share that has keys of its tile, how many have, and which part of the first one that is."""
    slot = endings.acquire(turn)
    tlx.local_store(slot.first, tl.full((1, ), first, tl.int32))
    tlx.local_store(slot.count, tl.full((1, ), count, tl.int32))
    tlx.local_store(slot.place, tl.full((1, ), place, tl.int32))
    endings.commit(turn)


@mimw.jit
def told_ending(endings, turn):
    """What `tell_ending` told."""
    slot = endings.wait(turn).slot
    first, count = tl.max(tlx.local_load(slot.first), 0), tl.max(tlx.local_load(slot.count), 0)
    place = tl.max(tlx.local_load(slot.place), 0)
    endings.release(turn)
    return first, count, place


@mimw.jit
def rows_of(q, q_steps, batch, tile, group, shape, MANY: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr):
    """MANY rows of a tile's queries; zeros in rows that do not count, and in columns that heads do not have."""
    packed, column = tl.arange(0, MANY), tl.arange(0, D)
    query, head = packed // group, tile * group + packed % group
    place = batch.to(tl.int64) * q_steps[0] + query.to(tl.int64) * q_steps[1] + head.to(tl.int64) * q_steps[2]
    inside = (packed < shape[2] * group)[:, None] & (column < WIDTH)[None, :]
    return tl.load(q + place[:, None] + column[None, :], mask=inside, other=0.0)


@mimw.jit
def without_strangers(values, block, length, lowest, BN: tl.constexpr):
    """Zeros over the values of keys that no query sees: these rows are not the sequence's, and 0 * NaN is NaN."""
    if (block * BN < lowest) | ((block + 1) * BN > length):
        key = block * BN + tl.arange(0, BN)
        mine = (key >= lowest) & (key < length)
        tlx.local_store(values, tl.where(mine[:, None], tlx.local_load(values), 0.0))


@mimw.jit
def attend(ring, rows, chunk, first, stop, length, lowest, group, scale, inner, shape, BN: tl.constexpr):
    """(highest scores in base 2, sums of probabilities, sums of p V) of each warp's keys in the blocks from `first` to `stop`."""
    D: tl.constexpr = rows.shape[2]
    KEYS: tl.constexpr = BN // WARPS
    highest, total = tl.full((WARPS, ROWS), float("-inf"), tl.float32), tl.zeros((WARPS, ROWS), tl.float32)
    acc = tl.zeros((WARPS, ROWS, D), tl.float32)
    last = tl.arange(0, ROWS) // group + (length - shape[2])
    inside = tl.arange(0, WARPS)[:, None] * KEYS + tl.arange(0, KEYS)[None, :]
    for block in range(first, stop):
        slot = ring.wait(chunk).slot
        k = tlx.local_load(tlx.local_trans(tlx.local_reshape(slot.k, [WARPS, KEYS, D]), (0, 2, 1)))
        scores = tl.dot(rows, k.to(rows.dtype))
        if inner is not None:
            scores = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [scores * inner], tl.float32, True, 1)
        key = block * BN + inside
        scores = tl.where(key[:, None, :] <= last[None, :, None], scores, float("-inf"))
        if shape[4] is not None:
            scores = tl.where(key[:, None, :] >= (last - shape[4])[None, :, None], scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, 2) * scale)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        p, shrink = tl.exp2(scores * scale - base[:, :, None]), tl.exp2(before - base)
        total = total * shrink + tl.sum(p, 2)
        without_strangers(slot.v, block, length, lowest, BN)
        v = tlx.local_load(tlx.local_reshape(slot.v, [WARPS, KEYS, D])).to(rows.dtype)
        acc = tl.dot(p.to(rows.dtype), v, acc * shrink[:, :, None])
        ring.release(chunk)
        chunk += 1
    return highest, total, acc
