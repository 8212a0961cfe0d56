"""How a consumer multiplies with scales of blocks: what stays in the tensor cores, and what is added up beside them.

Input: the pipe `inputs` of tiles of A and B and scales of A, a pointer to B's scales. Output: the scaled sums over K of 64 or 128
rows, in fp32:

    scales = at, next_step                            where the first scale of the columns is, and how far the next chunk's
    sums = multiply(inputs, scales, first, steps, shift, row, 128, LAYOUT, TOGETHER, AHEAD)

A product of 64 x 128 takes the tensor cores 256 cycles and a thread 64 registers; to scale and add it takes 64 instructions. So it
matters that something is multiplied meanwhile:

    multiply         64 rows: three sets of registers, so the consumer's next product runs while one is added. Every TOGETHER chunks
                     all have ended, since ptxas serialises products in flight over the end of a loop (C7514)
    multiply_tall    128 rows: two sums, and one set of registers in which the products of both halves follow each other; meanwhile
                     the other consumer's are multiplied. B's tiles serve twice as many rows: a quarter fewer bytes out of L2
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import PAIR, TURN

BLOCK = tl.constexpr(128)       # of K, and of B's columns, that share a scale


@mimw.jit
def product(slot, row: tl.constexpr, COLUMNS: tl.constexpr, registers):
    """A[row :] B for 64 rows and the first COLUMNS columns, started and not waited for, in the `registers` of a tile that has been
    used up, if there is one."""
    a = tlx.local_slice(slot.a, [row, 0], [64, BLOCK])
    b = slot.b
    if COLUMNS < BLOCK:
        b = tlx.local_slice(slot.b, [0, 0], [COLUMNS, BLOCK])
    return tlx.async_dot(a, tlx.local_trans(b), registers=registers)


@mimw.jit
def scales_of(slot, shift, row: tl.constexpr, LAYOUT: tl.constexpr):
    """The scales of 64 rows from row `row` of the tile on, which begins at number `shift` of those that were copied. Only groups
    that lie one behind the other begin anywhere."""
    if LAYOUT == "contiguous":
        return tl.load(tle.gpu.local_ptr(slot.scales, (shift + row + tl.arange(0, 64), )))
    else:
        return tlx.local_load(tlx.local_slice(slot.scales, [row], [64]))


@mimw.jit
def plus_scaled(sums, part, rows, column):
    """The sums, and a product each of whose rows counts so often."""
    return sums + part * (rows * column)[:, None]


@mimw.jit
def plus_products(sums, column, inputs, scales, step, steps, first, COUNT: tl.constexpr, shift, row: tl.constexpr,
                  LAYOUT: tl.constexpr, EARLY: tl.constexpr):
    """`sums` and the products of COUNT chunks from chunk `step` of the tile, number `first` of all, on: one is added while the next
    one is multiplied. And the columns' scale of the chunk behind, if EARLY: then `column` is the first one's, and fences stand
    beside products, not at releases."""
    COLUMNS: tl.constexpr = sums.shape[1]
    at, next_step = scales
    if not EARLY:
        column = tl.load(at + step * next_step)
    slot = inputs.wait(first).slot
    part = product(slot, row, COLUMNS, None)
    rows = scales_of(slot, shift, row, LAYOUT)
    for chunk in tl.static_range(1, COUNT):
        next_column = tl.load(at + (step + chunk) * next_step)
        slot = inputs.wait(first + chunk).slot
        more = product(slot, row, COLUMNS, None)
        next_rows = scales_of(slot, shift, row, LAYOUT)
        if EARLY:
            tlx.fence("async_shared")
        part = tlx.async_dot_wait(1, part)
        inputs.release(first + (chunk - 1))
        sums = plus_scaled(sums, part, rows, column)
        sums = tlx.async_dot_wait(1, sums)      # the sum is done here, beside the next product
        part, rows, column = more, next_rows, next_column
    following = column
    if EARLY:
        if COUNT == 1:
            tlx.fence("async_shared")
        following = tl.load(at + tl.minimum(step + COUNT, steps - 1) * next_step)
    part = tlx.async_dot_wait(0, part)
    inputs.release(first + (COUNT - 1))
    return plus_scaled(sums, part, rows, column), following


@mimw.jit
def multiply(inputs, scales, first, steps, shift, row: tl.constexpr, COLUMNS: tl.constexpr, LAYOUT: tl.constexpr,
             TOGETHER: tl.constexpr, AHEAD: tl.constexpr, EARLY: tl.constexpr):
    """64 rows of A, from row `row` of its tiles on, times B: `steps` chunks from number `first` on, TOGETHER at a time; AHEAD are
    in front by themselves, so that the consumers' products do not all end at the same chunk."""
    sums = tl.zeros((64, COLUMNS), tl.float32)
    column = tl.load(scales[0]) if EARLY else 0.0
    ahead = 0
    if AHEAD:
        ahead = tl.minimum(steps, AHEAD)
        for step in range(ahead):
            sums, next_column = plus_products(sums, column, inputs, scales, step, steps, first + step, 1, shift, row, LAYOUT, EARLY)
            if EARLY:
                column = next_column
    behind = ahead + (steps - ahead) // TOGETHER * TOGETHER
    for step in range(ahead, behind, TOGETHER):
        sums, next_column = plus_products(sums, column, inputs, scales, step, steps, first + step, TOGETHER, shift, row, LAYOUT,
                                          EARLY)
        if EARLY:
            column = next_column
    if TOGETHER > 1:
        for step in range(behind, steps):
            sums, next_column = plus_products(sums, column, inputs, scales, step, steps, first + step, 1, shift, row, LAYOUT, EARLY)
            if EARLY:
                column = next_column
    return sums


@mimw.jit
def multiply_tall(inputs, scales, first, steps, shift, row: tl.constexpr, COLUMNS: tl.constexpr, LAYOUT: tl.constexpr,
                  APART: tl.constexpr):
    """128 rows of A, from row `row` of its tiles on, times B, as two halves: `steps` chunks from number `first` on. The second
    consumer begins when the first one has products of APART chunks, so that they neither wait for theirs nor store together."""
    sums = tl.zeros((64, COLUMNS), tl.float32)
    more = tl.zeros((64, COLUMNS), tl.float32)
    part = tl.zeros((64, COLUMNS), tl.float32)
    at, next_step = scales
    if APART and row > 0:
        if first == 0:
            tlx.named_barrier_wait(TURN, PAIR)
    column = tl.load(at)
    for step in range(steps):
        slot = inputs.wait(first + step).slot
        part = product(slot, row, COLUMNS, part)
        rows, others = scales_of(slot, shift, row, LAYOUT), scales_of(slot, shift, row + 64, LAYOUT)
        tlx.fence("async_shared")               # of these reads and the next copy, here beside the product, not at the release
        part = tlx.async_dot_wait(0, part)
        if APART and row == 0:
            if first + step == tl.minimum(APART, steps) - 1:
                tlx.named_barrier_arrive(TURN, PAIR)
        sums = plus_scaled(sums, part, rows, column)
        sums = tlx.async_dot_wait(0, sums)      # the sum is done here: the next product takes its registers
        part = product(slot, row + 64, COLUMNS, part)
        following = tl.load(at + tl.minimum(step + 1, steps - 1) * next_step)
        part = tlx.async_dot_wait(0, part)
        inputs.release(first + step)
        more = plus_scaled(more, part, others, column)
        more = tlx.async_dot_wait(0, more)
        column = following
    return sums, more
