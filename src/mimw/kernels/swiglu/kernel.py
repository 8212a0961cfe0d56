"""SwiGLU and its gradient: plain Triton, each number read once and written once.

Input: gate and up [ROWS, N], and for the gradient dy. Output: y = gate sigmoid(gate) up, or the gradients of both. For example:

    kernel, grid, args, meta = arguments(gate, up, y)
    kernel[grid](*args, **meta)

The rows may be apart: gate and up are often the halves of one matrix.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.ring import Matrix


@tle.struct
class Place:
    """A block of a row, and which of its columns are in the row."""
    row: tl.tensor
    columns: tl.tensor
    inside: tl.tensor


@mimw.jit
def own_place(N, BLOCK: tl.constexpr):
    """This program's block."""
    blocks = tl.cdiv(N, BLOCK)
    columns = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    return Place((tl.program_id(0) // blocks).to(tl.int64), columns, columns < N)


@mimw.jit
def pointers(matrix, place):
    """Pointers to the elements of a block."""
    return matrix.row(place.row) + place.columns


@mimw.jit
def read(matrix, place):
    """A block in fp32."""
    return tl.load(pointers(matrix, place), mask=place.inside).to(tl.float32)


@mimw.jit
def swiglu(gate_ptr, up_ptr, y_ptr, ROWS, N, steps, BLOCK: tl.constexpr):
    """y = gate sigmoid(gate) up, computed in fp32."""
    place = own_place(N, BLOCK)
    gate, up = read(Matrix(gate_ptr, steps.gate), place), read(Matrix(up_ptr, steps.up), place)
    y = gate * tl.sigmoid(gate) * up
    tl.store(pointers(Matrix(y_ptr, steps.y), place), y.to(tlx.dtype_of(y_ptr)), mask=place.inside)


@mimw.jit
def swiglu_gradient(gate_ptr, up_ptr, dy_ptr, dgate_ptr, dup_ptr, ROWS, N, steps, BLOCK: tl.constexpr):
    """dgate = dy up (s + gate s (1 - s)) with s = sigmoid(gate), dup = dy gate s."""
    place = own_place(N, BLOCK)
    gate, up = read(Matrix(gate_ptr, steps.gate), place), read(Matrix(up_ptr, steps.up), place)
    dy = read(Matrix(dy_ptr, steps.dy), place)
    sigmoid = tl.sigmoid(gate)
    swish = gate * sigmoid
    dgate = dy * up * (sigmoid + swish * (1 - sigmoid))
    tl.store(pointers(Matrix(dgate_ptr, steps.dgate), place), dgate.to(tlx.dtype_of(dgate_ptr)), mask=place.inside)
    tl.store(pointers(Matrix(dup_ptr, steps.dup), place), (dy * swish).to(tlx.dtype_of(dup_ptr)), mask=place.inside)
