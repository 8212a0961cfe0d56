"""Caches in e4m3: rows are loaded as bytes, and become numbers of q's type on their way to shared memory.

Input: the cache as an array, the page table, and pipes. Output: queries and left halves of blocks with their other columns; right
halves are converted by the consumer that multiplies them, which waits for most of its time otherwise. For example, as tasks of four
warps:

    walk(items.writer(), Bytes(q, lefts.writer(), q_desc, cache), plan, problem, FORM)
    right_bytes(items.reader("right"), q, Rights(rights.writer(), rights.reader("right"), cache), scores.reader(), probabilities,
                outputs, rules, problem, FORM)

Halves are on their way to registers while the block before is multiplied, or waited for. Values of a packed row are multiplied by
their scale and rounded to q's type; with one scale for all, products and results are scaled instead.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_decode.items import received
from ..sparse_mla.steps import landed
from .attend import end, multiplied
from .caches import GROUP, ONE_SCALE, PACKED
from .nouns import Step
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
    words."""

    parts: Any
    scales: Any


@tle.struct
class Ahead:
    """Half of a block on its way, piece by piece, where its rows are, and the pages of the block behind it."""

    found: Any
    rows: Any
    pages: Any


@mimw.jit
def asked(cache, rows, steps, column: tl.constexpr, form):
    """Half of the values of a block, from `column` on, with their scales, piece by piece; behind the left half of rows with one
    scale for all the other columns."""
    found = ()
    for piece in tl.static_range(len(rows)):
        these, parts, scales = rows[piece], (), ()
        for first in tl.static_range(column, column + form.DV // 2, WIDTH):
            parts = parts + (asked_columns(cache, these, steps, first, WIDTH, form), )
            if form.CACHE == IS_PACKED and (first - column) % SHARED_SCALE == 0:
                at = words(cache, these, steps, form.DV + first // SHARED_SCALE * 4, form)
                scales = scales + (tl.load(at, mask=these.counts, other=0), )
        if form.CACHE == HAS_ONE_SCALE and column == 0:
            parts = parts + (asked_columns(cache, these, steps, form.DV, WIDTH, form), )
        found = found + (Piece(parts, scales), )
    return found


@mimw.jit
def begun(cache, item, column: tl.constexpr, form):
    """The first block of an item, on its way."""
    rows = rows_of(pages_of(item.first, item, cache, form), item.first, item, cache, form)
    return Ahead(asked(cache, rows, steps_of(cache, form), column, form), rows, pages_of(item.first + 1, item, cache, form))


@mimw.jit
def behind(pages, following, block, cache, item, column: tl.constexpr, form):
    """Block number `block`, in these pages, on its way; the pages of the one behind it are `following`."""
    rows = rows_of(pages, block, item, cache, form)
    return Ahead(asked(cache, rows, later(steps_of(cache, form), following, form), column, form), rows, following)


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
    """The pipe of left halves, with the queries and their descriptor, and the cache."""

    q: Any
    lefts: Any
    q_desc: Any
    cache: Cache

    @mimw.jit
    def bring(self, chunk, turn, item, form):
        """The left halves of all blocks of an item; queries come behind the first, which is loaded while the sequence before
        ends."""
        ahead = begun(self.cache, item, 0, form)
        for block in range(item.first, item.stop):
            slot = self.lefts.acquire(chunk)
            if form.CACHE == IS_PACKED:
                start_tails(slot, ahead.rows, steps_of(self.cache, form), self.cache, form)
            following = pages_of(block + 2, item, self.cache, form)
            put(slot, ahead.found, form)
            if form.CACHE == IS_PACKED:
                landed()
            self.lefts.commit(chunk)
            ahead = behind(ahead.pages, following, block + 1, self.cache, item, 0, form)
            if block == item.first:     # a branch, behind which the compiler moves no load
                bring_queries(self.q, turn, self.q_desc, item, form)
            chunk += 1
        return chunk


@tle.struct
class Rights:
    """The ends of the pipe of right halves of the consumer that converts and multiplies them, and the cache."""

    given: Any
    taken: Any
    cache: Cache


@mimw.jit
def converted(rights, ahead, block, chunk, item, form):
    """Right halves of block number `block`, which are on their way, to their pipe; those of the block behind are asked for. Pages
    are looked up before: all loads that are asked for together share a scoreboard, and who waits for a page waits for rows."""
    slot = rights.given.acquire(chunk)
    following = pages_of(block + 2, item, rights.cache, form)
    put(slot, ahead.found, form)
    rights.given.commit(chunk)
    return behind(ahead.pages, following, block + 1, rights.cache, item, form.DV // 2, form)


@mimw.jit
def right_bytes(items, q, rights, scores, probabilities, outputs, rules, problem, form):
    """The right half of the output, as `right` (attend.py) of halves that this consumer converts itself, a block ahead of its
    products: `left`, which bounds the kernel, never waits for a product to have them."""
    turn, chunk, number = 0, 0, 0
    item = received(items, turn)
    while item.first < item.stop:
        tlx.barrier_wait(q.full, turn % 2)
        ahead = converted(rights, begun(rights.cache, item, form.DV // 2, form), item.first, chunk, item, form)
        acc = tl.zeros((64, form.DV // 2), tl.float32)
        for block in range(item.first + 1, item.stop):
            ahead = converted(rights, ahead, block, chunk + 1, item, form)
            acc = multiplied(acc, rights.taken, scores, probabilities, block - 1, Step(chunk, number), item, form)
            chunk += 1
            number += 1
        acc = multiplied(acc, rights.taken, scores, probabilities, item.stop - 1, Step(chunk, number), item, form)
        end(acc, q, scores, number + 1, outputs, rules, item, problem, form)
        tlx.barrier_arrive(q.free)
        chunk += 1
        number += 2
        turn += 1
        item = received(items, turn)
