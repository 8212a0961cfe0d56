"""Products whose sums leave the tensor cores after each chunk of K, to be added up in fp32 by ordinary instructions.

Input: the pipe `inputs` of tiles of A and B. Output: the sum of their products, in fp32. For example:

    acc = multiply_promoted(inputs, first, steps, row, ROWS, BN, B_IS_NK, TOGETHER)

Hopper's tensor cores keep about 14 bits of a sum of 8-bit products (benchmarks/gemm_error.py): a sum over K = 16384 is off by
0.4 %. Added up every 128 of K it is off by 0.04 %, whatever K is. It takes a second accumulator, a third where products overlap, so
tiles are 64 x 128 a warpgroup. While one product is added, the warpgroup's next one and the other warpgroup's are under way.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def chunk_product(inputs, chunk, row: tl.constexpr, ROWS: tl.constexpr, B_IS_NK: tl.constexpr, registers=None):
    """A[row :] B for the tiles of one chunk, started and not waited for, in the `registers` of a tile that has been used up."""
    slot = inputs.wait(chunk).slot
    a = tlx.local_slice(slot.a, [row, 0], [ROWS, slot.a.shape[1]])
    return tlx.async_dot(a, tlx.local_trans(slot.b) if B_IS_NK else slot.b, registers=registers)


@mimw.jit
def plus_products(acc, inputs, first, TOGETHER: tl.constexpr, row: tl.constexpr, ROWS: tl.constexpr, B_IS_NK: tl.constexpr):
    """acc and the products of TOGETHER chunks from `first` on: while one is added, the next one is under way."""
    part = chunk_product(inputs, first, row, ROWS, B_IS_NK)
    for chunk in tl.static_range(1, TOGETHER):
        more = chunk_product(inputs, first + chunk, row, ROWS, B_IS_NK)
        part = tlx.async_dot_wait(1, part)
        inputs.release(first + (chunk - 1))
        acc += part
        acc = tlx.async_dot_wait(1, acc)      # the sum is done here, beside the next product
        part = more
    part = tlx.async_dot_wait(0, part)
    inputs.release(first + (TOGETHER - 1))
    return acc + part


@mimw.jit
def multiply_halves(inputs, first, steps, row: tl.constexpr, HALF: tl.constexpr, BN: tl.constexpr, B_IS_NK: tl.constexpr):
    """Twice HALF rows of A, from row `row` of its tiles on, times B. The halves have the registers of a product in turn: there are
    none for a second one that is under way meanwhile, so that is another warpgroup's."""
    upper, lower = tl.zeros((HALF, BN), tl.float32), tl.zeros((HALF, BN), tl.float32)
    part = tl.zeros((HALF, BN), tl.float32)
    for chunk in range(first, first + steps):
        part = tlx.async_dot_wait(0, chunk_product(inputs, chunk, row, HALF, B_IS_NK, part))
        upper += part
        upper = tlx.async_dot_wait(0, upper)      # the sum is done here: the next product takes its registers
        part = tlx.async_dot_wait(0, chunk_product(inputs, chunk, row + HALF, HALF, B_IS_NK, part))
        inputs.release(chunk)
        lower += part
        lower = tlx.async_dot_wait(0, lower)
    return tl.join(upper, lower).permute(2, 0, 1).reshape(2 * HALF, BN)


@mimw.jit
def multiply_promoted(inputs, first, steps, row: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr,
                      B_IS_NK: tl.constexpr, TOGETHER: tl.constexpr):
    """ROWS rows of A, from row `row` of its tiles on, times B: the sum over `steps` chunks, from number `first` on, TOGETHER at a
    time. ptxas would serialise products in flight over the end of a loop's body (C7514): each TOGETHER ends with a wait for all."""
    if ROWS == 128:
        return multiply_halves(inputs, first, steps, row, ROWS // 2, BN, B_IS_NK)
    acc = tl.zeros((ROWS, BN), tl.float32)
    whole = steps // TOGETHER * TOGETHER
    for step in range(0, whole, TOGETHER):
        acc = plus_products(acc, inputs, first + step, TOGETHER, row, ROWS, B_IS_NK)
    for step in range(whole, steps):
        acc = plus_products(acc, inputs, first + step, 1, row, ROWS, B_IS_NK)
    return acc
