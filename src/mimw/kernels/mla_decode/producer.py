"""The producer of caches in q's type: blocks of keys by TMA, page after page, and queries.

Input: descriptors of q and of the cache's pages, the page table. Output: queries and blocks, in pipes. For example, as a
task of one warp:

    walk(items.writer(), Pages(q, lefts.writer(), rights.writer(), q_desc, caches), plan, problem, FORM)

Halves of a block have pipes of their own, so that each goes back as soon as its last product is over.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_decode.keys import pages_at
from .queries import bring_queries


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


@tle.struct
class Pages:
    """The pipes, and the descriptors of q and of the cache's pages with their table."""

    q: Any
    lefts: Any
    rights: Any
    q_desc: Any
    caches: Any

    @mimw.jit
    def load_block(self, chunk, pages, row, form):
        """The block that is number `chunk` of all."""
        slot = self.lefts.acquire(chunk)
        copy_pages(self.caches.k, slot.kv, pages, row, 0)
        self.lefts.commit(chunk)
        slot = self.rights.acquire(chunk)
        copy_pages(self.caches.k, slot.tail, pages, row, form.DV)
        copy_pages(self.caches.k, slot.kv, pages, row, form.DV // 2)
        self.rights.commit(chunk)

    @mimw.jit
    def bring(self, chunk, turn, item, form):
        """All blocks of an item. The pages of a block are looked up while the one before is loaded; queries come behind the first
        block, which is loaded while the sequence before ends."""
        if form.PAGE == 0:
            for block in range(item.first, item.stop):
                self.load_block(chunk, (item.batch, ), block * form.BN, form)
                if block == item.first:
                    bring_queries(self.q, turn, self.q_desc, item, form)
                chunk += 1
        else:
            pages = pages_at(item.first, self.caches, item, 0, form)
            for block in range(item.first, item.stop):
                following = pages_at(block + 1, self.caches, item, 0, form)
                self.load_block(chunk, pages, block * form.BN % form.PAGE, form)
                if block == item.first:
                    bring_queries(self.q, turn, self.q_desc, item, form)
                pages = following
                chunk += 1
        return chunk
