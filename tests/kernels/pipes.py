"""Kernels with one pipe: by TMA and by threads, on the same warps and on others, with two readers, closed by its writer.

Shapes: chunks of (N, M) or of N elements, `steps` of them; x and y hold the chunks one below the other. Each kernel is right.
"""

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
