"""Kernels whose buffers have extents that are no powers of two, and that threads read, write, cut and share.

Shapes: tiles of R x C, two of them one below the other in x and y, in one program. Each kernel is right.

Input: the name of a case. Output: what `mimw.simulate`, `mimw.compile` and a launch take, and what y becomes. For example:

    kernel, args, meta, y, want = launch("read and written", 176, 64)
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw import TensorDescriptor


@mimw.jit
def bring(x_desc, tiles, full):
    """Two tiles, by TMA."""
    for i in range(2):
        tlx.barrier_expect_bytes(full[i], tiles.shape[0] * tiles.shape[1] * tlx.size_of(tlx.dtype_of(x_desc)))
        tlx.async_descriptor_load(x_desc, tiles[i], [i * tiles.shape[0], 0], full[i])


@mimw.jit
def doubled(x_desc, y_desc, R: tl.constexpr, C: tl.constexpr, WARPS: tl.constexpr, TURNED: tl.constexpr):
    """TMA brings tiles; threads double them, as they lie or transposed; TMA sends them off."""
    a, b = tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 2), tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 2)
    full = tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            bring(x_desc, a, full)
        with tlx.async_task(num_warps=WARPS):
            for i in range(2):
                tlx.barrier_wait(full[i], 0)
                if TURNED:
                    turned = tlx.local_load(tlx.local_trans(a[i]))
                    tlx.local_store(tlx.local_trans(b[i]), turned + turned)
                else:
                    tile = tlx.local_load(a[i])
                    tlx.local_store(b[i], tile + tile)
                tlx.async_descriptor_store(y_desc, b[i], [i * R, 0])
            tlx.async_descriptor_store_wait(0)


@mimw.jit
def in_boxes(x_desc, y_desc, R: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
    """The same by boxes of H x W, of which the first extent's place is known only when it runs."""
    a, b = tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 1), tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_expect_bytes(full[0], R * C * tlx.size_of(tlx.dtype_of(x_desc)))
            tlx.async_descriptor_load(x_desc, a[0], [0, 0], full[0])
        with tlx.async_task(num_warps=4):
            tlx.barrier_wait(full[0], 0)
            for i in range(R // H):
                for j in tl.static_range(C // W):
                    tile = tlx.local_load(tlx.local_slice(a[0], [i * H, j * W], [H, W]))
                    tlx.local_store(tlx.local_slice(b[0], [i * H, j * W], [H, W]), tile + tile)
            tlx.async_descriptor_store(y_desc, b[0], [0, 0])
            tlx.async_descriptor_store_wait(0)


@mimw.jit
def in_shared_storage(x_desc, y_desc, R: tl.constexpr, C: tl.constexpr):
    """The tiles of both stages stand slot by slot in storage that a third array overlays."""
    space = tlx.storage_alias_spec(storage=tlx.storage_kind.smem)
    a = tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 2, reuse=space)
    b = tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 2, reuse=space)
    other = tlx.local_alloc((64, 64), tl.float32, 2, reuse=space)
    both = tlx.reuse_group(a, b, group_type=tlx.reuse_group_type.distinct)
    space.set_buffer_overlap(tlx.reuse_group(both, other, group_type=tlx.reuse_group_type.shared))
    full = tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            bring(x_desc, a, full)
        with tlx.async_task(num_warps=4):
            for i in range(2):
                tlx.barrier_wait(full[i], 0)
                tile = tlx.local_load(a[i])
                tlx.local_store(b[i], tile + tile)
                tlx.async_descriptor_store(y_desc, b[i], [i * R, 0])
            tlx.async_descriptor_store_wait(0)


@mimw.jit
def by_pointers(x, y_desc, R: tl.constexpr, C: tl.constexpr, N: tl.constexpr):
    """cp.async of the first N rows, and threes behind them, into what TMA sends off."""
    b = tlx.local_alloc((R, C), tlx.dtype_of(y_desc), 2)
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    for i in range(2):
        tlx.async_load(x + i * R * C + at, b[i], mask=i * R + tl.arange(0, R)[:, None] < N, other=3)
        tlx.async_load_commit_group()
        tlx.async_load_wait_group(0)
        tlx.async_descriptor_store(y_desc, b[i], [i * R, 0])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def by_descriptors(x_desc, y_desc, R: tl.constexpr, C: tl.constexpr, ADD: tl.constexpr):
    """Triton's own words: a kernel of `tl` alone."""
    for i in range(2):
        tile = x_desc.load([i * R, 0])
        if ADD:
            y_desc.atomic_add([i * R, 0], tile + tile)
        else:
            y_desc.store([i * R, 0], tile + tile)


@mimw.jit
def by_descriptors_made_here(x, y, R: tl.constexpr, C: tl.constexpr, N):
    x_desc = tl.make_tensor_descriptor(x, [N, C], [C, 1], [R, C])
    y_desc = tl.make_tensor_descriptor(y, [N, C], [C, 1], [R, C])
    for i in range(2):
        y_desc.store([i * R, 0], x_desc.load([i * R, 0]) * 2)


@mimw.jit
def by_blocks_of_a_stack(x_desc, y_desc, R: tl.constexpr, C: tl.constexpr):
    for i in range(2):
        tile = x_desc.load([i, 0, 0])
        y_desc.store([i, 0, 0], tile + tile)


@mimw.jit
def by_copies(x_desc, y_desc, R: tl.constexpr, C: tl.constexpr):
    tile = tle.gpu.alloc([R, C], tlx.dtype_of(x_desc))
    for i in range(2):
        tle.gpu.copy(x_desc, tile, [R, C], [i * R, 0])
        tle.gpu.copy(tile, y_desc, [R, C], [i * R, 0])


@mimw.jit
def picked_by_threads(x, y, R: tl.constexpr, C: tl.constexpr):
    """Rows back to front and front to back again, bytes that follow each other, elements as other ones: of what threads know."""
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    mirrored = tl.zeros((R, C), tl.int32) + (C - 1 - tl.arange(0, C))[None, :]
    tiles = tlx.local_alloc((R, C), tl.float32, 2)
    tlx.local_scatter(tiles[0], tl.load(x + at), mirrored, 1)
    bits = tlx.local_load(tlx.local_reinterpret(tiles[0], tl.int32))
    tlx.local_store(tlx.local_reinterpret(tiles[1], tl.int32), bits)
    tl.store(y + at, tlx.local_gather(tiles[1], mirrored, 1) * 2)
    line, there = tlx.local_alloc((R * C, ), tl.float32, 1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(there[0], R * C * 4)
    tlx.async_load(x + R * C, line[0], bulk=True, bulk_size=R * C * 4, barrier=there[0])
    tlx.barrier_wait(there[0], 0)
    tl.store(y + R * C + tl.arange(0, R * C), tlx.local_load(line[0]) * 2)


@mimw.jit
def seen_as_bits(x_desc, y_desc, R: tl.constexpr, C: tl.constexpr):
    """What TMA brought, as integers that threads double, and that TMA sends off as what they were."""
    tile, there = tlx.local_alloc((R, C), tl.int32, 2), tlx.alloc_barriers(2)
    for i in range(2):
        tlx.barrier_expect_bytes(there[i], R * C * 4)
        tlx.async_descriptor_load(x_desc, tile[i], [i * R, 0], there[i])
        tlx.barrier_wait(there[i], 0)
        seen = tlx.local_reinterpret(tile[i], tl.float32)
        twice = (tlx.local_load(seen).to(tl.int32, bitcast=True) * 2).to(tl.float32, bitcast=True)
        tlx.local_store(seen, twice)
        tlx.async_descriptor_store(y_desc, tile[i], [i * R, 0])
    tlx.async_descriptor_store_wait(0)


def launch(name, rows, columns, type_=np.float16, **meta):
    """(kernel, arguments, compile-time values, y, what y becomes)."""
    kernel = CASES[name]
    x = np.random.default_rng(rows + columns).integers(-9, 9, (2 * rows, columns)).astype(type_)
    y, block, want = np.zeros_like(x), [rows, columns], x + x
    meta = dict(R=rows, C=columns) | meta
    described = TensorDescriptor.from_tensor(x, block), TensorDescriptor.from_tensor(y, block)
    if name == "by pointers":
        want = np.where(np.arange(2 * rows)[:, None] < meta["N"], x, 3).astype(type_)
        return kernel, (x, described[1]), meta, y, want
    if name == "picked":
        return kernel, (x, y), meta, y, want
    if name == "made here":
        want = np.where(np.arange(2 * rows)[:, None] < meta["N"], want, 0).astype(type_)
        return kernel, (x, y), meta, y, want
    if name == "a stack":
        x, y, want = (array.reshape(2, rows, columns) for array in (x, y, want))
        return kernel, tuple(TensorDescriptor.from_tensor(array, [1, *block]) for array in (x, y)), meta, y, want
    if name == "in boxes":
        want[rows:] = 0
    return kernel, described, meta, y, x if name == "copies" else want


CASES = {"read and written": doubled, "in boxes": in_boxes, "shared storage": in_shared_storage, "by pointers": by_pointers,
         "descriptors": by_descriptors, "made here": by_descriptors_made_here, "a stack": by_blocks_of_a_stack, "copies": by_copies,
         "picked": picked_by_threads, "bits": seen_as_bits}
