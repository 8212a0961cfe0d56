"""How a consumer multiplies with scales of blocks: what stays in the tensor cores, and what is added up beside them.

Input: the pipe `inputs` of tiles of A and B and scales of A, a pointer to B's scales. Output: the scaled sums over K of 64 rows and
up to 128 columns, in fp32:

    chunks = Chunks(inputs, first, steps, at, next_step, shift)     at: B's first scale of the columns
    sums = multiply(chunks, part)

A product of 64 x 128 takes the tensor cores 256 cycles and a thread 64 registers; to scale and add it takes 64 instructions. So it
matters that something is multiplied meanwhile:

    multiply         64 rows: three sets of registers, so the consumer's next product runs while one is added. Every TOGETHER chunks
                     all have ended, since ptxas serialises products in flight over the end of a loop (C7514)
    multiply_tall    128 rows, and
    multiply_wide    192 columns (tall.py, wide.py): one set of registers for all products, which follow each other;
                     meanwhile the other consumer's are multiplied

What stands between two products of a consumer holds both up: so the latter two wait for chunks, give them back, fence and load
scales beside a product (benchmarks/notes/block-scaled-gemm.md).
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

BLOCK = tl.constexpr(128)       # of K, and of B's columns, that share a scale


@tle.struct
class Part:
    """A consumer's ROWS rows of a tile of COLUMNS, from row ROW on; `multiply` has TOGETHER chunks at a time. CONTIGUOUS groups of
    rows begin anywhere among the scales that were copied."""
    me: tl.constexpr
    ROW: tl.constexpr
    ROWS: tl.constexpr
    COLUMNS: tl.constexpr
    TOGETHER: tl.constexpr
    CONTIGUOUS: tl.constexpr


@tle.struct
class Chunks:
    """The `steps` chunks of a tile, from number `first` of the pipe on; B's scales of them, `next_step` apart from `at` on; and the
    number of A's first scale among those that were copied."""
    inputs: tle.pipe_reader
    first: Any
    steps: Any
    at: tl.tensor
    next_step: Any
    shift: Any

    @mimw.jit
    def scales_of_b(self, step):
        """The place of B's first scale of chunk `step`, or of the last one."""
        return self.at + tl.minimum(step, self.steps - 1) * self.next_step


@mimw.jit
def product(slot, row: tl.constexpr, registers):
    """A[row :] B for 64 rows, started and not waited for, in the `registers` of a tile that has been used up, if there is one."""
    return tlx.async_dot(tlx.local_slice(slot.a, [row, 0], [64, BLOCK]), tlx.local_trans(slot.b), registers=registers)


@mimw.jit
def begin_chunk(chunks, part, step, registers):
    """The slot of chunk `step`, which has come, and the product of its first 64 rows, started; beside that the chunk before is
    given back."""
    slot = chunks.inputs.held(chunks.first + step)
    found = product(slot, part.ROW, registers)
    tlx.fence("async_shared")               # of the reads of the chunk before and the next copy there
    chunks.inputs.release(chunks.first + step - 1, pred=step > 0)
    return slot, found


@mimw.jit
def scales_of(slot, shift, row: tl.constexpr, CONTIGUOUS: tl.constexpr):
    """The scales of 64 rows from row `row` of the tile on, which begins at number `shift` of those that were copied."""
    if CONTIGUOUS:
        rows = tlx.require_layout(tl.arange(0, 64), tlx.layout(((4, 8, 4), 2), ((0, 1, 16), 8)))     # where sums have them
        return tlx.local_gather(slot.scales, shift + row + rows, 0)
    else:
        return tlx.local_load(tlx.local_slice(slot.scales, [row], [64]))


@mimw.jit
def plus_scaled(sums, part, rows, column):
    """The sums, and a product each of whose rows counts so often."""
    return sums + part * (rows * column)[:, None]


@mimw.jit
def plus_products(sums, chunks, step, COUNT: tl.constexpr, part):
    """`sums` and the products of COUNT chunks from chunk `step` of the tile on: one is added while the next one is multiplied."""
    first = chunks.first + step
    column = tl.load(chunks.at + step * chunks.next_step)
    slot = chunks.inputs.wait(first).slot
    found = product(slot, part.ROW, None)
    rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
    for chunk in tl.static_range(1, COUNT):
        next_column = tl.load(chunks.at + (step + chunk) * chunks.next_step)
        slot = chunks.inputs.wait(first + chunk).slot
        more = product(slot, part.ROW, None)
        next_rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
        found = tlx.async_dot_wait(1, found)
        chunks.inputs.release(first + (chunk - 1))
        sums = plus_scaled(sums, found, rows, column)
        sums = tlx.async_dot_wait(1, sums)      # the sum is done here, beside the next product
        found, rows, column = more, next_rows, next_column
    found = tlx.async_dot_wait(0, found)
    chunks.inputs.release(first + (COUNT - 1))
    return plus_scaled(sums, found, rows, column)


@mimw.jit
def multiply(chunks, part):
    """64 rows of A times B, TOGETHER chunks at a time."""
    sums = tl.zeros((64, BLOCK), tl.float32)
    whole = chunks.steps // part.TOGETHER * part.TOGETHER
    for step in range(0, whole, part.TOGETHER):
        sums = plus_products(sums, chunks, step, part.TOGETHER, part)
    if part.TOGETHER > 1:
        for step in range(whole, chunks.steps):
            sums = plus_products(sums, chunks, step, 1, part)
    return sums
