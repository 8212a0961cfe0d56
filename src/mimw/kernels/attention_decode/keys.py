"""The producer's part of all forms: blocks of keys and values by TMA, from caches in one piece or in pages.

Input: the descriptors of the caches' pages, the page table, and an item. Output: blocks in a ring, whose slots hold a block of keys
and one of values, `k` and `v`, or one of both in turn, `rows`. For example:

    chunk = load_item(ring, begun, chunk, caches, item, head, lowest, form)     all blocks of an item, whose tile reads head `head`

The pages of a block are looked up while the one before is loaded.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@triton.constexpr_function
def chunks_of_block(ring):
    """The slots that a block of keys and its values take."""
    return 1 if "k" in ring.fields else 2


@mimw.jit
def pages_at(block, caches, item, lowest, form, CACHE: tl.constexpr = ""):
    """The pages of a block's boxes. One that holds no key that counts is the one behind the last: TMA reads nothing
    there and fills in zeros."""
    ROWS: tl.constexpr = min(form.PAGE, form.BN)
    pages = ()
    for box in tl.static_range(form.BN // ROWS):
        first = block * form.BN + box * ROWS
        counts = (first < item.length) & (first + ROWS > lowest)
        at = caches.table + item.batch.to(tl.int64) * caches.step + first // form.PAGE
        pages = pages + (tl.load(at, mask=counts, other=caches.pages, cache_modifier=CACHE), )
    return pages


@mimw.jit
def copy_box(desc, rows, page, box: tl.constexpr, head, row):
    """Box number `box` of a block's rows, which lies in one page from `row` on, some columns at a time."""
    BOX: tl.constexpr = desc.block_shape
    for column in tl.static_range(0, rows.shape[3], BOX[3]):
        tle.gpu.copy(desc, tlx.local_slice(rows, [0, 0, box * BOX[2], column], BOX), BOX, [page, head, row, column])


@mimw.jit
def load_rows(ring, chunk, desc, pages, head, row, BN: tl.constexpr):
    """Slot number `chunk`: a block of keys or of values, a box from each of its pages, from `row` of the page on."""
    slot = ring.acquire(chunk)
    rows = tlx.local_reshape(slot.rows, [1, 1, BN, slot.rows.shape[1]])
    for box in tl.static_range(BN // desc.block_shape[2]):
        copy_box(desc, rows, pages[box], box, head, row)
    ring.commit(chunk)


@mimw.jit
def load_block(ring, chunk, caches, pages, head, row, BN: tl.constexpr):
    """A block of keys and its values, from slot number `chunk` on."""
    if chunks_of_block(ring) == 2:
        load_rows(ring, chunk, caches.k, pages, head, row, BN)
        load_rows(ring, chunk + 1, caches.v, pages, head, row, BN)
    else:
        slot = ring.acquire(chunk)
        D: tl.constexpr = slot.k.shape[1]
        k, v = tlx.local_reshape(slot.k, [1, 1, BN, D]), tlx.local_reshape(slot.v, [1, 1, BN, D])
        for box in tl.static_range(BN // caches.k.block_shape[2]):
            copy_box(caches.k, k, pages[box], box, head, row)
            copy_box(caches.v, v, pages[box], box, head, row)
        ring.commit(chunk)


@mimw.jit
def hint_block(caches, pages, head, row, form):
    """A block of keys and its values to L2."""
    BOX: tl.constexpr = caches.k.block_shape
    for box in tl.static_range(form.BN // BOX[2]):
        for column in tl.static_range(0, form.D, BOX[3]):
            tlx.async_descriptor_prefetch_tensor(caches.k, [pages[box], head, row, column])
            tlx.async_descriptor_prefetch_tensor(caches.v, [pages[box], head, row, column])


@mimw.jit
def hint_item(caches, item, lowest, form, MANY: tl.constexpr):
    """The first MANY blocks of an item to L2. Pages are read there, too: they may yet change."""
    for block in range(item.first, tl.minimum(item.first + MANY, item.stop)):
        if form.PAGE == 0:
            hint_block(caches, (item.batch, ), item.tile, block * form.BN, form)
        else:
            pages = pages_at(block, caches, item, lowest, form, ".cg")
            hint_block(caches, pages, item.tile, block * form.BN % form.PAGE, form)


@mimw.jit
def load_item(ring, begun, chunk, caches, item, head, lowest, form, FREE: tl.constexpr = 1):
    """All blocks of an item; gives the number of the slot behind them. The first queries are asked for (`begun`, if they
    are not yet) behind FREE blocks, not behind a whole ring of each SM: that took 8 us."""
    STEP: tl.constexpr = chunks_of_block(ring)
    if form.PAGE == 0:
        for block in range(item.first, item.stop):
            if begun is not None:
                tlx.barrier_wait(begun, 0, pred=chunk == STEP * FREE)
            load_block(ring, chunk, caches, (item.batch, ), head, block * form.BN, form.BN)
            chunk += STEP
    else:
        pages = pages_at(item.first, caches, item, lowest, form)
        for block in range(item.first, item.stop):
            if begun is not None:
                tlx.barrier_wait(begun, 0, pred=chunk == STEP * FREE)
            next_pages = pages_at(block + 1, caches, item, lowest, form)
            load_block(ring, chunk, caches, pages, head, block * form.BN % form.PAGE, form.BN)
            pages = next_pages
            chunk += STEP
    return chunk
