"""Rows gathered and scattered by TMA: by the kernel itself, by tasks, from descriptors of its own, through registers.

Shapes: x and y are 2-D, of 8, 16 or 32 bits; from and to are int32 row numbers, BX a program; rows are BY elements wide.
Each kernel is right.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@mimw.jit
def moved(x_desc, y_desc, from_ptr, to_ptr, column, BX: tl.constexpr, BY: tl.constexpr):
    """y[to[i], column:] = x[from[i], column:], by the kernel itself."""
    tile = tlx.local_alloc((BX, BY), tlx.dtype_of(x_desc), 1)
    full = tlx.alloc_barriers(1)
    at = tl.program_id(0) * BX + tl.arange(0, BX)
    tlx.barrier_expect_bytes(full[0], BX * BY * tlx.size_of(tlx.dtype_of(x_desc)))
    tlx.async_descriptor_gather(x_desc, tile[0], tl.load(from_ptr + at), column, full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_scatter(y_desc, tile[0], tl.load(to_ptr + at), column)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def moved_by_tasks(x_desc, y_desc, from_ptr, to_ptr, column, count, BX: tl.constexpr, BY: tl.constexpr, STAGES: tl.constexpr):
    """The same by two tasks, through a ring; program p takes the tiles p, p + number of programs, ..."""
    tiles = tlx.local_alloc((BX, BY), tlx.dtype_of(x_desc), STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            step = 0
            for tile in range(tl.program_id(0), count, tl.num_programs(0)):
                slot, phase = step % STAGES, (step // STAGES) & 1
                to = tl.load(to_ptr + tile * BX + tl.arange(0, BX))
                tlx.barrier_wait(full[slot], phase)
                tlx.async_descriptor_scatter(y_desc, tiles[slot], to, column)
                tlx.async_descriptor_store_wait(0)
                tlx.barrier_arrive(free[slot])
                step += 1
        with tlx.async_task(num_warps=1):
            step = 0
            for tile in range(tl.program_id(0), count, tl.num_programs(0)):
                slot, phase = step % STAGES, (step // STAGES) & 1
                rows = tl.load(from_ptr + tile * BX + tl.arange(0, BX))
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], BX * BY * tlx.size_of(tlx.dtype_of(x_desc)))
                tlx.async_descriptor_gather(x_desc, tiles[slot], rows, column, full[slot])
                step += 1


@mimw.jit
def gathered_from(x_desc, y_desc, from_ptr, to_ptr, column, BX: tl.constexpr, BY: tl.constexpr):
    tile = tle.gpu.alloc([BX, BY], tlx.dtype_of(x_desc))
    tle.gpu.copy(x_desc, tile, [BX, BY], [tl.load(from_ptr + tl.arange(0, BX)), column])
    tle.gpu.copy(tile, y_desc, [BX, BY], [tl.load(to_ptr + tl.arange(0, BX)), 0])


@mimw.jit
def own_descriptors(x_ptr, y_ptr, from_ptr, to_ptr, M, N, BX: tl.constexpr, BY: tl.constexpr, SLOT: tl.constexpr):
    """Descriptors that the kernel makes: plain ones, or in a slot."""
    tile = tlx.local_alloc((BX, BY), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    if SLOT:
        slots = tlx.allocate_tensor_descriptor(2)
        tlx.make_tensor_descriptor(slots[0], x_ptr, [M, N], [N, 1], [1, BY])
        tlx.make_tensor_descriptor(slots[1], y_ptr, [M, N], [N, 1], [1, BY])
        x_desc = tlx.reinterpret_tensor_descriptor(slots[0], [1, BY], tl.float16)
        y_desc = tlx.reinterpret_tensor_descriptor(slots[1], [1, BY], tl.float16)
    else:
        x_desc = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [1, BY])
        y_desc = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [1, BY])
    tlx.barrier_expect_bytes(full[0], BX * BY * 2)
    tlx.async_descriptor_gather(x_desc, tile[0], tl.load(from_ptr + tl.arange(0, BX)), 0, full)
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_scatter(y_desc, tile[0], tl.load(to_ptr + tl.arange(0, BX)), 0)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def by_registers(x_desc, y_desc, from_ptr, to_ptr, column, BX: tl.constexpr):
    """The register form of Triton's descriptors, beside a word of ours."""
    tlx.fence("async_shared")
    at = tl.arange(0, BX)
    tile = x_desc.gather(tl.load(from_ptr + at), column)
    y_desc.scatter(tile + tile, tl.load(to_ptr + at), column)
