"""The producer of caches in e4m3: rows are loaded as bytes, and become numbers of q's type on their way to shared memory.

Input: the cache as an array, the page table, and pipes. Output: queries and blocks, as from producer.py. For example, as a task of
four warps:

    walk(items.writer(), Bytes(q, lefts.writer(), rights.writer(), q_desc, cache), plan, problem, FORM)

Half of a block is on its way to registers while the other half is converted, right halves while left ones are, and left ones of the
next block while right ones are. Values of a packed row are multiplied by their scale and rounded to q's type; with one scale for
all, products and results are scaled instead.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..sparse_mla.steps import landed
from .caches import GROUP, ONE_SCALE, PACKED
from .queries import bring_queries
from .rows import PIECE, Cache, asked_columns, later, pages_of, rows_of, steps_of, words

SHARED_SCALE, HAS_ONE_SCALE, IS_PACKED = tl.constexpr(GROUP), tl.constexpr(ONE_SCALE), tl.constexpr(PACKED)
WIDTH = tl.constexpr(64)        # columns that are converted at a time, 8 a thread: stores of 16 bytes that share no bank

_APART = tl.constexpr("""{ .reg .b16 low, high, a, b, c, d; .reg .b32 first, second;
    mov.b32 {low, high}, $4;
    cvt.rn.f16x2.e4m3x2 first, low; cvt.rn.f16x2.e4m3x2 second, high;
    mov.b32 {a, b}, first; mov.b32 {c, d}, second;
    cvt.f32.f16 $0, a; cvt.f32.f16 $1, b; cvt.f32.f16 $2, c; cvt.f32.f16 $3, d; }""")


@tle.struct
class Piece:
    """Half of the columns of PIECE rows, on their way: WIDTH at a time, as the cache has them, and the scales of each GROUP as
    words; of rows with one scale for all some word instead."""

    parts: Any
    scales: Any


@mimw.jit
def asked(cache, rows, steps, column: tl.constexpr, form):
    """Half of the values of a block, from `column` on, with their scales, piece by piece; behind the right half of rows with one
    scale for all the other columns."""
    found = ()
    for piece in tl.static_range(len(rows)):
        these, parts, scales = rows[piece], (), ()
        for first in tl.static_range(column, column + form.DV // 2, WIDTH):
            parts = parts + (asked_columns(cache, these, steps, first, WIDTH, form), )
            if form.CACHE == IS_PACKED and (first - column) % SHARED_SCALE == 0:
                at = words(cache, these, steps, form.DV + first // SHARED_SCALE * 4, form)
                scales = scales + (tl.load(at, mask=these.counts, other=0), )
        if form.CACHE == HAS_ONE_SCALE and column > 0:
            parts = parts + (asked_columns(cache, these, steps, form.DV, WIDTH, form), )
            if form.UNIT % 4 == 0:
                scales = (tl.load(words(cache, these, steps, column, form), mask=these.counts, other=0), )
        found = found + (Piece(parts, scales), )
    return found


@mimw.jit
def numbers(part):
    """WIDTH columns in fp32."""
    if part.dtype == tl.int32:
        a, b, c, d = tl.inline_asm_elementwise(_APART, "=f,=f,=f,=f,r", [part], (tl.float32, tl.float32, tl.float32, tl.float32),
                                               True, 1)
        return tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (part.shape[0], 4 * part.shape[1]))
    else:
        return part.to(tl.float32)


@mimw.jit
def put_piece(slot, piece: tl.constexpr, found, form):
    """Half of the values of some rows, and what came with them, to a slot."""
    for number in tl.static_range(len(found.parts)):
        part = numbers(found.parts[number])
        if form.CACHE == IS_PACKED:
            part = part * found.scales[number * WIDTH // SHARED_SCALE].to(tl.float32, bitcast=True)[:, None]
        if number * WIDTH < form.DV // 2:
            place = tlx.local_slice(slot.kv, [piece * PIECE, number * WIDTH], [PIECE, WIDTH])
        else:
            place = tlx.local_slice(slot.tail, [piece * PIECE, 0], [PIECE, WIDTH])
        tlx.local_store(place, part.to(place.dtype))


@mimw.jit
def put(slot, found, form):
    """Half of the values of a block, to a slot."""
    for piece in tl.static_range(len(found)):
        put_piece(slot, piece, found[piece], form)


@mimw.jit
def start_tails(slot, rows, steps, cache, form):
    """Start to copy the other columns of packed rows, which are of q's type already, past all registers; zeros for rows that do not
    count. `landed` waits."""
    tail = tlx.local_reinterpret(slot.tail, tl.int32, [form.BN, form.DT // 2])
    for piece in tl.static_range(len(rows)):
        at = words(cache, rows[piece], steps, form.DV + form.DV // SHARED_SCALE * 4, form)
        place = tlx.local_slice(tail, [piece * PIECE, 0], [PIECE, form.DT // 2])
        tlx.async_load(at[:, None] + tl.arange(0, form.DT // 2)[None, :], place, mask=rows[piece].counts[:, None], other=0)


@tle.struct
class Bytes:
    """The pipes, the descriptor of q, and the cache."""

    q: Any
    lefts: Any
    rights: Any
    q_desc: Any
    cache: Cache

    @mimw.jit
    def bring(self, chunk, turn, item, form):
        """All blocks of an item. Pages are looked up a block before their rows are asked for; queries come behind the first left
        half, which is loaded while the sequence before ends."""
        steps = steps_of(self.cache, form)
        rows = rows_of(pages_of(item.first, item, self.cache, form), item.first, item, self.cache, form)
        lefts = asked(self.cache, rows, steps, 0, form)
        pages = pages_of(item.first + 1, item, self.cache, form)
        for block in range(item.first, item.stop):
            rights = asked(self.cache, rows, steps, form.DV // 2, form)
            slot = self.lefts.acquire(chunk)
            put(slot, lefts, form)
            self.lefts.commit(chunk)
            slot = self.rights.acquire(chunk)
            if form.CACHE == IS_PACKED:
                start_tails(slot, rows, steps, self.cache, form)
            rows = rows_of(pages, block + 1, item, self.cache, form)
            pages = pages_of(block + 2, item, self.cache, form)
            behind = later(steps, rights[0].scales[0]) if len(rights[0].scales) > 0 else steps
            lefts = asked(self.cache, rows, behind, 0, form)
            if block == item.first:     # a branch, behind which the compiler moves no load
                bring_queries(self.q, turn, self.q_desc, item, form)
            put(slot, rights, form)
            if form.CACHE == IS_PACKED:
                landed()
            self.rights.commit(chunk)
            chunk += 1
        return chunk
