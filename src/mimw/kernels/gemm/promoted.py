"""Products whose sums leave the tensor cores after each chunk of K, to be added up in fp32 by ordinary instructions.

Input: the pipe `inputs` of tiles of A and B. Output: the sum of their products, in fp32. For example:

    acc = multiply_promoted(inputs, first, steps, row, ROWS, BN, B_IS_NK)

Hopper's tensor cores keep about 14 bits of a sum of 8-bit products (benchmarks/gemm_error.py): a sum over K = 16384 is off by
0.4 %. Added up every 128 of K it is off by 0.04 %, whatever K is. It takes a second accumulator, so tiles are 64 x 128 a
warpgroup; while one warpgroup adds, another multiplies.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def chunk_product(inputs, chunk, row: tl.constexpr, ROWS: tl.constexpr, B_IS_NK: tl.constexpr):
    """A[row :] B for the tiles of one chunk, started and not waited for."""
    slot = inputs.wait(chunk).slot
    a = tlx.local_slice(slot.a, [row, 0], [ROWS, slot.a.shape[1]])
    return tlx.async_dot(a, tlx.local_trans(slot.b) if B_IS_NK else slot.b)


@mimw.jit
def multiply_promoted(inputs, first, steps, row: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr, B_IS_NK: tl.constexpr):
    """ROWS rows of A, from row `row` of its tiles on, times B: the sum over `steps` chunks, from number `first` on."""
    acc = tl.zeros((ROWS, BN), tl.float32)
    for chunk in range(first, first + steps):
        part = tlx.async_dot_wait(0, chunk_product(inputs, chunk, row, ROWS, B_IS_NK))
        inputs.release(chunk)
        acc += part
    return acc
