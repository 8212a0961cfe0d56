"""The producer of caches in q's type: blocks of keys by TMA, page after page, and queries.

Input: descriptors of q and of the cache's pages, the page table. Output: items, queries and blocks, in pipes. For example, as a
task of one warp:

    load(items.writer(), q, lefts.writer(), rights.writer(), q_desc, caches, plan, problem, FORM)

Halves of a block have pipes of their own, so that each goes back as soon as its last product is over.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_decode.items import send
from ..attention_decode.keys import pages_at
from ..attention_decode.nouns import Item
from .items import item_at
from .queries import bring
from .shares import share_of


@mimw.jit
def copy_pages(desc, buffer, pages, row, column: tl.constexpr):
    """Columns from `column` on of some rows, to a buffer, 64 columns at a time: a box of rows from each page, from `row` of it
    on."""
    ROWS: tl.constexpr = desc.block_shape[1]
    COLUMNS: tl.constexpr = desc.block_shape[2]
    rows = tlx.local_reshape(buffer, [1, buffer.shape[0], buffer.shape[1]])
    for box in tl.static_range(buffer.shape[0] // ROWS):
        for first in tl.static_range(0, buffer.shape[1], COLUMNS):
            part = tlx.local_slice(rows, [0, box * ROWS, first], [1, ROWS, COLUMNS])
            tle.gpu.copy(desc, part, [1, ROWS, COLUMNS], [pages[box], row, column + first])


@mimw.jit
def load_block(lefts, rights, chunk, desc, pages, row, form):
    """The block that is number `chunk` of all."""
    slot = lefts.acquire(chunk)
    copy_pages(desc, slot.kv, pages, row, 0)
    lefts.commit(chunk)
    slot = rights.acquire(chunk)
    copy_pages(desc, slot.tail, pages, row, form.DV)
    copy_pages(desc, slot.kv, pages, row, form.DV // 2)
    rights.commit(chunk)


@mimw.jit
def load(items, q, lefts, rights, q_desc, caches, plan, problem, form):
    """All items of this program's share. The pages of a block are looked up while the one before is loaded; queries come behind the
    first block, which is loaded while the sequence before ends."""
    group = tl.program_id(0) // form.TILES
    share, part = share_of(group, tl.num_programs(0) // form.TILES, problem, form), 0
    chunk, turn = 0, 0
    while share.at < share.end:
        item, share = item_at(share, group, part, plan, problem, form)
        send(items, turn, item)
        if form.PAGE == 0:
            for block in range(item.first, item.stop):
                load_block(lefts, rights, chunk, caches.k, (item.batch, ), block * form.BN, form)
                if block == item.first:
                    bring(q, turn, q_desc, item, form)
                chunk += 1
        else:
            pages = pages_at(item.first, caches, item, 0, form)
            for block in range(item.first, item.stop):
                following = pages_at(block + 1, caches, item, 0, form)
                load_block(lefts, rights, chunk, caches.k, pages, block * form.BN % form.PAGE, form)
                if block == item.first:
                    bring(q, turn, q_desc, item, form)
                pages = following
                chunk += 1
        turn += 1
        part = 1
    send(items, turn, Item(0, 0, 0, 0, 0, 0))
