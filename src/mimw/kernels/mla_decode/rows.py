"""Rows of a cache in e4m3: where they begin, which of them count, and loads of their words.

Input: the cache, its page table, and an item. Output: the rows of a block, PIECE at a time, and addresses in them. For example:

    pages = pages_of(block, item, cache, form)
    rows = rows_of(pages, block, item, cache, form)                         a tuple of `Rows`
    tl.load(words(cache, rows[0], steps_of(cache, form), 512, form), mask=rows[0].counts)      the word at byte 512 of each

What all rows of a piece share is computed once for all threads of a warp: their page, and the row of it where the piece begins.
A thread adds the step to its row, the same for all pieces of all blocks.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

PIECE = tl.constexpr(16)


@tle.struct
class Cache:
    """The cache: as int32, four of its bytes each, or where rows begin elsewhere than at multiples of 4 as e4m3; the page table,
    None without, with the step to the next sequence's; how many pages there are; steps from page to page and from row to row, in
    units of form.UNIT bytes."""

    array: Any
    table: Any
    step: Any
    pages: Any
    steps: Any


@tle.struct
class Rows:
    """PIECE rows of the cache: where the first one begins, or of pages without whole pieces each one, in units of form.UNIT bytes,
    and which of them count."""

    start: Any
    counts: Any


@mimw.jit
def nothing(word):
    """Zeros that come of a word, which no compiler knows: bit 1 of a square."""
    return tl.inline_asm_elementwise("mul.lo.s32 $0, $1, $1;", "=r,r", [word], tl.int32, True, 1) & 2


@mimw.jit
def pages_of(block, item, cache, form):
    """The page of each piece of a block, or of each of its rows where pages have no whole pieces; -1 for keys behind the last one,
    or behind the item's last block, so that nothing of them is looked at. A page that all threads share would go to a uniform
    register as soon as it is here, and who waits for that waits for all rows that were asked for with it: so each has its own."""
    found = ()
    for first in tl.static_range(0, form.BN, PIECE):
        if form.PAGE == 0:
            page = item.batch
        elif first == 0 or form.PAGE % form.BN != 0:
            key = block * form.BN + first
            key += tl.arange(0, PIECE) if form.PAGE % PIECE != 0 else nothing(tl.arange(0, PIECE))
            at = cache.table + item.batch.to(tl.int64) * cache.step + key // form.PAGE
            page = tl.load(at, mask=(key < item.length) & (block < item.stop), other=-1)
        found = found + (page, )
    return found


@mimw.jit
def rows_of(pages, block, item, cache, form):
    """The rows of a block in pieces; none counts that is no key of the item, or has no page."""
    found = ()
    for piece in tl.static_range(len(pages)):
        page, row = pages[piece], block * form.BN + piece * PIECE
        counts = (row + tl.arange(0, PIECE) < item.length) & (block < item.stop) & (page >= 0) & (page < cache.pages)
        if form.PAGE != 0:
            if form.PAGE % PIECE != 0:
                row += tl.arange(0, PIECE)
            row = row % form.PAGE
        found = found + (Rows(page.to(tl.int64) * cache.steps.page + row.to(tl.int64) * cache.steps.row, counts), )
    return found


@mimw.jit
def steps_of(cache, form):
    """The steps from the start of `Rows` to each of its rows; 0 where each has a start of its own."""
    if form.PAGE % PIECE == 0:
        return tl.arange(0, PIECE) * cache.steps.row.to(tl.int64)
    else:
        return tl.zeros((PIECE, ), tl.int64)


@mimw.jit
def later(steps, pages, form):
    """The same steps, but no load at them begins before these pages are here: who waits for pages later waits for rows as well."""
    if form.PAGE != 0:
        for piece in tl.static_range(0, len(pages), form.BN // PIECE if form.PAGE % form.BN == 0 else 1):
            steps += nothing(pages[piece])
    return steps


@mimw.jit
def words(cache, rows, steps, byte: tl.constexpr, form):
    """Pointers to the word of each row that begins with this byte."""
    return cache.array + ((rows.start + steps) * (form.UNIT // 4) + byte // 4)


@mimw.jit
def asked_columns(cache, rows, steps, column: tl.constexpr, WIDTH: tl.constexpr, form):
    """WIDTH columns of e4m3 of some rows, as words where the cache has words; zeros for rows that do not count."""
    if form.UNIT % 4 == 0:
        at = words(cache, rows, steps, column, form)[:, None] + tl.arange(0, WIDTH // 4)[None, :]
        return tl.load(at, mask=rows.counts[:, None], other=0)
    else:
        at = ((rows.start + steps) * form.UNIT + column)[:, None] + tl.arange(0, WIDTH)[None, :]
        return tl.load(cache.array + at, mask=rows.counts[:, None], other=0.0)
