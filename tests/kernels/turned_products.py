"""A product of which threads write B and TMA writes what they write it of: the shares of dQ^T of attention's gradients, made small.

Shapes: K (64, 64), X (64, N), numbers (2, N), the sums K^T (X numbers[0]) + K^T (X numbers[1]) turned, as rows of 32
(2 N, 32); one program. The mistake that WAITS=False makes is to read numbers that have not come. With FENCED=False the task leaves
the fence behind its stores to the compiler.

Input: N. Output: what `mimw.simulate`, `mimw.compile` and a launch take. For example:

    args, meta, out, want = launch(80)      out becomes want
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw import TensorDescriptor


@mimw.jit
def turned(k_desc, numbers_desc, out_desc, x, N: tl.constexpr, FENCED: tl.constexpr, WAITS: tl.constexpr = True):
    """Each round multiplies K^T, read along its columns, and a tile that the task has stored."""
    k, weights = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, N), tl.float16, 2)
    out, numbers = tlx.local_alloc((2 * N, 32), tl.float32, 1), tle.gpu.alloc([2, N], tl.float32)
    full, met = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_expect_bytes(full[0], 64 * 64 * 2 + N * 4)
            tlx.async_descriptor_load(k_desc, k[0], [0, 0], full[0])
            tlx.async_descriptor_load(numbers_desc, tlx.local_reshape(numbers.slot(0), [1, N]), [0, 0], full[0])
            tlx.barrier_expect_bytes(full[1], N * 4)
            tlx.async_descriptor_load(numbers_desc, tlx.local_reshape(numbers.slot(1), [1, N]), [1, 0], full[1])
        with tlx.async_task(num_warps=4, num_regs=232):
            sums = tl.zeros((64, N), tl.float32)
            values = tl.load(x + tl.arange(0, 64)[:, None] * N + tl.arange(0, N)[None, :])
            for i in tl.static_range(2):
                if WAITS:
                    tlx.barrier_wait(full[i], 0)
                tlx.local_store(weights[i], (values * tlx.local_load(numbers.slot(i))[None, :]).to(tl.float16))
                if FENCED:
                    tlx.fence("async_shared")
                    tlx.barrier_arrive(met[i])
                sums = tlx.async_dot_wait(0, tlx.async_dot(tlx.local_trans(k[0]), weights[i], sums))
            tlx.local_store(out[0], tl.reshape(tl.trans(sums), (2 * N, 32)))
            tlx.fence("async_shared")
            tlx.async_descriptor_store(out_desc, out[0], [0, 0])
            tlx.async_descriptor_store_wait(0)


def launch(n: int = 80, fenced: bool = True):
    """(arguments, compile-time values, the sums, what they become)."""
    random = np.random.default_rng(n)
    k = random.standard_normal((64, 64)).astype(np.float16)
    x, numbers = random.standard_normal((64, n)).astype(np.float32), random.standard_normal((2, n)).astype(np.float32)
    out = np.zeros((2 * n, 32), np.float32)
    weights = (x[None] * numbers[:, None]).astype(np.float16).astype(np.float32)
    want = (k.astype(np.float32).T @ weights.sum(0)).T.reshape(out.shape)
    describe = TensorDescriptor.from_tensor
    args = describe(k, [64, 64]), describe(numbers, [1, n]), describe(out, [2 * n, 32]), x
    return args, dict(N=n, FENCED=fenced), out, want
