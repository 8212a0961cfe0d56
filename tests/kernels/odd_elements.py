"""Kernels that pick elements of buffers in pieces, or store into them under a mask: a block comes by TMA, threads change some of
it, and it leaves by TMA.

Shapes: x and y R x C, one program. Each kernel is right.

Input: the case, extents and an element type. Output: what `mimw.simulate` takes, y and what it becomes. For example:

    kernel, args, meta, y, want = launch("tail", 176, 64)
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw import TensorDescriptor


@mimw.jit
def _loaded(x_desc, R: tl.constexpr, C: tl.constexpr):
    """A buffer with all of X, by TMA."""
    tile, full = tle.gpu.alloc([R, C], tlx.dtype_of(x_desc)), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], R * C * tlx.size_of(tlx.dtype_of(x_desc)))
    tlx.async_descriptor_load(x_desc, tile, [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    return tile


@mimw.jit
def _stored(y_desc, tile):
    """All of Y, by TMA, of a buffer that threads wrote."""
    tlx.fence("async_shared")
    tlx.async_descriptor_store(y_desc, tile, [0, 0])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def _tail(x_desc, y_desc, n, R: tl.constexpr, C: tl.constexpr):
    """Rows from n on become zeros, as attention clears values behind its last key."""
    tile = _loaded(x_desc, R, C)
    rows = tl.arange(0, R)[:, None] + tl.zeros((R, C), tl.int32)
    tl.store(tle.gpu.local_ptr(tile), tl.zeros((R, C), tlx.dtype_of(x_desc)), mask=rows >= n)
    _stored(y_desc, tile)


@mimw.jit
def _spots(x_desc, y_desc, n, R: tl.constexpr, C: tl.constexpr):
    """A mask that no two neighbours share, and values that differ."""
    tile = _loaded(x_desc, R, C)
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(tle.gpu.local_ptr(tile), (at % 101).to(tlx.dtype_of(x_desc)), mask=at % n == 0)
    _stored(y_desc, tile)


@mimw.jit
def _picked(x_desc, y_desc, n, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, TURNED: tl.constexpr):
    """Each row turned by its number, or each column; by a scatter back into the second of two slots."""
    tiles, full = tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 2), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], R * C * tlx.size_of(tlx.dtype_of(x_desc)))
    tlx.async_descriptor_load(x_desc, tiles[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    rows = tl.arange(0, R)[:, None] + tl.zeros((R, C), tl.int32)
    columns = tl.arange(0, C)[None, :] + tl.zeros((R, C), tl.int32)
    there = (rows + columns) % C if AXIS == 1 else (rows + columns) % R
    if TURNED:
        picked = tl.trans(tlx.local_gather(tlx.local_trans(tiles[0]), tl.trans(there), 1 - AXIS))
    else:
        picked = tlx.local_gather(tiles[0], there, AXIS)
    tlx.local_scatter(tiles[n], picked, columns if AXIS == 1 else rows, AXIS)
    _stored(y_desc, tiles[n])


@mimw.jit
def _pointers(x_desc, y_desc, n, R: tl.constexpr, C: tl.constexpr):
    """Single elements by pointers: the last n rows of a column, loaded, doubled and stored, under masks."""
    tile = _loaded(x_desc, R, C)
    rows = tl.arange(0, R)
    there = tle.gpu.local_ptr(tile, (rows, rows % C))
    value = tl.load(there, mask=rows >= n, other=0)
    tl.store(there, value + value, mask=rows >= n)
    _stored(y_desc, tile)


@mimw.jit
def _counted(x_desc, y_desc, n, R: tl.constexpr, C: tl.constexpr):
    """Atomic additions to single elements, which give what was there; and a swap where a number is found."""
    tile = _loaded(x_desc, R, C)
    rows = tl.arange(0, R)
    before = tl.atomic_add(tle.gpu.local_ptr(tile, (rows, rows * 0)), rows, mask=rows < n)
    tl.store(tle.gpu.local_ptr(tile, (rows, rows * 0 + 1)), before, mask=rows < n)
    swapped = tl.atomic_cas(tle.gpu.local_ptr(tile, (rows, rows * 0 + 2)), tl.full((R, ), 1, tl.int32), rows + 100)
    tl.store(tle.gpu.local_ptr(tile, (rows, rows * 0 + 3)), swapped)
    _stored(y_desc, tile)


def _wanted(case: str, x, n, meta):
    rows, columns = np.indices(x.shape)
    want = x.copy()
    if case == "tail":
        want[n:] = 0
    elif case == "spots":
        at = rows * x.shape[1] + columns
        want = np.where(at % n == 0, (at % 101).astype(x.dtype), x)
    elif case == "picked":
        turned = rows + columns
        want = x[rows, turned % x.shape[1]] if meta["AXIS"] else x[turned % x.shape[0], columns]
    elif case == "pointers":
        line = np.arange(n, len(x))
        want[line, line % x.shape[1]] *= 2
    else:
        line = np.arange(len(x))
        want[:n, 1] = x[:n, 0]
        want[:n, 0] += line[:n]
        want[:, 3] = x[:, 2]
        want[:, 2] = np.where(x[:, 2] == 1, line + 100, x[:, 2])
    return want


KERNELS = {"tail": (_tail, 50), "spots": (_spots, 3), "picked": (_picked, 1), "pointers": (_pointers, 7), "counted": (_counted, 30)}


def launch(case: str, rows: int, columns: int, element=np.float16, **meta):
    """(kernel, arguments, compile-time values, y, what y becomes)."""
    kernel, n = KERNELS[case]
    x = np.random.default_rng(rows).integers(0, 4, (rows, columns)).astype(element)
    y = np.zeros_like(x)
    describe = [TensorDescriptor.from_tensor(array, [rows, columns]) for array in (x, y)]
    return kernel, (*describe, n), dict(R=rows, C=columns, **meta), y, _wanted(case, x, n, meta)
