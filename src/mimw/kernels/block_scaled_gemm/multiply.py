"""How a consumer multiplies with scales of blocks: what stays in the tensor cores, and what is added up beside them.

Input: the pipe `inputs` of tiles of A and B and scales of A, a pointer to B's scales. Output: the scaled sums over K of 64 or 128
rows, in fp32:

    chunks = Chunks(inputs, first, steps, at, next_step, shift)     at: B's first scale of the columns
    sums = multiply(chunks, part, 128, AHEAD)

A product of 64 x 128 takes the tensor cores 256 cycles and a thread 64 registers; to scale and add it takes 64 instructions. So it
matters that something is multiplied meanwhile:

    multiply         64 rows: three sets of registers, so the consumer's next product runs while one is added. Every TOGETHER chunks
                     all have ended, since ptxas serialises products in flight over the end of a loop (C7514)
    multiply_tall    128 rows: two sums, and one set of registers in which the products of both halves follow each other; meanwhile
                     the other consumer's are multiplied. B's tiles serve twice as many rows: a quarter fewer bytes out of L2
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import PAIR, TURN, begin_turn, pass_turn

BLOCK = tl.constexpr(128)       # of K, and of B's columns, that share a scale


@tle.struct
class Part:
    """A consumer's ROWS rows of a tile, from row ROW on, its first staging tile, and its way: TOGETHER chunks at a time, the second
    consumer APART chunks behind the first; EARLY scales of columns are read a chunk ahead, and fences stand beside products,
    not at releases. CONTIGUOUS groups of rows begin anywhere among the scales that were copied."""
    me: tl.constexpr
    ROW: tl.constexpr
    ROWS: tl.constexpr
    STAGE: tl.constexpr
    TOGETHER: tl.constexpr
    APART: tl.constexpr
    EARLY: tl.constexpr
    CONTIGUOUS: tl.constexpr
    TURNS: tl.constexpr


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
def product(slot, row: tl.constexpr, COLUMNS: tl.constexpr, registers):
    """A[row :] B for 64 rows and the first COLUMNS columns, started and not waited for, in the `registers` of a tile that has been
    used up, if there is one."""
    a = tlx.local_slice(slot.a, [row, 0], [64, BLOCK])
    b = slot.b
    if COLUMNS < b.shape[0]:
        b = tlx.local_slice(slot.b, [0, 0], [COLUMNS, BLOCK])
    return tlx.async_dot(a, tlx.local_trans(b), registers=registers)


@mimw.jit
def half_of_b(b, first: tl.constexpr, COLUMNS: tl.constexpr):
    HALF: tl.constexpr = BLOCK // 2
    if b.shape[1] == HALF:
        return tlx.local_trans(tlx.local_slice(b, [first // HALF * COLUMNS, 0], [COLUMNS, HALF]))
    return tlx.local_trans(tlx.local_slice(b, [0, first], [COLUMNS, HALF]))


@mimw.jit
def in_turn(slot, part, row: tl.constexpr, COLUMNS: tl.constexpr, registers):
    if part.TURNS:
        begin_turn(part.me)
    if part.TURNS == 2:
        HALF: tl.constexpr = BLOCK // 2
        found = tlx.async_dot(tlx.local_slice(slot.a, [row, 0], [64, HALF]), half_of_b(slot.b, 0, COLUMNS), registers=registers)
        found = tlx.async_dot(tlx.local_slice(slot.a, [row, HALF], [64, HALF]), half_of_b(slot.b, HALF, COLUMNS), found)
    else:
        found = product(slot, row, COLUMNS, registers)
    if part.TURNS == 1:
        pass_turn(part.me, 2)
    return found


@mimw.jit
def awaited(found, part, FENCE: tl.constexpr):
    if part.TURNS == 2:
        found = tlx.async_dot_wait(1, found)
        pass_turn(part.me, 2)
    if FENCE:
        tlx.fence("async_shared")               # of reads of scales and the next copy, here beside the product, not at the release
    found = tlx.async_dot_wait(0, found)
    if part.TURNS == 3:
        pass_turn(part.me, 2)
    return found


@mimw.jit
def scales_of(slot, shift, row: tl.constexpr, CONTIGUOUS: tl.constexpr):
    """The scales of 64 rows from row `row` of the tile on, which begins at number `shift` of those that were copied."""
    if CONTIGUOUS == 2:
        return tl.load(tle.gpu.local_ptr(slot.scales, (shift + row + tl.arange(0, 64), )))
    elif CONTIGUOUS:
        rows = tlx.require_layout(tl.arange(0, 64), tlx.layout(((4, 8, 4), 2), ((0, 1, 16), 8)))
        return tlx.local_gather(slot.scales, shift + row + rows, 0)
    else:
        return tlx.local_load(tlx.local_slice(slot.scales, [row], [64]))


@mimw.jit
def plus_scaled(sums, part, rows, column):
    """The sums, and a product each of whose rows counts so often."""
    return sums + part * (rows * column)[:, None]


@mimw.jit
def plus_products(sums, column, chunks, step, COUNT: tl.constexpr, part):
    """`sums` and the products of COUNT chunks from chunk `step` of the tile on: one is added while the next one is multiplied. And
    the columns' scale of the chunk behind, if EARLY: then `column` is the first one's."""
    COLUMNS: tl.constexpr = sums.shape[1]
    first = chunks.first + step
    if not part.EARLY:
        column = tl.load(chunks.at + step * chunks.next_step)
    slot = chunks.inputs.wait(first).slot
    found = product(slot, part.ROW, COLUMNS, None)
    rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
    for chunk in tl.static_range(1, COUNT):
        next_column = tl.load(chunks.at + (step + chunk) * chunks.next_step)
        slot = chunks.inputs.wait(first + chunk).slot
        more = product(slot, part.ROW, COLUMNS, None)
        next_rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
        if part.EARLY:
            tlx.fence("async_shared")
        found = tlx.async_dot_wait(1, found)
        chunks.inputs.release(first + (chunk - 1))
        sums = plus_scaled(sums, found, rows, column)
        sums = tlx.async_dot_wait(1, sums)      # the sum is done here, beside the next product
        found, rows, column = more, next_rows, next_column
    following = column
    if part.EARLY:
        if COUNT == 1:
            tlx.fence("async_shared")
        following = tl.load(chunks.at + tl.minimum(step + COUNT, chunks.steps - 1) * chunks.next_step)
    found = tlx.async_dot_wait(0, found)
    chunks.inputs.release(first + (COUNT - 1))
    return plus_scaled(sums, found, rows, column), following


@mimw.jit
def multiply(chunks, part, COLUMNS: tl.constexpr, AHEAD: tl.constexpr):
    """64 rows of A times B, TOGETHER chunks at a time; AHEAD are in front by themselves, so that the consumers' products do not all
    end at the same chunk."""
    sums = tl.zeros((64, COLUMNS), tl.float32)
    column = tl.load(chunks.at) if part.EARLY else 0.0
    ahead = 0
    if AHEAD:
        ahead = tl.minimum(chunks.steps, AHEAD)
        for step in range(ahead):
            sums, next_column = plus_products(sums, column, chunks, step, 1, part)
            if part.EARLY:
                column = next_column
    behind = ahead + (chunks.steps - ahead) // part.TOGETHER * part.TOGETHER
    for step in range(ahead, behind, part.TOGETHER):
        sums, next_column = plus_products(sums, column, chunks, step, part.TOGETHER, part)
        if part.EARLY:
            column = next_column
    if part.TOGETHER > 1:
        for step in range(behind, chunks.steps):
            sums, next_column = plus_products(sums, column, chunks, step, 1, part)
            if part.EARLY:
                column = next_column
    return sums


@mimw.jit
def multiply_tall(chunks, part, COLUMNS: tl.constexpr):
    """128 rows of A times B, as two halves. The second consumer begins when the first one has products of APART chunks: so they
    neither wait for theirs nor store together."""
    sums = tl.zeros((64, COLUMNS), tl.float32)
    more = tl.zeros((64, COLUMNS), tl.float32)
    found = tl.zeros((64, COLUMNS), tl.float32)
    LOWER: tl.constexpr = part.ROW + 64
    first, steps = chunks.first, chunks.steps
    if part.APART and part.ROW > 0:
        if first == 0:
            tlx.named_barrier_wait(TURN, PAIR)
    column = tl.load(chunks.at)
    for step in range(steps):
        slot = chunks.inputs.wait(first + step).slot
        found = in_turn(slot, part, part.ROW, COLUMNS, found)
        rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
        others = scales_of(slot, chunks.shift, LOWER, part.CONTIGUOUS)
        found = awaited(found, part, True)
        if part.APART and part.ROW == 0:
            if first + step == tl.minimum(part.APART, steps) - 1:
                tlx.named_barrier_arrive(TURN, PAIR)
        sums = plus_scaled(sums, found, rows, column)
        sums = tlx.async_dot_wait(0, sums)      # the sum is done here: the next product takes its registers
        found = in_turn(slot, part, LOWER, COLUMNS, found)
        following = tl.load(chunks.at + tl.minimum(step + 1, steps - 1) * chunks.next_step)
        found = awaited(found, part, False)
        chunks.inputs.release(first + step)
        more = plus_scaled(more, found, others, column)
        more = tlx.async_dot_wait(0, more)
        column = following
    return sums, more


@mimw.jit
def multiply_tall_late(chunks, part, COLUMNS: tl.constexpr):
    sums = tl.zeros((64, COLUMNS), tl.float32)
    more = tl.zeros((64, COLUMNS), tl.float32)
    found = tl.zeros((64, COLUMNS), tl.float32)
    LOWER: tl.constexpr = part.ROW + 64
    first, steps = chunks.first, chunks.steps
    FIRST: tl.constexpr = part.APART == 1       # the fence stands in front of the release
    column = tl.load(chunks.at)
    chunks.inputs.wait(first)
    for step in range(steps):
        behind = tl.minimum(step + 1, steps - 1)
        slot = chunks.inputs.held(first + step)
        found = in_turn(slot, part, part.ROW, COLUMNS, found)
        if FIRST:
            tlx.fence("async_shared")
        chunks.inputs.release(first + step - 1, pred=step > 0)
        following = tl.load(chunks.at + behind * chunks.next_step)
        rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
        others = scales_of(slot, chunks.shift, LOWER, part.CONTIGUOUS)
        found = awaited(found, part, not FIRST)
        sums = plus_scaled(sums, found, rows, column)
        sums = tlx.async_dot_wait(0, sums)      # the sum is done here: the next product takes its registers
        found = in_turn(slot, part, LOWER, COLUMNS, found)
        chunks.inputs.wait(first + behind)      # here beside the product
        found = awaited(found, part, False)
        more = plus_scaled(more, found, others, column)
        more = tlx.async_dot_wait(0, more)
        column = following
    if FIRST:
        tlx.fence("async_shared")
    chunks.inputs.release(first + steps - 1)
    return sums, more


@mimw.jit
def tall_chunk(chunks, part, step, sums, more, found, column, LOADS: tl.constexpr):
    COLUMNS: tl.constexpr = found.shape[1]
    LOWER: tl.constexpr = part.ROW + 64
    last = chunks.steps - 1
    slot = chunks.inputs.held(chunks.first + step)
    found = in_turn(slot, part, part.ROW, COLUMNS, found)
    tlx.fence("async_shared")
    chunks.inputs.release(chunks.first + step - 1, pred=step > 0)
    one, two = column, column
    if LOADS:
        one = tl.load(chunks.at + tl.minimum(step + 2, last) * chunks.next_step)
        two = tl.load(chunks.at + tl.minimum(step + 3, last) * chunks.next_step)
    rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
    others = scales_of(slot, chunks.shift, LOWER, part.CONTIGUOUS)
    found = awaited(found, part, False)
    sums = plus_scaled(sums, found, rows, column)
    sums = tlx.async_dot_wait(0, sums)      # the sum is done here: the next product takes its registers
    found = in_turn(slot, part, LOWER, COLUMNS, found)
    chunks.inputs.wait(chunks.first + tl.minimum(step + 1, last))      # here beside the product
    found = awaited(found, part, False)
    more = plus_scaled(more, found, others, column)
    more = tlx.async_dot_wait(0, more)
    return sums, more, found, one, two


@mimw.jit
def tall_pairs(chunks, part, COLUMNS: tl.constexpr):
    sums = tl.zeros((64, COLUMNS), tl.float32)
    more = tl.zeros((64, COLUMNS), tl.float32)
    found = tl.zeros((64, COLUMNS), tl.float32)
    one = tl.load(chunks.at)
    two = tl.load(chunks.at + tl.minimum(1, chunks.steps - 1) * chunks.next_step)
    chunks.inputs.wait(chunks.first)
    for pair in range(chunks.steps // 2):
        sums, more, found, third, fourth = tall_chunk(chunks, part, 2 * pair, sums, more, found, one, True)
        sums, more, found, _x, _y = tall_chunk(chunks, part, 2 * pair + 1, sums, more, found, two, False)
        one, two = third, fourth
    if chunks.steps % 2 != 0:
        sums, more, found, _x, _y = tall_chunk(chunks, part, chunks.steps - 1, sums, more, found, one, False)
    tlx.fence("async_shared")
    chunks.inputs.release(chunks.first + chunks.steps - 1)
    return sums, more
