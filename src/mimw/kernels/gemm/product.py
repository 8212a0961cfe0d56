"""The main loop of a GEMM: one consumer's sums over the chunks of an output tile, and columns of them.

Input: the pipe `inputs` of tiles of A and B. Output: the sum of their products, in fp32. For example:

    acc = multiply(inputs, first, steps, part)                  over `steps` chunks, of which number `first` is the first
    columns(acc, 1, 4)                                          the second quarter of its columns
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..consumers import begin_turn, pass_turn


@mimw.jit
def product(inputs, chunk, acc, part):
    """acc += A B for the tiles of one chunk, started and not waited for."""
    slot = inputs.wait(chunk).slot
    return tlx.async_dot(left_operand(slot.a, part), right_operand(slot.b, part), acc)


@mimw.jit
def left_operand(a, part):
    """A as (ROWS, K): the rows that are the consumer's."""
    if part.A_IS_KM:
        return tlx.local_trans(tlx.local_slice(a, [0, part.ROW], [a.shape[0], part.ROWS]))
    return tlx.local_slice(a, [part.ROW, 0], [part.ROWS, a.shape[1]])


@mimw.jit
def right_operand(b, part):
    """B as (K, N): the COLUMNS that are in its slot, which has whole lines of them."""
    if part.B_IS_NK:
        return tlx.local_trans(b)
    if b.shape[1] == part.COLUMNS:
        return b
    return tlx.local_slice(b, [0, 0], [b.shape[0], part.COLUMNS])


@mimw.jit
def multiply(inputs, first, steps, part):
    """The rows of A that are the consumer's, times B: the sum over `steps` chunks, of which number `first` is the first.

    One product is always under way: a chunk is released once the product after its own has started and its own has ended. In
    ping-pong the next consumer may start when the last product has started, so that the tensor cores never idle between tiles.
    """
    if part.PING_PONG:
        begin_turn(part.me)
    acc = tl.zeros((part.ROWS, part.COLUMNS), tl.float32)
    for chunk in range(first, first + steps):
        acc = product(inputs, chunk, acc, part)
        acc = tlx.async_dot_wait(1, acc)
        inputs.release(chunk - 1, pred=chunk > first)
    if part.PING_PONG:
        pass_turn(part.me, part.CONSUMERS)
    acc = tlx.async_dot_wait(0, acc)
    inputs.release(first + steps - 1, pred=steps > 0)
    return acc


@mimw.jit
def columns(tile, piece: tl.constexpr, PIECES: tl.constexpr):
    """Column piece number `piece` of PIECES equal ones, by halving: no element changes its thread."""
    if PIECES == 1:
        return tile
    left, right = tile.reshape(tile.shape[0], 2, tile.shape[1] // 2).permute(0, 2, 1).split()
    HALF: tl.constexpr = PIECES // 2
    if piece < HALF:
        return columns(left, piece, HALF)
    return columns(right, piece - HALF, HALF)
