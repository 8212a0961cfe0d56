"""local_gather and local_scatter along every axis of rank 1, 2 and 3, on one warp and on several."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def positions(SHAPE: tl.constexpr):
    """The row-major position of each element of a tile of SHAPE (padded with ones to rank 3)."""
    A: tl.constexpr = SHAPE[0]
    B: tl.constexpr = SHAPE[1]
    C: tl.constexpr = SHAPE[2]
    return (tl.arange(0, A)[:, None, None] * B + tl.arange(0, B)[None, :, None]) * C + tl.arange(0, C)[None, None, :]


@mimw.jit
def gather(x, indices, y, SHAPE: tl.constexpr, PICKS: tl.constexpr, RANK: tl.constexpr, AXIS: tl.constexpr):
    rows: tl.constexpr = SHAPE[3 - RANK:]
    picks: tl.constexpr = PICKS[3 - RANK:]
    buffer = tlx.local_alloc(rows, tlx.dtype_of(x), 2)
    at, to = positions(SHAPE), positions(PICKS)
    tlx.local_store(buffer[1], tl.reshape(tl.load(x + at), rows))
    picked = tl.reshape(tl.load(indices + to), picks)
    tl.store(y + to, tl.reshape(tlx.local_gather(buffer[1], picked, AXIS), PICKS))


@mimw.jit
def scatter(x, indices, y, SHAPE: tl.constexpr, PICKS: tl.constexpr, RANK: tl.constexpr, AXIS: tl.constexpr):
    rows: tl.constexpr = SHAPE[3 - RANK:]
    picks: tl.constexpr = PICKS[3 - RANK:]
    buffer = tlx.local_alloc(rows, tlx.dtype_of(x), 1)
    at, to = positions(SHAPE), positions(PICKS)
    tlx.local_store(buffer[0], tlx.zeros(rows, tlx.dtype_of(x)))
    picked = tl.reshape(tl.load(indices + to), picks)
    tlx.local_scatter(buffer[0], tl.reshape(tl.load(x + to), picks), picked, AXIS)
    tl.store(y + at, tl.reshape(tlx.local_load(buffer[0]), SHAPE))


CASES = [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
SHAPES = {1: ((1, 1, 128), (1, 1, 64)), 2: ((1, 32, 16), (1, 32, 16)), 3: ((4, 8, 16), (4, 8, 16))}


def numpy_index(picked, axis):
    where = list(np.ogrid[tuple(slice(extent) for extent in picked.shape)])
    where[axis] = picked
    return tuple(where)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("rank, axis", CASES)
def test_gather(machine, rank, axis, dtype, warps):
    shape, picks = SHAPES[rank]
    x = np.arange(np.prod(shape)).astype(dtype).reshape(shape[3 - rank:])
    picked = np.random.default_rng(0).integers(0, x.shape[axis], picks[3 - rank:], np.int32)
    y = np.zeros(picked.shape, dtype)
    machine.launch(gather, (1, ), x, picked, y, shape, picks, rank, axis, num_warps=warps)
    assert (y == x[numpy_index(picked, axis)]).all()


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("rank, axis", CASES)
def test_scatter(machine, rank, axis, warps):
    shape, picks = SHAPES[rank]
    random = np.random.default_rng(1)
    x = np.arange(1, np.prod(picks) + 1, dtype=np.float32).reshape(picks[3 - rank:])
    y, expected = np.full(shape[3 - rank:], -1, np.float32), np.zeros(shape[3 - rank:], np.float32)
    order = random.permuted(np.broadcast_to(np.expand_dims(np.arange(y.shape[axis]), tuple(
        other for other in range(rank) if other != axis)), y.shape), axis=axis)
    picked = np.ascontiguousarray(order[tuple(slice(extent) for extent in x.shape)], np.int64)
    machine.launch(scatter, (1, ), x, picked, y, shape, picks, rank, axis, num_warps=warps)
    expected[numpy_index(picked, axis)] = x
    assert (y == expected).all()


def test_gather_in_ttgir():
    compiled = compile_kernel(gather, {"x": "*fp16", "indices": "*i32", "y": "*fp16"}, dict(
        SHAPE=(1, 32, 16), PICKS=(1, 32, 16), RANK=2, AXIS=0), "sm_90a")
    assert "ttg.local_gather" in compiled.stages["ttgir"] and compiled.stages["cubin"]


def test_gather_out_of_range_is_refused_by_the_simulator():
    x, picked, y = np.zeros(128, np.float32), np.full(64, 128, np.int32), np.zeros(64, np.float32)
    with pytest.raises(mimw.errors.OutOfBounds, match="index 128 at .0,. is outside the 128 elements"):
        mimw.simulate(gather, (1, ), x, picked, y, (1, 1, 128), (1, 1, 64), 1, 0)
