"""Operands of a product in LDS: parts of a tile's rows or columns, each in a ring of slots that copies fill past the registers.

Input: a matrix, where a tile begins in it, and how it is held. Output: a struct by which a main loop copies and reads. For example:

    a = operand(a_ptr, m, M, K, row_step, FORM.a)           the rows of a tile of A from number m on
    a.copy(0, chunk)                starts the copies of part 0, of chunk `chunk` of K, into its slot
    x = a.read(0, chunk)            that part in registers, as an operand of a product

Copies take 16 bytes a lane where the chip has them and the matrix allows it (`tlx.buffer_load_to_local`); a matrix whose rows or
whose K are no multiples of that goes through registers, by the same word. Rows behind the last one are read as the last one, of a
matrix that lies along K; what is behind the end of K, and columns behind the last one, are zeros.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class Held:
    """An operand as it is held: EXTENT rows (columns of B), BK elements of K a chunk, in PARTS equal parts with STAGES slots of LDS
    each. ALONG_K if K's elements are neighbours in memory, RIGHT if it is B. Slots lie by LDS, products take REGISTERS, None for
    what the compiler chooses. The step from row to row in memory is a multiple of PIECE; EVEN if K is whole chunks."""
    EXTENT: tl.constexpr
    BK: tl.constexpr
    PARTS: tl.constexpr
    STAGES: tl.constexpr
    ALONG_K: tl.constexpr
    RIGHT: tl.constexpr
    LDS: tl.constexpr
    REGISTERS: tl.constexpr
    PIECE: tl.constexpr
    EVEN: tl.constexpr


@tle.struct
class Operand:
    """A tile of an operand: `base` its first element, `offsets` from there and `inside` of its parts, `ahead` the elements from a
    chunk to the next one."""
    base: Any
    offsets: Any
    inside: Any
    ahead: Any
    K: Any
    slots: Any
    held: Held

    @mimw.jit
    def slot(self, part: tl.constexpr, chunk):
        return self.slots[part][chunk % self.held.STAGES]

    @mimw.jit
    def copy(self, part: tl.constexpr, chunk):
        """Start the copies of a part of a chunk. Behind the last chunk that one is copied again, or nothing where K ends within a
        chunk: so each chunk has as many copies as another, by which waits count them."""
        BK: tl.constexpr = self.held.BK
        mask = self.inside[part]
        if self.held.EVEN:
            chunk_of_k = min(chunk, self.K // BK - 1)
        else:
            chunk_of_k = chunk
            k = tl.arange(0, BK)
            left = k < self.K - chunk * BK
            left = left[None, :] if self.held.ALONG_K else left[:, None]
            mask = left if mask is None else mask & left
        base = self.base + chunk_of_k.to(tl.int64) * self.ahead
        tlx.buffer_load_to_local(self.slot(part, chunk), base, self.offsets[part], mask)

    @mimw.jit
    def read(self, part: tl.constexpr, chunk):
        """A part of a chunk in registers."""
        tile = self.slot(part, chunk)
        if self.held.RIGHT and self.held.ALONG_K:
            tile = tlx.local_trans(tile)
        return tlx.local_load(tile, layout=self.held.REGISTERS, relaxed=True)


@mimw.jit
def along_k(step, first, count, held, part: tl.constexpr):
    """(offsets from the tile's first element, None) of rows of a part; those behind the last row of the matrix are as the last."""
    ROWS: tl.constexpr = held.EXTENT // held.PARTS
    rows = tl.minimum(part * ROWS + tl.arange(0, ROWS), count - 1 - first)
    return rows[:, None] * step + tl.arange(0, held.BK)[None, :], None


@mimw.jit
def across_k(step, first, count, held, part: tl.constexpr):
    """(offsets, which of them are in the matrix) of columns of a part."""
    COLUMNS: tl.constexpr = held.EXTENT // held.PARTS
    columns = part * COLUMNS + tl.arange(0, COLUMNS)
    return tl.arange(0, held.BK)[:, None] * step + columns[None, :], (columns < count - first)[None, :]


@mimw.jit
def operand(ptr, first, extent, K, step, held):
    """Rows (columns of B) of a tile from number `first` on, of `extent` that the matrix has; `step` is the elements between rows in
    memory, in pieces."""
    PART: tl.constexpr = held.EXTENT // held.PARTS
    SHAPE: tl.constexpr = (PART, held.BK) if held.ALONG_K else (held.BK, PART)
    slots = (tlx.local_alloc(SHAPE, tlx.dtype_of(ptr), held.STAGES, layout=held.LDS), )
    if held.PARTS == 2:
        slots = (slots[0], tlx.local_alloc(SHAPE, tlx.dtype_of(ptr), held.STAGES, layout=held.LDS))
    step = step * held.PIECE
    if held.ALONG_K:
        base, ahead = ptr + first.to(tl.int64) * step, held.BK
        offsets, inside = along_k(step, first, extent, held, 0)
        more, there = along_k(step, first, extent, held, held.PARTS - 1)
    else:
        base, ahead = ptr + first, held.BK * step
        offsets, inside = across_k(step, first, extent, held, 0)
        more, there = across_k(step, first, extent, held, held.PARTS - 1)
    return Operand(base, (offsets, more), (inside, there), ahead, K, slots, held)
