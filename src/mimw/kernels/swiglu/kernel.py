"""SwiGLU and its gradient: plain Triton, each number read once and written once.

Input: gate and up [ROWS, N], and for the gradient dy. Output: y = gate sigmoid(gate) up, or the gradients of both. For example:

    kernel, grid, args, meta = arguments(gate, up, y)
    kernel[grid](*args, **meta)

The rows may be apart: gate and up are often the halves of one matrix.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def place(ROWS, N, BLOCK: tl.constexpr):
    """(row, columns, where they are in the row) of this program's block."""
    blocks = tl.cdiv(N, BLOCK)
    columns = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    return (tl.program_id(0) // blocks).to(tl.int64), columns, columns < N


@mimw.jit
def swiglu(gate_ptr, up_ptr, y_ptr, ROWS, N, gate_row, up_row, y_row, BLOCK: tl.constexpr):
    """y = gate sigmoid(gate) up, computed in fp32."""
    row, columns, inside = place(ROWS, N, BLOCK)
    gate = tl.load(gate_ptr + row * gate_row + columns, mask=inside).to(tl.float32)
    up = tl.load(up_ptr + row * up_row + columns, mask=inside).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + row * y_row + columns, y.to(tlx.dtype_of(y_ptr)), mask=inside)


@mimw.jit
def swiglu_gradient(gate_ptr, up_ptr, dy_ptr, dgate_ptr, dup_ptr, ROWS, N, gate_row, up_row, dy_row, dgate_row, dup_row,
                    BLOCK: tl.constexpr):
    """dgate = dy up (s + gate s (1 - s)) with s = sigmoid(gate), dup = dy gate s."""
    row, columns, inside = place(ROWS, N, BLOCK)
    gate = tl.load(gate_ptr + row * gate_row + columns, mask=inside).to(tl.float32)
    up = tl.load(up_ptr + row * up_row + columns, mask=inside).to(tl.float32)
    dy = tl.load(dy_ptr + row * dy_row + columns, mask=inside).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    swish = gate * sigmoid
    dgate = dy * up * (sigmoid + swish * (1 - sigmoid))
    tl.store(dgate_ptr + row * dgate_row + columns, dgate.to(tlx.dtype_of(dgate_ptr)), mask=inside)
    tl.store(dup_ptr + row * dup_row + columns, (dy * swish).to(tlx.dtype_of(dup_ptr)), mask=inside)
