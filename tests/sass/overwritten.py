"""A kernel whose products read computed rows from registers, and one that writes these registers while a product reads them.

Input: how many products may be under way behind the wait of a trip. Output: the machine code for Hopper. With one under way
`check_async_dot` refuses the kernel, so it is compiled here without that check: an H200 multiplied wrong numbers by such code.
"""

import sys
from unittest import mock

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compiled import Compiled

SIZE = 64


@mimw.jit
def of_registers(x_desc, y_desc, out, K, PENDING: tl.constexpr):
    """A is computed, so it lies in registers; B lies in shared memory. The sums begin with a product: begun with zeros, ptxas lets
    every product end by itself."""
    x = tlx.local_alloc((64, 64), tl.bfloat16, 1)
    y = tlx.local_alloc((64, 64), tl.bfloat16, 2)
    full = tlx.alloc_barriers(2)
    tlx.local_store(x[0], x_desc.load([0, 0]))
    tlx.fence_async_shared()
    tlx.barrier_expect_bytes(full[1], 64 * 64 * 2)
    tlx.async_descriptor_load(y_desc, y[1], [0, 0], full[1])
    tlx.barrier_wait(full[1], 0)
    acc = tlx.async_dot_wait(0, tlx.async_dot(x[0], y[1])) * 2.0
    for k in range(0, K, 64):
        at = (k // 64) % 2
        tlx.barrier_expect_bytes(full[at], 64 * 64 * 2)
        tlx.async_descriptor_load(y_desc, y[at], [k, 0], full[at])
        tlx.barrier_wait(full[at], (k // 128) + at & 1)
        a = (x_desc.load([0, k]) * 2.0).to(tl.bfloat16)
        acc = tlx.async_dot(a, y[at], acc)
        acc = tlx.async_dot_wait(PENDING, acc)
    acc = tlx.async_dot_wait(0, acc)
    tl.store(out + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)


def compiled(pending: int) -> Compiled:
    describe = mimw.TensorDescriptor.from_tensor
    x, y = np.zeros((SIZE, 256), ml_dtypes.bfloat16), np.zeros((256, SIZE), ml_dtypes.bfloat16)
    args = describe(x, [SIZE, 64]), describe(y, [64, SIZE]), np.zeros((SIZE, SIZE), np.float32), 256
    with mock.patch.object(sys.modules["mimw.compiler.passes.check_async_dot"], "_check_operand"):
        return mimw.compile(of_registers, (1, ), *args, PENDING=pending, num_warps=4, target="sm_90a")
