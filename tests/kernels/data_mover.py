"""Kernels that copy by AMD's tensor data mover, and what numpy makes of two of them.

Shapes: blocks (BM, BN), one program; of `ringed` x (BM, n BN) and y (2 BM, BN), of `slotted` n groups of `rows` rows; of
`multiplied` x (M, K), w (N, K), y (M, N). Mistakes: the switches of `ringed`, as `rings(PENDING=2)` sets them, make a wait too
weak, fill a slot too early, or leave out one of the waits for a store; all else is right.
"""

from __future__ import annotations

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def copied(x, y, M, N, row, column, BM: tl.constexpr, BN: tl.constexpr, CLAMP: tl.constexpr):
    """One block from (row, column) on, and back to the same place of `y`, by descriptors that the kernel makes."""
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])
    tile = tlx.local_alloc((BM, BN), tlx.dtype_of(x), 1)
    tlx.amd_descriptor_prefetch_tensor(source, [row, column])
    token = tlx.async_amd_descriptor_load(source, tile[0], [row, column], clamp_bounds=CLAMP)
    tlx.async_amd_descriptor_wait(tokens=[token])
    tlx.local_store(tile[0], tlx.local_load(tile[0]) + 1)
    tlx.async_amd_descriptor_store(target, tile[0], [row, column], clamp_bounds=CLAMP)
    tlx.async_amd_descriptor_wait(0)


def copied_back(x, row, column, bm, bn):
    """What `copied` leaves in `y`, which was 0."""
    y = np.zeros_like(x)
    if row >= 0 and column >= 0:
        y[row:row + bm, column:column + bn] = x[row:row + bm, column:column + bn] + 1
    return y


@mimw.jit
def ringed(x_desc, y_desc, n, BM: tl.constexpr, BN: tl.constexpr, PENDING: tl.constexpr = 1, EARLY: tl.constexpr = False,
           FINISH: tl.constexpr = True, AGAIN: tl.constexpr = True):
    """The sum of n blocks of a row, by two slots: a block is on its way while the one before is added."""
    tiles, total = tlx.local_alloc((BM, BN), tl.float16, 2), tlx.local_alloc((BM, BN), tl.float16, 1)
    acc = tl.zeros((BM, BN), tl.float32)
    place = tlx.update_tensor_descriptor(x_desc, add_offsets=[0, 0])
    tlx.async_amd_descriptor_load(place, tiles[0])
    for i in range(n):
        place = tlx.update_tensor_descriptor(place, add_offsets=[0, BN], clamp_bounds=True)
        if EARLY:
            tlx.async_amd_descriptor_load(place, tiles[i % 2])
        else:
            tlx.async_amd_descriptor_load(place, tiles[(i + 1) % 2])
        tlx.async_amd_descriptor_wait(PENDING)
        acc += tlx.local_load(tiles[i % 2])
    tlx.async_amd_descriptor_wait(0)
    tlx.local_store(total[0], acc.to(tl.float16))
    tlx.async_amd_descriptor_store(y_desc, total[0], [0, 0])
    if AGAIN:
        tlx.async_amd_descriptor_wait(0)
    tlx.local_store(total[0], acc.to(tl.float16) + 1)
    tlx.async_amd_descriptor_store(y_desc, total[0], [BM, 0])
    if FINISH:
        tlx.async_amd_descriptor_wait(0)


def rings(n=4, bm=16, bn=32, **switches):
    """(kernel, grid, args, meta) of a launch of `ringed`."""
    x = (np.arange(bm * n * bn) % 7).astype(np.float16).reshape(bm, n * bn)
    y = np.zeros((2 * bm, bn), np.float16)
    described = (mimw.TensorDescriptor.from_tensor(one, [bm, bn]) for one in (x, y))
    return ringed, (1, ), (*described, n, bm, bn), dict(switches, target="gfx1250")


def ring_sums(args):
    """What `ringed` leaves in y."""
    x_desc, _, n, bm, bn = args
    total = x_desc.base.array.reshape(bm, n, bn).sum(1)
    return np.concatenate([total, total + 1])


@mimw.jit
def fused(x, y, z, on, BM: tl.constexpr, BN: tl.constexpr):
    """Two blocks by one copy, the second only if `on`; their sum goes to z."""
    one = tl.make_tensor_descriptor(x, [BM, BN], [BN, 1], [BM, BN])
    other = tlx.update_tensor_descriptor(tl.make_tensor_descriptor(y, [BM, BN], [BN, 1], [BM, BN]), pred=on)
    tiles = tlx.local_alloc((BM, BN), tl.float16, 2)
    tlx.local_store(tiles[1], tl.zeros((BM, BN), tl.float16))
    token = tlx.async_amd_descriptor_load_fused([(one, tiles[0], 0b0011), (other, tiles[1], 0b1100)], cache_modifier=".cg")
    tlx.async_amd_descriptor_wait(tokens=token)
    total = tlx.local_load(tiles[0]) + tlx.local_load(tiles[1])
    tl.store(z + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], total)


@mimw.jit
def slotted(x, y, rows, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Group g of n has rows - g rows: its descriptor is made in a slot, and read there."""
    slots = tlx.allocate_tensor_descriptor(2)
    tile = tlx.local_alloc((ROWS, COLS), tl.float16, 1)
    out = tlx.make_tensor_descriptor(None, y, [n * ROWS, COLS], [COLS, 1], [ROWS, COLS])
    for g in range(n):
        tlx.make_tensor_descriptor(slots[g % 2], x + g * rows * COLS, [rows - g, COLS], [COLS, 1], [ROWS, COLS])
        desc = tlx.reinterpret_tensor_descriptor(slots[g % 2], [ROWS, COLS], tl.float16)
        tlx.async_amd_descriptor_load(desc, tile[0], [0, 0])
        tlx.async_amd_descriptor_wait(0)
        tlx.async_amd_descriptor_store(out, tile[0], [g * ROWS, 0])
        tlx.async_amd_descriptor_wait(0)


@mimw.jit
def multiplied(x, w, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, B: tl.constexpr, LAYOUT: tl.constexpr):
    """y = x w^T by rings of two slots: the operands of a chunk are on their way while the chunk before is multiplied."""
    x_desc = tl.make_tensor_descriptor(x, [M, K], [K, 1], [M, B])
    w_desc = tl.make_tensor_descriptor(w, [N, K], [K, 1], [N, B])
    a, b = tlx.local_alloc((M, B), tl.float16, 2, layout=LAYOUT), tlx.local_alloc((N, B), tl.float16, 2, layout=LAYOUT)
    acc = tl.zeros((M, N), tl.float32)
    for s in tl.static_range(2):
        tlx.async_amd_descriptor_load(x_desc, a[s], [0, s * B])
        tlx.async_amd_descriptor_load(w_desc, b[s], [0, s * B])
    for k in range(K // B):
        tlx.async_amd_descriptor_wait(2)
        acc = tl.dot(tlx.local_load(a[k % 2]), tlx.local_load(tlx.local_trans(b[k % 2])), acc)
        tlx.async_amd_descriptor_load(x_desc, a[k % 2], [0, (k + 2) * B])
        tlx.async_amd_descriptor_load(w_desc, b[k % 2], [0, (k + 2) * B])
    tlx.async_amd_descriptor_wait(0)
    tl.store(y + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)


@mimw.jit
def by_methods(x_desc, y, row, BM: tl.constexpr, BN: tl.constexpr):
    """Triton's own accesses by descriptors beside a word of ours."""
    tlx.fence("gpu")
    target = tl.make_tensor_descriptor(y, [BM, BN], [BN, 1], [BM, BN])
    target.store([0, 0], x_desc.load([row, 0]) * 2)
