"""Further forms of pipes: two in a row, one-shot, between TLX tasks, read by `tl.dot`, filled in parts, filled ahead of the loop.

Shapes: chunks of (N, M) or of N elements, `steps` of them; x and y hold the chunks one below the other. Each kernel is right.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .pipes import take


@mimw.jit
def staged(q_desc, x_desc, y_ptr, steps, odd, N: tl.constexpr, M: tl.constexpr):
    """A one-shot chunk before the region, a pipe used in two regions, a copy that not every chunk makes."""
    q = tle.pipe(capacity=1, one_shot=True, name="q", q=tle.gpu.alloc([1, N, M], tl.float16))
    p = tle.pipe(capacity=2, name="x", x=tle.gpu.alloc([2, N, M], tl.float16), flag=tle.gpu.alloc([2, 32], tl.int32))
    first = q.writer().acquire(0)
    tle.gpu.copy(q_desc, first.q, [N, M], [0, 0])
    q.writer().commit(0)
    for region in tl.static_range(2):
        tle.gpu.warp_specialize([
            (add_q, (q.reader(), p.reader(), y_ptr, region * steps, steps, N, M)),
            (maybe, (p.writer(), x_desc, region * steps, steps, odd, N, M)),
        ], [1], [24])


@triton.jit
def maybe(writer, x_desc, start, steps, odd, N: tl.constexpr, M: tl.constexpr):
    for k in range(start, start + steps):
        slot = writer.acquire(k)
        loaded = k % 2 == odd
        if loaded:
            tle.gpu.copy(x_desc, slot.x, [N, M], [k * N, 0])
        tl.store(tle.gpu.local_ptr(slot.flag), tl.full((32, ), 1, tl.int32) * loaded.to(tl.int32))
        writer.commit(k)


@triton.jit
def add_q(q_reader, reader, y_ptr, start, steps, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    q = tl.load(tle.gpu.local_ptr(q_reader.wait(0).slot.q))
    for k in range(start, start + steps):
        slot = reader.wait(k).slot
        loaded = tl.load(tle.gpu.local_ptr(slot.flag, (0, )))
        total = q
        if loaded > 0:
            total += tl.load(tle.gpu.local_ptr(slot.x))
        reader.release(k)
        tl.store(y_ptr + k * N * M + at, total)
    q_reader.release(0)


@triton.jit
def ends(p, name: tl.constexpr):
    """Both ends, from a helper that may return early."""
    if name is None:
        return p.writer(), p.reader()
    return p.writer(), p.reader(name)


@triton.jit
def relay(pair, other, steps, N: tl.constexpr):
    """Reads one pipe and writes the next."""
    for k in range(steps):
        result = pair[0].wait(k)
        slot = other.acquire(k)
        tl.store(tle.gpu.local_ptr(slot.x), pass_on(result) + pair[1])
        pair[0].release(k)
        other.commit(k)


@triton.jit
def pass_on(result):
    return tl.load(tle.gpu.local_ptr(result.slot.x))


@triton.jit
def tail(reader, y_ptr, steps, N: tl.constexpr):
    k = 0
    while k < steps:
        tl.store(y_ptr + k * N + tl.arange(0, N), tl.load(tle.gpu.local_ptr(reader.wait(k).slot.x)))
        reader.release(k)
        k += 1


@triton.jit
def head(writer, x_ptr, steps, N: tl.constexpr):
    for k in range(steps):
        slot = writer.acquire(k)
        tl.store(tle.gpu.local_ptr(slot.x), tle.load(x_ptr + k * N + tl.arange(0, N), is_async=True))
        writer.commit(k)


@mimw.jit
def chain(x_ptr, y_ptr, steps, N: tl.constexpr):
    """Two pipes in a row; their ends travel in tuples, and the partition in the middle has one of each."""
    first = tle.pipe(capacity=2, readers=("middle", ), x=tle.gpu.alloc([2, N], tl.int32))
    second = tle.pipe(capacity=3, x=tle.gpu.alloc([3, N], tl.int32))
    writer, reader = ends(first, "middle")
    last = ends(second, None)
    tle.gpu.warp_specialize([(tail, (last[1], y_ptr, steps, N)), (relay, ((reader, 5), last[0], steps, N)),
                             (head, (writer, x_ptr, steps, N))], [2, 1], [24, 24])


@mimw.jit
def in_tasks(x_ptr, y_ptr, steps, N: tl.constexpr):
    """Pipes between the tasks of TLX."""
    p = tle.pipe(capacity=2, x=tle.gpu.alloc([2, N], tl.int32))
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tail(p.reader(), y_ptr, steps, N)
        with tlx.async_task(num_warps=1):
            head(p.writer(), x_ptr, steps, N)


@mimw.jit
def product(a_desc, b_desc, c_ptr, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """`tl.dot` of what a pipe brings: its reads are over when the slot is released."""
    p = tle.pipe(capacity=2, a=tle.gpu.alloc([2, M, K], tl.float16), b=tle.gpu.alloc([2, K, N], tl.float16))
    tle.gpu.warp_specialize([(dots, (p.reader(), c_ptr, steps, M, N, K)), (operands, (p.writer(), a_desc, b_desc, steps, M, N, K))],
                            [1], [24])


@triton.jit
def operands(writer, a_desc, b_desc, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    for k in range(steps):
        slot = writer.acquire(k)
        tle.gpu.copy(a_desc, slot.a, [M, K], [0, k * K])
        tle.gpu.copy(b_desc, slot.b, [K, N], [k * K, 0])
        writer.commit(k)


@triton.jit
def dots(reader, c_ptr, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(steps):
        slot = reader.wait(k).slot
        acc = tl.dot(tl.load(tle.gpu.local_ptr(slot.a)), tl.load(tle.gpu.local_ptr(slot.b)), acc)
        reader.release(k)
    tl.store(c_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)


@mimw.jit
def in_parts(x_desc, y_ptr, steps, N: tl.constexpr, M: tl.constexpr):
    """A field filled part by part."""
    p = tle.pipe(capacity=2, x=tle.gpu.alloc([2, 4, N, M], tl.float32))
    tle.gpu.warp_specialize([(take_parts, (p.reader(), y_ptr, steps, N, M)), (give_parts, (p.writer(), x_desc, steps, N, M))],
                            [1], [24])


@triton.jit
def give_parts(writer, x_desc, steps, N: tl.constexpr, M: tl.constexpr):
    for k in range(steps):
        slot = writer.acquire(k)
        for part in tl.static_range(4):
            tle.gpu.copy(x_desc, slot.x.slot(part), [N, M], [(4 * k + part) * N, 0])
        writer.commit(k)


@triton.jit
def take_parts(reader, y_ptr, steps, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    for k in range(steps):
        slot = reader.wait(k).slot
        for part in tl.static_range(4):
            tl.store(y_ptr + (4 * k + part) * N * M + at, tl.load(tle.gpu.local_ptr(slot.x.slot(part))))
        reader.release(k)


@mimw.jit
def ahead(x_desc, x_ptr, y_ptr, steps, N: tl.constexpr, M: tl.constexpr):
    """Each chunk is started before the loop step that commits it; the first by threads, the others by TMA."""
    p = tle.pipe(capacity=2, x=tle.gpu.alloc([2, N, M], tl.float32))
    tle.gpu.warp_specialize([(take, (p.reader(), y_ptr, steps, N, M)), (give_ahead, (p.writer(), x_desc, x_ptr, steps, N, M))],
                            [1], [24])


@triton.jit
def give_ahead(writer, x_desc, x_ptr, steps, N: tl.constexpr, M: tl.constexpr):
    slot = writer.acquire(0)
    tle.gpu.copy(x_ptr + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], slot.x, [N, M])
    for k in range(steps):
        writer.commit(k)
        if k + 1 < steps:
            slot = writer.acquire(k + 1)
            tle.gpu.copy(x_desc, slot.x, [N, M], [(k + 1) * N, 0])
