"""The producers of caches in e4m3: rows are loaded as bytes, and become numbers of q's type on their way to shared memory.

Input: pointers of the cache's parts, the page table, and pipes. Output: items, queries and blocks, as from producer.py. For
example, as two tasks of two warps each:

    walk(items.writer(), Lefts(q, lefts.writer(), q_desc, cache), plan, problem, FORM)
    bring_rights(items.reader("rights"), rights.writer(), cache, FORM)

The registers of both hold all bytes of a block, which are under way at a time; two places in each pipe let them run ahead. Values
of a packed row are multiplied by their scale and rounded to q's type; with one scale for all, products and results are scaled
instead.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_decode.items import received
from .caches import GROUP, PACKED
from .queries import bring_queries

SHARED_SCALE, IS_PACKED = tl.constexpr(GROUP), tl.constexpr(PACKED)     # values that share a scale; a kind of cache
PIECE = tl.constexpr(16)        # rows that are converted at a time


@tle.struct
class Bytes:
    """The cache's arrays: values as e4m3, other columns, and scales as fp32, None without; the page table, None without, with the
    step to the next sequence's; how many pages there are; and where parts of rows are."""

    arrays: Any
    table: Any
    step: Any
    pages: Any
    places: Any


@mimw.jit
def pages_of(block, item, cache, form):
    """The page of each of a block's rows, PIECE rows at a time; -1 for keys behind the last one, or behind the item's last block,
    so that nothing of them is looked at, and where the table names no page."""
    found = ()
    for first in tl.static_range(0, form.BN, PIECE):
        key = block * form.BN + first + tl.arange(0, PIECE)
        counts = (key < item.length) & (block < item.stop)
        if form.PAGE == 0:
            found = found + (tl.where(counts, item.batch, -1), )
        else:
            at = cache.table + item.batch.to(tl.int64) * cache.step + key // form.PAGE
            page = tl.load(at, mask=counts, other=-1)
            found = found + (tl.where(page < cache.pages, page, -1), )
    return found


@mimw.jit
def rows_of(pages, block, piece: tl.constexpr, form):
    """(pages of some rows, which row of its page each is)."""
    key = block * form.BN + piece * PIECE + tl.arange(0, PIECE)
    if form.PAGE == 0:
        return Rows(pages[piece], key)
    else:
        return Rows(pages[piece], key % form.PAGE)


@tle.struct
class Rows:
    """Some of a block's rows of the cache: the page of each key, -1 where it does not count, and its row there."""

    page: Any
    row: Any


@mimw.jit
def places(rows, part, column: tl.constexpr, UNIT: tl.constexpr):
    """The first of a part's elements of each row, from `column` of the part on; places are counted in UNIT elements."""
    return (rows.page.to(tl.int64) * part.page + rows.row.to(tl.int64) * part.row + part.first) * UNIT + column


@mimw.jit
def loaded(array, part, rows, column: tl.constexpr, WIDTH: tl.constexpr, UNIT: tl.constexpr = 1):
    """WIDTH columns of a part of all rows; zeros for keys that do not count."""
    at = places(rows, part, column, UNIT)[:, None] + tl.arange(0, WIDTH)[None, :]
    return tl.load(array + at, mask=(rows.page >= 0)[:, None], other=0.0)


@mimw.jit
def put_half(buffer, cache, pages, block, column: tl.constexpr, form):
    """Half of the values of all rows, from `column` on, to a buffer: piece after piece, once all have been asked for."""
    WIDTH: tl.constexpr = min(SHARED_SCALE, buffer.shape[1])
    GROUPS: tl.constexpr = buffer.shape[1] // WIDTH
    found, scales = (), ()
    for piece in tl.static_range(len(pages)):
        rows = rows_of(pages, block, piece, form)
        for group in tl.static_range(GROUPS):
            found = found + (loaded(cache.arrays.head, cache.places.head, rows, column + group * WIDTH, WIDTH), )
            if form.CACHE == IS_PACKED:
                at = places(rows, cache.places.scales, (column + group * WIDTH) // SHARED_SCALE, 1)
                scales = scales + (tl.load(cache.arrays.scales + at, mask=rows.page >= 0, other=0.0), )
    for number in tl.static_range(len(found)):
        part = found[number]
        if form.CACHE == IS_PACKED:
            part = part.to(tl.float32) * scales[number][:, None]
        place = tlx.local_slice(buffer, [number // GROUPS * PIECE, number % GROUPS * WIDTH], [PIECE, WIDTH])
        tlx.local_store(place, part.to(buffer.dtype))


@mimw.jit
def tail_of(cache, pages, block, form):
    """The other columns of all rows, asked for together."""
    found = ()
    for piece in tl.static_range(len(pages)):
        rows = rows_of(pages, block, piece, form)
        found = found + (loaded(cache.arrays.tail, cache.places.tail, rows, 0, form.DT, form.UNIT), )
    return found


@mimw.jit
def put_tail(buffer, found, form):
    """These to a buffer."""
    for piece in tl.static_range(len(found)):
        tlx.local_store(tlx.local_slice(buffer, [piece * PIECE, 0], [PIECE, form.DT]), found[piece].to(buffer.dtype))


@tle.struct
class Lefts:
    """The pipes of queries and of left halves, the descriptor of q, and the cache."""

    q: Any
    lefts: Any
    q_desc: Any
    cache: Bytes

    @mimw.jit
    def bring(self, chunk, turn, item, form):
        """The left halves of all blocks of an item; its queries come behind the first one."""
        pages = pages_of(item.first, item, self.cache, form)
        for block in range(item.first, item.stop):
            slot = self.lefts.acquire(chunk)
            put_half(slot.kv, self.cache, pages, block, 0, form)
            tlx.fence_async_shared()
            self.lefts.commit(chunk)
            pages = pages_of(block + 1, item, self.cache, form)
            if block == item.first:
                bring_queries(self.q, turn, self.q_desc, item, form)
            chunk += 1
        return chunk


@mimw.jit
def bring_rights(items, rights, cache, form):
    """Right halves and the other columns of all blocks."""
    chunk, turn = 0, 0
    item = received(items, turn)
    while item.first < item.stop:
        pages = pages_of(item.first, item, cache, form)
        for block in range(item.first, item.stop):
            slot = rights.acquire(chunk)
            tail = tail_of(cache, pages, block, form)
            put_half(slot.kv, cache, pages, block, form.DV // 2, form)
            put_tail(slot.tail, tail, form)
            tlx.fence_async_shared()
            rights.commit(chunk)
            pages = pages_of(block + 1, item, cache, form)
            chunk += 1
        turn += 1
        item = received(items, turn)
