"""When a program with pipes is right."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle

from .tables import right, rows, states

describe = mimw.TensorDescriptor.from_tensor


@triton.jit
def fill(writer, x_desc, COMMIT: tl.constexpr):
    for k in range(4):
        slot = writer.acquire(k)
        if k % 2 == 0:
            tle.gpu.copy(x_desc, slot.x, [16, 32], [k * 16, 0])
        if COMMIT:
            writer.commit(k)


@triton.jit
def drain(reader, y_ptr, WAIT: tl.constexpr, RELEASE: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tile = tl.zeros((16, 32), tl.float16)
    for k in range(4):
        if WAIT:
            reader.wait(k)
        if k % 2 == 0:
            tile = tl.load(tle.gpu.local_ptr(reader.fields["x"].slot(0)))
        if RELEASE:
            reader.release(k)
        tl.store(y_ptr + k * 512 + at, tile)


@mimw.jit
def every_other(x_desc, y_ptr, COMMIT: tl.constexpr, WAIT: tl.constexpr, RELEASE: tl.constexpr):
    """Chunks of which every other one brings bytes."""
    p = tle.pipe(capacity=1, x=tle.gpu.alloc([1, 16, 32], tl.float16))
    tle.gpu.warp_specialize([(drain, (p.reader(), y_ptr, WAIT, RELEASE)), (fill, (p.writer(), x_desc, COMMIT))], [1], [24])


@states("pipe_make", "pipe_acquire", "pipe_commit", "pipe_wait", "pipe_release", "barrier_bytes", "barrier_wait", "barrier_arrive",
        "tma_load")
def pipe(commit=True, wait=True, release=True):
    x, y = np.ones((64, 32), np.float16), np.zeros((64, 32), np.float16)
    return every_other, 1, (describe(x, [16, 32]), y, commit, wait, release), {}


@rows("commit", "wait", "release")
def test_a_pipe(commit, wait, release):
    """Right iff each chunk is committed, waited for and released."""
    assert right(pipe(commit, wait, release)) == (commit and wait and release)


@triton.jit
def one_and_the_end(writer, x_ptr, CLOSE: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(tle.gpu.local_ptr(writer.acquire(0).x), tl.load(x_ptr + at))
    writer.commit(0)
    if CLOSE:
        writer.close(1)


@triton.jit
def until_the_end(reader, y_ptr, WAIT: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(y_ptr + at, tl.load(tle.gpu.local_ptr(reader.wait(0).slot.x)))
    reader.release(0)
    if WAIT:
        tl.store(y_ptr + 32, reader.wait(1).is_closed.to(tl.float32))


@mimw.jit
def ending(x_ptr, y_ptr, CLOSE: tl.constexpr, WAIT: tl.constexpr):
    """A chunk, then the end of the pipe in the same slot."""
    p = tle.pipe(capacity=1, x=tle.gpu.alloc([1, 32], tl.float32))
    tle.gpu.warp_specialize([(until_the_end, (p.reader(), y_ptr, WAIT)), (one_and_the_end, (p.writer(), x_ptr, CLOSE))], [1], [24])


@states("pipe_close", "pipe_wait")
def closing(close=True, wait=True):
    return ending, 1, (np.ones(32, np.float32), np.zeros(33, np.float32), close, wait), {}


@rows("close", "wait")
def test_the_end_of_a_pipe(close, wait):
    """Right iff who waits for the end is told of it."""
    assert right(closing(close, wait)) == (close or not wait)


@triton.jit
def give(writer, x_desc, steps, COPIES: tl.constexpr):
    """Every chunk has a number, and every second one a tile by TMA."""
    for k in range(steps):
        slot = writer.acquire(k)
        copied = k % 2 == 0
        if COPIES and copied:
            tle.gpu.copy(x_desc, slot.x, [16, 32], [k * 16, 0])
        tl.store(tle.gpu.local_ptr(slot.flag), tl.full((32, ), 1, tl.int32) * copied.to(tl.int32))
        writer.commit(k)


@triton.jit
def take(reader, y_ptr, steps, RELEASE: tl.constexpr, COPIES: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for k in range(steps):
        slot = reader.wait(k).slot
        if tl.load(tle.gpu.local_ptr(slot.flag, (0, ))) > 0:
            if COPIES:
                tl.store(y_ptr + k * 512 + at, tl.load(tle.gpu.local_ptr(slot.x)))
        if RELEASE:
            reader.release(k)


@mimw.jit
def piping(x_desc, y_ptr, steps, RELEASE: tl.constexpr, COPIES: tl.constexpr):
    pipe = tle.pipe(capacity=2, name="x", x=tle.gpu.alloc([2, 16, 32], tl.float16), flag=tle.gpu.alloc([2, 32], tl.int32))
    tle.gpu.warp_specialize([(take, (pipe.reader(), y_ptr, steps, RELEASE, COPIES)),
                             (give, (pipe.writer(), x_desc, steps, COPIES))], [1], [24])


@states("barrier_bytes")
def piped(steps=5, release=True, copies=True):
    x, y = np.ones((80, 32), np.float16), np.zeros((80, 32), np.float16)
    return piping, 1, (describe(x, [16, 32]), y, steps, release, copies), {}


@pytest.mark.parametrize("steps", [2, 5])
@rows("release", "copies")
def test_pipes(steps, release, copies):
    """Right iff slots are released, whether or not a chunk brings a tile. Where nothing ever is, the compiler refuses the ring,
    also for a launch that would use each slot once."""
    assert right(piped(steps, release, copies)) == release
