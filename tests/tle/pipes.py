"""Kernels with pipes."""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


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


@mimw.jit
def whole_cta(x_ptr, y_ptr, N: tl.constexpr, TILES: tl.constexpr, APART: tl.constexpr):
    """Writer and reader on the same warps: in one loop, or one loop after the other."""
    at = tl.arange(0, N)
    p = tle.pipe(capacity=TILES, tile=tle.gpu.alloc([TILES, N], tl.float32), type=tle.gpu.alloc([TILES, N], tl.int32))
    writer, reader = p.writer(), p.reader()
    if APART:
        for k in range(TILES):
            fill(writer, k, x_ptr, N)
        for k in range(TILES):
            drain(reader, k, y_ptr, at, N)
    else:
        for k in range(2 * TILES):
            fill(writer, k, x_ptr, N)
            drain(reader, k, y_ptr, at, N)


@triton.jit
def fill(writer, k, x_ptr, N: tl.constexpr):
    slot = writer.acquire(k)
    store_tile(slot, x_ptr + k * N, N)
    tl.store(tle.gpu.local_ptr(slot.type), tl.full((N, ), 1, tl.int32) + k)
    writer.commit(k)


@triton.jit
def store_tile(slot, x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(tle.gpu.local_ptr(slot.tile, (at, )), tl.load(x_ptr + at))


@triton.jit
def drain(reader, k, y_ptr, at, N: tl.constexpr):
    slot = reader.wait(k).slot
    again = reader.wait(k).slot  # a wait may be repeated
    tl.store(y_ptr + k * N + at, tl.load(tle.gpu.local_ptr(slot.tile)) * tl.load(tle.gpu.local_ptr(again.fields["type"])))
    reader.release(k)


@mimw.jit
def fan_out(x_desc, x_ptr, y_ptr, z_ptr, steps, N: tl.constexpr, M: tl.constexpr, WIDE: tl.constexpr):
    """Three means of filling in one chunk, two readers with fields of their own; the default partition writes."""
    p = tle.pipe(capacity=2, name="fan", readers=("left", "right"), tiles=tle.gpu.alloc([2, N, M], tl.float32),
                 copies=tle.gpu.alloc([2, N, M], tl.float32), numbers=tle.gpu.alloc([2, N], tl.int32))
    tle.gpu.warp_specialize([
        (spread, (p.writer(), x_desc, x_ptr, steps, N, M, WIDE)),
        (read_left, (p.reader("left", fields=("tiles", "numbers")), y_ptr, steps, N, M, WIDE)),
        (read_right, (p.reader(name="right", fields=["copies"]), z_ptr, steps, N, M)),
    ], [2, 4], [32, 32])


@triton.jit
def spread(writer, x_desc, x_ptr, steps, N: tl.constexpr, M: tl.constexpr, WIDE: tl.constexpr):
    rows, columns = tl.arange(0, N), tl.arange(0, M)
    for k in range(steps):
        number = k.to(tl.int64) if WIDE else k
        slot = writer.acquire(number)
        tle.gpu.copy(x_desc, slot.tiles, [N, M], [k * N, 0])
        tle.gpu.copy(x_ptr + (k * N + rows)[:, None] * M + columns[None, :], slot.copies, [N, M])
        tl.store(tle.gpu.local_ptr(slot.numbers), rows + k)
        writer.commit(number)


@triton.jit
def read_left(reader, y_ptr, steps, N: tl.constexpr, M: tl.constexpr, WIDE: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    for k in range(steps):
        number = k.to(tl.int64) if WIDE else k
        slot = reader.wait(number).slot
        x = tl.load(tle.gpu.local_ptr(slot.tiles)) + tl.load(tle.gpu.local_ptr(slot.numbers))[:, None]
        reader.release(number)
        tl.store(y_ptr + k * N * M + at, x)


@triton.jit
def read_right(reader, z_ptr, steps, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    for k in range(steps):
        x = tl.load(tle.gpu.local_ptr(reader.wait(k).slot.copies))
        reader.release(k)
        tl.store(z_ptr + k * N * M + at, -x)


@mimw.jit
def closed(x_ptr, y_ptr, count_ptr, limit, N: tl.constexpr, CAPACITY: tl.constexpr):
    """The writer stops at a negative number; the reader learns it from the end marker."""
    p = tle.pipe(capacity=CAPACITY, tile=tle.gpu.alloc([CAPACITY, N], tl.int32))
    tle.gpu.warp_specialize([(until_closed, (p.reader(), y_ptr, count_ptr, N)), (write_some, (p.writer(), x_ptr, limit, N))],
                            [1], [24])


@triton.jit
def write_some(writer, x_ptr, limit, N: tl.constexpr):
    at = tl.arange(0, N)
    for k in range(limit):
        slot = writer.acquire(k)
        tl.store(tle.gpu.local_ptr(slot.tile), tl.load(x_ptr + k * N + at))
        writer.commit(k)
    writer.close(limit)


@triton.jit
def until_closed(reader, y_ptr, count_ptr, N: tl.constexpr):
    at, k = tl.arange(0, N), 0
    open = True
    while open:
        result = reader.wait(k)
        open = not result.is_closed
        if open:
            tl.store(y_ptr + k * N + at, tl.load(tle.gpu.local_ptr(result.slot.tile)))
        reader.release(k)
        if open:
            k += 1
    tl.store(count_ptr, k)


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


@mimw.jit
def second_only(x_ptr, y_ptr, which, N: tl.constexpr):
    """Only one chunk of a pipe of two: stage and phase come from its number alone."""
    p = tle.pipe(capacity=2, x=tle.gpu.alloc([2, N], tl.float32))
    at = tl.arange(0, N)
    tle.gpu.warp_specialize([(one_out, (p.reader(), y_ptr, which, at)), (one_in, (p.writer(), x_ptr, which, at))], [4], [24])


@triton.jit
def one_in(writer, x_ptr, which, at):
    slot = writer.acquire(which)
    tl.store(tle.gpu.local_ptr(slot.x, (at, )), tl.load(x_ptr + at))
    writer.commit(which)


@triton.jit
def one_out(reader, y_ptr, which, at):
    tl.store(y_ptr + at, tl.load(tle.gpu.local_ptr(reader.wait(which).slot.x, (at, ))))
    reader.release(which)


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
