"""Tiles of register tensors: every form of index, every refusal, values on both machines."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.compiler.frontend.words import uses_words
from tests.compiling import to_assembly
from tests.language.harness import Kernel


@mimw.jit
def extract(x_ptr, y_ptr, row, column, M: tl.constexpr, N: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, FORM: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    if FORM == "coordinates":
        tile = tle.extract_tile(x, [1, 2], [TM, TN])
    elif FORM == "linear":
        tile = x.extract_tile(1 * (N // TN) + 2, (TM, TN))
    elif FORM == "run time":
        tile = tle.extract_tile(x, row * (N // TN) + column, tile_shape=[TM, TN])
    else:
        tile = x.extract_tile((row, 2), shape=(TM, TN))
    tl.store(y_ptr + tl.arange(0, TM)[:, None] * TN + tl.arange(0, TN)[None, :], tile)


FORMS = ["coordinates", "linear", "run time", "mixed"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype, tile", [(np.float32, (8, 16)), (np.float16, (1, 8)), (np.int8, (16, 4)), (np.int64, (8, 1))])
def test_extract(machine, form, dtype, tile):
    (tm, tn), x = tile, (np.arange(32 * 64) % 119).astype(dtype).reshape(32, 64)
    y = np.zeros(tile, dtype)
    machine.launch(extract, (1, ), x, y, 1, 2, 32, 64, tm, tn, form)
    assert (y == x[tm:2 * tm, 2 * tn:3 * tn]).all()


@mimw.jit
def insert(x_ptr, t_ptr, y_ptr, row, column, M: tl.constexpr, N: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr,
           FORM: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tile = tl.load(t_ptr + tl.arange(0, TM)[:, None] * TN + tl.arange(0, TN)[None, :])
    if FORM == "coordinates":
        y = tle.insert_tile(x, tile, [1, 2])
    elif FORM == "linear":
        y = x.insert_tile(tile, 1 * (N // TN) + 2)
    elif FORM == "run time":
        y = x.insert_tile(tile, index=row * (N // TN) + column)
    else:
        y = x.insert_tile(tile, [1, column])
    tl.store(y_ptr + at, y)
    tl.store(y_ptr + M * N + at, x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype, tile", [(np.float32, (8, 16)), (np.float16, (1, 8)), (np.int64, (8, 1))])
def test_insert(machine, form, dtype, tile):
    (tm, tn), x = tile, (np.arange(32 * 64) % 119).astype(dtype).reshape(32, 64)
    t, y = -np.arange(1, tm * tn + 1).astype(dtype).reshape(tile), np.zeros((2, 32, 64), dtype)
    machine.launch(insert, (1, ), x, t, y, 1, 2, 32, 64, tm, tn, form)
    expected = x.copy()
    expected[tm:2 * tm, 2 * tn:3 * tn] = t
    assert (y[0] == expected).all() and (y[1] == x).all()


@mimw.jit
def rotate(x_ptr, y_ptr, N: tl.constexpr, T: tl.constexpr):
    """Tiles of a vector, in a loop, by a tile number of 64 bits; booleans, and the whole as its only tile."""
    x = tl.load(x_ptr + tl.arange(0, N))
    y = x.extract_tile([0], [N]).insert_tile(x, 0)
    for number in range(0, N // T):
        at = (number + tl.program_id(0) + 1).to(tl.int64) % (N // T)
        odd = (x % 2 == 1).extract_tile(at, [T])
        y = y.insert_tile(tl.where(odd, -x.extract_tile(at, [T]), x.extract_tile(at, [T])), [number])
    tl.store(y_ptr + tl.arange(0, N), y)


def test_in_a_loop(machine):
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    machine.launch(rotate, (1, ), x, y, 64, 16)
    assert (y == np.roll(np.where(x % 2 == 1, -x, x), -16)).all()


def test_a_method_alone_makes_a_kernel_ours():

    @mimw.jit
    def only_method(x_ptr, N: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, N))
        tl.store(x_ptr + tl.arange(0, N // 2), x.extract_tile(1, [N // 2]))

    assert uses_words(only_method)


@pytest.mark.parametrize("index, shape, text", [
    ([0], [8, 8], "has 1 coordinates, the grid has 2 axes"),
    ([0, 0], [8], "the tile has rank 1, the source"),
    ([0, 0], [8, 0], "each extent of the tile must be a positive compile-time int, got 0"),
    ([0, 0], [8, 12], "along axis 1 the tile's extent 12 does not divide the source's 32"),
    ([0, 4], [8, 8], "tile 4 is outside the grid, which has the numbers 0 to 3 there"),
    ([-1, 0], [8, 8], "tile -1 is outside the grid"),
    (8, [8, 8], "tile 8 is outside the grid, which has the numbers 0 to 7 there"),
    (-1, [8, 8], "tile -1 is outside"),
    (1.0, [8, 8], "an index must be an int or an integer scalar"),
    (True, [8, 8], "an index must be an int or an integer scalar"),
    (0, 8.0, "must be a list or tuple of ints"),
])
def test_extract_refusals(index, shape, text):
    kernel = Kernel()
    x = kernel.tensor("x", tl.float32, 16, 32)
    with pytest.raises(ValueError, match=text):
        kernel(tle.extract_tile, x, index, shape)


def test_extract_wants_a_block_an_integer_scalar_and_one_shape():
    kernel = Kernel()
    x, f = kernel.tensor("x", tl.float32, 16, 32), kernel.tensor("f", tl.float32)
    for args, keywords, text in [((f, 0, [8]), {}, "must be a block tensor"), ((3, 0, [8]), {}, "must be a block tensor"),
                                 ((x, f, [8, 8]), {}, "an integer scalar"), ((x, x, [8, 8]), {}, "an integer scalar"),
                                 ((x, 0), {}, "give the tile's shape once"),
                                 ((x, 0), dict(shape=[8, 8], tile_shape=[8, 8]), "give the tile's shape once"),
                                 ((x, 0, [8, kernel.tensor("n", tl.int32)]), {}, "must be a constexpr")]:
        with pytest.raises(ValueError, match=text):
            kernel(tle.extract_tile, *args, **keywords)


def test_insert_refusals():
    kernel = Kernel()
    x = kernel.tensor("x", tl.float32, 16, 32)
    for tile, index, text in [(kernel.tensor("h", tl.float16, 8, 8), 0, "the tile holds fp16, the target fp32"),
                              (kernel.tensor("r", tl.float32, 8), 0, "the tile has rank 1"),
                              (kernel.tensor("f", tl.float32), 0, "`tile` must be a block tensor"),
                              (kernel.tensor("t", tl.float32, 8, 8), [2, 0], "tile 2 is outside the grid"),
                              (kernel.tensor("b", tl.float32, 32, 8), 0, "extent 32 does not divide the source's 16")]:
        with pytest.raises(ValueError, match=text):
            kernel(tle.insert_tile, x, tile, index)


def test_a_known_tile_needs_no_gather():
    kernel = Kernel()
    kernel(tle.extract_tile, kernel.tensor("x", tl.float32, 16, 32), [1, 1], [8, 8])
    names = [op.name for op in kernel.program().body.ops]
    assert "gather" not in names and names.count("split") == 3


@pytest.mark.parametrize("form", FORMS)
def test_one_way_through_shared_memory(form):
    ptx = to_assembly(
        extract, {"x_ptr": "*fp16", "y_ptr": "*fp16", "row": "i32", "column": "i32"},
        dict(M=32, N=64, TM=8, TN=16, FORM=form)).stage("ptx")
    assert ptx.count("bar.sync") == 1


@mimw.jit
def shared(x_ptr, t_ptr, y_ptr, row, column, M: tl.constexpr, N: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr,
           SLOT: tl.constexpr):
    """Tiles of a buffer, whole and as a slot of a larger one: read, written in place, chained."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    if SLOT:
        buffer = tle.gpu.alloc([3, M, N], tl.float32).slot(1)
    else:
        buffer = tle.gpu.alloc([M, N], tl.float32)
    tl.store(tle.gpu.local_ptr(buffer), tl.load(x_ptr + at))
    tile = buffer.extract_tile([row, column], [TM, TN])
    known = tle.extract_tile(buffer, 0, [TM, TN])
    buffer = buffer.insert_tile(tile + known, row * (N // TN) + column)
    buffer = tle.insert_tile(buffer, -known, [0, 0])
    tl.store(t_ptr + tl.arange(0, TM)[:, None] * TN + tl.arange(0, TN)[None, :], tile)
    tl.store(y_ptr + at, tl.load(tle.gpu.local_ptr(buffer)))


@pytest.mark.parametrize("slot", [False, True])
@pytest.mark.parametrize("tile", [(8, 16), (1, 64), (4, 4)])
def test_shared(machine, tile, slot):
    (tm, tn), x = tile, np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    t, y = np.zeros(tile, np.float32), np.zeros_like(x)
    row, column = (1, 2) if tn < 64 else (1, 0)
    machine.launch(shared, (1, ), x, t, y, row, column, 32, 64, tm, tn, slot)
    there, first, expected = np.s_[row * tm:(row + 1) * tm, column * tn:(column + 1) * tn], np.s_[:tm, :tn], x.copy()
    expected[there] += x[first]
    expected[first] = -x[first]
    assert (t == x[there]).all() and (y == expected).all()


def test_shared_refusals():
    kernel = Kernel()
    buffer = kernel(tle.gpu.alloc, [16, 32], tl.float32)
    narrow = kernel.tensor("t", tl.float16, 8, 8)
    for call, text in [((tle.extract_tile, buffer, 0, [8, 12]), "does not divide"),
                       ((tle.extract_tile, buffer, 9, [8, 8]), "outside the grid"),
                       ((tle.insert_tile, buffer, narrow, 0), "the tile holds fp16, the target fp32")]:
        with pytest.raises(ValueError, match=text):
            kernel(*call)
