"""Kernels with pipes."""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle


@mimw.jit
def ring(x_desc, y_ptr, steps, N: tl.constexpr, M: tl.constexpr, CAPACITY: tl.constexpr):
    """TMA in, pointers out."""
    p = tle.pipe(capacity=CAPACITY, name="ring", x=tle.gpu.alloc([CAPACITY, N, M], tl.float32))
    tle.gpu.warp_specialize([(take, (p.reader(), y_ptr, steps, N, M)), (give, (p.writer(), x_desc, steps, N, M))], [1], [24])


@triton.jit
def give(writer, x_desc, steps, N: tl.constexpr, M: tl.constexpr):
    for k in range(steps):
        slot = writer.acquire(k)
        tle.gpu.copy(x_desc, slot.x, [N, M], [k * N, 0])
        writer.commit(k)


@triton.jit
def take(reader, y_ptr, steps, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    for k in range(steps):
        x = tl.load(tle.gpu.local_ptr(reader.wait(k).slot.x))
        reader.release(k)
        tl.store(y_ptr + k * N * M + at, x * 2)
