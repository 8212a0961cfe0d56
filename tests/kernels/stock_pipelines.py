"""Loops that Triton pipelines on Hopper: a race of Triton 3.9 (docs/BUGS.md), and the same loop without it.

Shapes: a, b, d (n 64, 64) of fp16, c (64, 64) of fp32. The mistake is Triton's: kernels of `triton.jit` have it, of `mimw.jit` not.
"""

import triton
import triton.language as tl

import mimw
from mimw import tlx


@triton.jit
def operand_and_values(a, b, c, d, n):
    """c = sum of a_i b_i, d = 2 b: b's tile is an operand that lies in shared memory, and is read to registers, too."""
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(n):
        x = tl.load(a + i * 4096 + rows * 64 + columns)
        y = tl.load(b + i * 4096 + rows * 64 + columns)
        acc = tl.dot(x, y, acc)
        tl.store(d + i * 4096 + rows * 64 + columns, y + y)
    tl.store(c + rows * 64 + columns, acc)


@triton.jit
def by_descriptors(a, b, c, d, n):
    """The same of descriptors."""
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(n):
        x = a.load([i * 64, 0])
        y = b.load([i * 64, 0])
        acc = tl.dot(x, y, acc)
        d.store([i * 64, 0], y + y)
    c.store([0, 0], acc)


@triton.jit
def two_products(a, b, c, d, n):
    """c = sum of a_i b_i + a_i' b_i, d = 2 b: two products of a trip read the tile."""
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc, turned = tl.zeros([64, 64], tl.float32), tl.zeros([64, 64], tl.float32)
    for i in range(n):
        x = tl.load(a + i * 4096 + rows * 64 + columns)
        y = tl.load(b + i * 4096 + rows * 64 + columns)
        acc = tl.dot(x, y, acc)
        turned = tl.dot(tl.trans(x), y, turned)
        tl.store(d + i * 4096 + rows * 64 + columns, y + y)
    tl.store(c + rows * 64 + columns, acc + turned)


@triton.jit
def product_of_a_product(a, b, c, d, n):
    """c = sum of (c a_i') b_i, d = a + b: the second product is pending until the next trip, without a wait behind it."""
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    q = tl.load(c + rows * 64 + columns).to(tl.float16)
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(n):
        x = tl.load(a + i * 4096 + rows * 64 + columns)
        y = tl.load(b + i * 4096 + rows * 64 + columns)
        scores = tl.dot(q, tl.trans(x))
        acc = tl.dot(scores.to(tl.float16), y, acc)
        tl.store(d + i * 4096 + rows * 64 + columns, y + x)
    tl.store(c + rows * 64 + columns, acc)


@triton.jit
def operand_and_greatest(a, b, c, d, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = sum of a_i b_i, d = the greatest of all b_i. Shapes: a (n BM, BK), b (n BK, BN), each program's c (BM, BN), d (BK, BN).
    No store is in the loop, so the copies come soon behind the product: on an H200 Triton's c is wrong in each launch."""
    program = tl.program_id(0)
    rows, columns, keys = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :], tl.arange(0, BK)
    acc, greatest = tl.zeros([BM, BN], tl.float32), tl.zeros([BK, BN], tl.float16)
    for i in range(n):
        x = tl.load(a + i * BM * BK + rows * BK + keys[None, :])
        y = tl.load(b + i * BK * BN + keys[:, None] * BN + columns)
        acc = tl.dot(x, y, acc)
        greatest = tl.maximum(greatest, y)
    tl.store(c + program * BM * BN + rows * BN + columns, acc)
    tl.store(d + program * BK * BN + keys[:, None] * BN + columns, greatest)


@mimw.jit
def in_a_task(a, b, c, d, n):
    """`operand_and_values` in a task, which leaves its loop to Triton's pipeline."""
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    with tlx.async_tasks():
        with tlx.async_task(num_warps=1):
            tl.store(c, 0.0)
        with tlx.async_task("default"):
            acc = tl.zeros([64, 64], tl.float32)
            for i in range(n):
                x = tl.load(a + i * 4096 + rows * 64 + columns)
                y = tl.load(b + i * 4096 + rows * 64 + columns)
                acc = tl.dot(x, y, acc)
                tl.store(d + i * 4096 + rows * 64 + columns, y + y)
            tl.store(c + 64 + rows * 64 + columns, acc)


@triton.jit
def operand(a, b, c, d, n):
    """The product alone."""
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(n):
        x = tl.load(a + i * 4096 + rows * 64 + columns)
        acc = tl.dot(x, tl.load(b + i * 4096 + rows * 64 + columns), acc)
    tl.store(c + rows * 64 + columns, acc)
