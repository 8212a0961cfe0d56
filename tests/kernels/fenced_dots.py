"""Kernels in which wgmma reads what this task's threads have written: each needs a proxy fence between the two.

Shapes: x holds fp16 tiles of (64, 64) one after the other, y takes one (64, 64) product in fp32; n trips where there is a loop.
The author writes no fence: the compiler does, and a test takes it out of the PTX.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def index(ROWS: tl.constexpr, COLS: tl.constexpr):
    return tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]


@mimw.jit
def stored(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(a[0], tl.load(x + index(64, 64)))
    tlx.local_store(b[0], tl.load(x + 4096 + index(64, 64)))
    acc = tlx.async_dot_wait(0, tlx.async_dot(a[0], b[0]))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def copied(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.async_load(x + index(64, 64), a[0])
    tlx.async_load(x + 4096 + index(64, 64), b[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    acc = tlx.async_dot_wait(0, tlx.async_dot(a[0], b[0]))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def ring(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 2)
    acc = tl.zeros((64, 64), tl.float32)
    for i in range(n):
        tlx.local_store(a[i % 2], tl.load(x + i * 8192 + index(64, 64)))
        tlx.local_store(b[i % 2], tl.load(x + i * 8192 + 4096 + index(64, 64)))
        acc = tlx.async_dot(a[i % 2], b[i % 2], acc)
        acc = tlx.async_dot_wait(0, acc)
    tl.store(y + index(64, 64), acc)


@mimw.jit
def copied_ahead(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 2)
    acc = tl.zeros((64, 64), tl.float32)
    tlx.async_load(x + index(64, 64), a[0])
    tlx.async_load(x + 4096 + index(64, 64), b[0])
    tlx.async_load_commit_group()
    for i in range(n):
        tlx.async_load_wait_group(0)
        acc = tlx.async_dot(a[i % 2], b[i % 2], acc)
        acc = tlx.async_dot_wait(0, acc)
        tlx.async_load(x + (i + 1) * 8192 + index(64, 64), a[(i + 1) % 2])
        tlx.async_load(x + (i + 1) * 8192 + 4096 + index(64, 64), b[(i + 1) % 2])
        tlx.async_load_commit_group()
    tl.store(y + index(64, 64), acc)


@mimw.jit
def before_loop(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(a[0], tl.load(x + index(64, 64)))
    tlx.local_store(b[0], tl.load(x + 4096 + index(64, 64)))
    acc = tl.zeros((64, 64), tl.float32)
    for i in range(n):
        acc = tlx.async_dot_wait(0, tlx.async_dot(a[0], b[0], acc))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def after_loop(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 2)
    for i in range(n):
        tlx.local_store(a[i], tl.load(x + index(64, 64)))
        tlx.local_store(b[i], tl.load(x + 4096 + index(64, 64)))
    acc = tlx.async_dot_wait(0, tlx.async_dot(a[0], b[0]))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def transposed(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(a[0], tl.load(x + index(64, 64)))
    tlx.local_store(b[0], tl.load(x + 4096 + index(64, 64)))
    acc = tlx.async_dot_wait(0, tlx.async_dot(a[0], tlx.local_trans(b[0])))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def sliced(x, y, n):
    a, b = tlx.local_alloc((128, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(a[0], tl.load(x + index(128, 64)))
    tlx.local_store(b[0], tl.load(x + 8192 + index(64, 64)))
    acc = tlx.async_dot_wait(0, tlx.async_dot(tlx.local_slice(a[0], [64, 0], [64, 64]), b[0]))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def in_branch(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    if n > 3:
        tlx.local_store(a[0], tl.load(x + index(64, 64)))
        tlx.local_store(b[0], tl.load(x + 4096 + index(64, 64)))
    acc = tlx.async_dot_wait(0, tlx.async_dot(a[0], b[0]))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def in_worker(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=4):
            acc = tl.zeros((64, 64), tl.float32)
            for i in range(n):
                tlx.local_store(a[i % 2], tl.load(x + i * 8192 + index(64, 64)))
                tlx.local_store(b[i % 2], tl.load(x + i * 8192 + 4096 + index(64, 64)))
                acc = tlx.async_dot_wait(0, tlx.async_dot(a[i % 2], b[i % 2], acc))
            tl.store(y + index(64, 64), acc)


@mimw.jit
def written_outside(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(a[0], tl.load(x + index(64, 64)))
    tlx.local_store(b[0], tl.load(x + 4096 + index(64, 64)))
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=4):
            acc = tlx.async_dot_wait(0, tlx.async_dot(a[0], b[0]))
            tl.store(y + index(64, 64), acc)


@mimw.jit
def stored_ahead(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 2)
    acc = tl.zeros((64, 64), tl.float32)
    tlx.local_store(a[0], tl.load(x + index(64, 64)))
    tlx.local_store(b[0], tl.load(x + 4096 + index(64, 64)))
    for i in range(n):
        acc = tlx.async_dot(a[i % 2], b[i % 2], acc)
        acc = tlx.async_dot_wait(0, acc)
        tlx.local_store(a[(i + 1) % 2], tl.load(x + (i + 1) * 8192 + index(64, 64)))
        tlx.local_store(b[(i + 1) % 2], tl.load(x + (i + 1) * 8192 + 4096 + index(64, 64)))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def chosen(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(b[0], tl.load(x + 8192 + index(64, 64)))
    if n > 3:
        tile = a[0]
        tlx.local_store(tile, tl.load(x + index(64, 64)))
    else:
        tile = a[1]
        tlx.local_store(tile, tl.load(x + 4096 + index(64, 64)))
    acc = tlx.async_dot_wait(0, tlx.async_dot(tile, b[0]))
    tl.store(y + index(64, 64), acc)


@mimw.jit
def written_by_other_loop(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 2)
    acc = tl.zeros((64, 64), tl.float32)
    for i in range(n):
        for j in range(2):
            tlx.local_store(a[j], tl.load(x + index(64, 64)))
            tlx.local_store(b[j], tl.load(x + 4096 + index(64, 64)))
        for j in range(2):
            acc = tlx.async_dot(a[j], b[j], acc)
        acc = tlx.async_dot_wait(0, acc)
    tl.store(y + index(64, 64), acc)


@mimw.jit
def copied_in_worker(x, y, n):
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=4):
            acc = tl.zeros((64, 64), tl.float32)
            for i in range(n):
                tlx.async_load(x + i * 8192 + index(64, 64), a[i % 2])
                tlx.async_load(x + i * 8192 + 4096 + index(64, 64), b[i % 2])
                tlx.async_load_commit_group()
                tlx.async_load_wait_group(0)
                acc = tlx.async_dot_wait(0, tlx.async_dot(a[i % 2], tlx.local_trans(b[i % 2]), acc))
            tl.store(y + index(64, 64), acc)


KERNELS = (stored, copied, ring, copied_ahead, before_loop, after_loop, transposed, sliced, in_branch, in_worker, stored_ahead,
           chosen, written_by_other_loop, copied_in_worker)
