"""Products whose sums leave the tensor cores after each chunk of K, to be added up in fp32 by ordinary instructions.

Input: the pipe `inputs` of tiles of A and B. Output: the sum of their products, in fp32. For example:

    acc = multiply_promoted(inputs, first, steps, part, TOGETHER)

Hopper's tensor cores keep about 14 bits of a sum of 8-bit products (benchmarks/gemm_error.py): a sum over K = 16384 is off by
0.4 %. Added up every 128 of K it is off by 0.04 %, whatever K is. It takes a second accumulator, a third where products overlap, so
tiles are 64 x 128 a warpgroup. While one product is added, the warpgroup's next one and the other warpgroup's are under way.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .product import right_operand


@mimw.jit
def chunk_product(inputs, chunk, part, registers=None):
    """A B for the tiles of one chunk, started and not waited for, in the `registers` of a tile that has been used up."""
    slot = inputs.wait(chunk).slot
    a = tlx.local_slice(slot.a, [part.ROW, 0], [part.ROWS, slot.a.shape[1]])
    return tlx.async_dot(a, right_operand(slot.b, part), registers=registers)


@mimw.jit
def plus_products(acc, inputs, first, TOGETHER: tl.constexpr, part):
    """acc and the products of TOGETHER chunks from `first` on: while one is added, the next one is under way."""
    found = chunk_product(inputs, first, part)
    for chunk in tl.static_range(1, TOGETHER):
        more = chunk_product(inputs, first + chunk, part)
        found = tlx.async_dot_wait(1, found)
        inputs.release(first + (chunk - 1))
        acc += found
        acc = tlx.async_dot_wait(1, acc)      # the sum is done here, beside the next product
        found = more
    found = tlx.async_dot_wait(0, found)
    inputs.release(first + (TOGETHER - 1))
    return acc + found


@mimw.jit
def multiply_halves(inputs, first, steps, part):
    """The two halves of the rows. They have the registers of a product in turn: there are none for a second one that is under way
    meanwhile, so that is another warpgroup's."""
    HALF: tl.constexpr = part.ROWS // 2
    one, other = part.replace(ROWS=HALF), part.replace(ROW=part.ROW + HALF, ROWS=HALF)
    upper, lower = tl.zeros((HALF, part.COLUMNS), tl.float32), tl.zeros((HALF, part.COLUMNS), tl.float32)
    found = tl.zeros((HALF, part.COLUMNS), tl.float32)
    for chunk in range(first, first + steps):
        found = tlx.async_dot_wait(0, chunk_product(inputs, chunk, one, found))
        upper += found
        upper = tlx.async_dot_wait(0, upper)      # the sum is done here: the next product takes its registers
        found = tlx.async_dot_wait(0, chunk_product(inputs, chunk, other, found))
        inputs.release(chunk)
        lower += found
        lower = tlx.async_dot_wait(0, lower)
    return tl.join(upper, lower).permute(2, 0, 1).reshape(part.ROWS, part.COLUMNS)


@mimw.jit
def multiply_promoted(inputs, first, steps, part, TOGETHER: tl.constexpr):
    """The rows of A that are the consumer's, times B: the sum over `steps` chunks from number `first` on, TOGETHER at a time. ptxas
    would serialise products in flight over the end of a loop's body (C7514): each TOGETHER ends with a wait for all."""
    if part.ROWS == 128:
        return multiply_halves(inputs, first, steps, part)
    acc = tl.zeros((part.ROWS, part.COLUMNS), tl.float32)
    whole = steps // TOGETHER * TOGETHER
    for step in range(0, whole, TOGETHER):
        acc = plus_products(acc, inputs, first + step, TOGETHER, part)
    for step in range(whole, steps):
        acc = plus_products(acc, inputs, first + step, 1, part)
    return acc
