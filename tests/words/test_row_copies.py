"""Rows gathered and scattered by TMA against numpy: random, repeated and outside row numbers, dtypes, rows of 32 bytes to 4 KB."""

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.kernels.row_copies import by_registers, gathered_from, moved, moved_by_tasks, own_descriptors

describe = mimw.TensorDescriptor.from_tensor
DTYPES = {"int8": np.int8, "fp8": ml_dtypes.float8_e5m2, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32,
          "int32": np.int32}


def numbers(rng, shape, dtype):
    """Random bytes that are numbers in any dtype."""
    return rng.integers(-60, 60, shape).astype(np.float32).astype(dtype)


def picked(x, rows, column, width):
    """x[rows, column:column + width], zeros outside."""
    found = np.zeros((len(rows), width), x.dtype)
    for index, row in enumerate(rows):
        if 0 <= row < len(x):
            part = x[row, max(column, 0):max(column + width, 0)]
            found[index, max(-column, 0):][:len(part)] = part
    return found


def placed(y, tile, rows, column):
    """`y` after its rows got those of the tile; what is outside is left out."""
    for index, row in enumerate(rows):
        if row < len(y):
            part = y[row, column:column + tile.shape[1]]
            part[...] = tile[index, :part.shape[0]]
    return y


def case(dtype, rows, width, seed=0, tiles=1, slack=1.3):
    """(x, y, from, to): wild row numbers to read, each at most once to write, some behind the end."""
    rng, count = np.random.default_rng(seed), rows * tiles
    x, y = numbers(rng, (3 * rows, 2 * width), dtype), numbers(rng, (2 * count, 2 * width), dtype)
    source = rng.integers(-rows, 4 * rows, count).astype(np.int32)
    source[:3] = -1, np.iinfo(np.int32).min, np.iinfo(np.int32).max
    source[4] = source[5]
    target = rng.permutation(int(2 * count * slack))[:count].astype(np.int32)
    return x, y, source, target


def run_moved(machine, x, y, source, target, column, rows, width, **meta):
    expected = placed(y.copy(), picked(x, source, column, width), target, column)
    machine.launch(moved, (len(source) // rows, ), describe(x, [1, width]), describe(y, [1, width]), source, target, column,
                   BX=rows, BY=width, **meta)
    assert (y.view(np.uint8) == expected.view(np.uint8)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(machine, dtype):
    width = 128 // np.dtype(DTYPES[dtype]).itemsize
    run_moved(machine, *case(DTYPES[dtype], 64, width), 16, 64, width)


@pytest.mark.parametrize("row_bytes, rows", [(32, 128), (64, 64), (128, 128), (256, 32), (512, 16), (1024, 16), (2048, 8),
                                             (4096, 8)])
def test_widths(machine, row_bytes, rows):
    run_moved(machine, *case(np.float16, rows, row_bytes // 2), row_bytes // 4, rows, row_bytes // 2)


@pytest.mark.long(everywhere=["128-256-2", "32-8-1", "64-16-8"])
@pytest.mark.parametrize("warps", [1, 2, 8])
@pytest.mark.parametrize("rows", [8, 16, 256])
@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_more_rows_than_threads_and_fewer(machine, row_bytes, rows, warps):
    run_moved(machine, *case(np.int32, rows, row_bytes // 4, warps), 4, rows, row_bytes // 4, num_warps=warps)


@pytest.mark.parametrize("column", [0, 8, 64, 96, 120, 128])
def test_columns_up_to_the_edge_and_behind(machine, column):
    run_moved(machine, *case(np.float16, 16, 64), column, 16, 64)


@pytest.mark.parametrize("column", [-8, -64, -80])
def test_columns_before_the_first_read_zeros(machine, column):
    x, y, source, target = case(np.float16, 16, 64)
    expected = placed(y.copy(), picked(x, source, column, 64), target, 0)
    machine.launch(gathered_from, (1, ), describe(x, [1, 64]), describe(y, [1, 64]), source, target, column, 16, 64)
    assert (y == expected).all()


@pytest.mark.parametrize("row_bytes, rows", [(32, 64), (64, 64), (128, 128), (512, 32)])
def test_by_tasks_through_a_ring(machine, row_bytes, rows):
    tiles, width = 9, row_bytes // 2
    x, y, source, target = case(np.float16, rows, width, tiles=tiles)
    expected = placed(y.copy(), picked(x, source, 16, width), target, 16)
    machine.launch(moved_by_tasks, (2, ), describe(x, [1, width]), describe(y, [1, width]), source, target, 16, tiles, rows, width,
                   3)
    assert (y == expected).all()


@pytest.mark.gpu
@pytest.mark.parametrize("row_bytes, rows", [(32, 128), (64, 64), (128, 128), (256, 64), (1024, 32), (4096, 8)])
def test_a_long_random_run(row_bytes, rows):
    """Five launches of 4000 tiles each, all bytes compared; on the GPU only."""
    from mimw.testing.machines import Gpu
    width, tiles = row_bytes // 2, 4000
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.integers(-2**15, 2**15, (20011, width)).astype(np.int16)
        source = rng.integers(-2000, 23000, tiles * rows).astype(np.int32)
        target = rng.permutation(tiles * rows + 999)[:tiles * rows].astype(np.int32)
        y = np.zeros((tiles * rows, width), np.int16)
        inside = (source >= 0) & (source < len(x))
        wanted, kept = np.where(inside[:, None], x[np.where(inside, source, 0)], 0), target < len(y)
        expected = np.zeros_like(y)
        expected[target[kept]] = wanted[kept]
        Gpu().launch(moved_by_tasks, (132, ), describe(x, [1, width]), describe(y, [1, width]), source, target, 0, tiles, rows,
                     width, 4)
        assert (y == expected).all(), f"seed {seed}"


@pytest.mark.parametrize("slot", [False, True])
@pytest.mark.parametrize("width", [32, 64, 256])
def test_descriptors_made_in_the_kernel(machine, slot, width):
    rng = np.random.default_rng(1)
    x, y = numbers(rng, (32, 256), np.float16), np.zeros((32, 256), np.float16)
    source, target = rng.integers(-4, 36, 16).astype(np.int32), rng.permutation(32)[:16].astype(np.int32)
    expected = placed(y.copy(), picked(x, source, 0, width), target, 0)
    machine.launch(own_descriptors, (1, ), x, y, source, target, 32, 256, 16, width, slot)
    assert (y == expected).all()


@pytest.mark.parametrize("row_bytes", [32, 128, 512])
def test_the_register_form(machine, row_bytes):
    width = row_bytes // 4
    x, y, source, target = case(np.float32, 32, width)
    expected = placed(y.copy(), 2 * picked(x, source, 8, width), target, 8)
    machine.launch(by_registers, (1, ), describe(x, [1, width]), describe(y, [1, width]), source, target, 8, 32)
    assert (y == expected).all()


@mimw.jit
def by_tritons_words(x_desc, y_desc, from_ptr, to_ptr, column, BX: tl.constexpr):
    at = tl.arange(0, BX)
    y_desc.scatter(x_desc.gather(tl.load(from_ptr + at), column), tl.load(to_ptr + at), column)


def by_tritons_words_launch():
    x, y, source, target = case(np.float32, 8, 32)
    return x, y, source, target, (by_tritons_words, (1, ), describe(x, [1, 32]), describe(y, [1, 32]), source, target, 8, 8)


def test_by_tritons_words_alone(machine):
    x, y, source, target, (kernel, grid, *args) = by_tritons_words_launch()
    expected = placed(y.copy(), picked(x, source, 8, 32), target, 8)
    machine.launch(kernel, grid, *args)
    assert (y == expected).all()


@pytest.mark.parametrize("chip, ours", [("sm_90a", True), ("sm_120a", True), ("sm_100a", False)])
def test_by_tritons_words_they_compile_where_there_are_no_copies_of_four_rows(chip, ours):
    """ptxas refuses Triton's own code of them but for sm_100a and its family."""
    compiled = mimw.compile(*by_tritons_words_launch()[-1], target=chip)
    assert ("gather4" in compiled.ptx) is not ours and compiled.cubin and (compiled.program is None) is not ours


def test_by_tritons_words_every_tool_and_a_warmup_take_them(monkeypatch):
    monkeypatch.setenv("MIMW_NO_GPU", "1")
    *_, launch = by_tritons_words_launch()
    kernel, grid, *args = launch
    assert mimw.check(*launch, seeds=1, rounds=False).ok
    assert "1032 bytes" in str(mimw.explain(*launch, target="sm_90a"))
    assert kernel.warmup(*args, grid=grid).asm["cubin"] == kernel.warmup(*args, grid=grid).asm["cubin"]


def test_by_tritons_words_copies_row_by_row_are_about_one_cta():
    with pytest.raises(triton.CompilationError, match="desc|descriptor_gather.*is about one CTA"):
        mimw.compile(*by_tritons_words_launch()[-1], target="sm_90a", num_ctas=2)


@mimw.jit
def some(x_desc, y_ptr, from_ptr, column, wanted, BX: tl.constexpr, BY: tl.constexpr):
    """A gather with a predicate."""
    tile = tlx.local_alloc((BX, BY), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, BX)[:, None] * BY + tl.arange(0, BY)[None, :]
    tlx.local_store(tile[0], tl.full((BX, BY), 7, tl.float16))
    tlx.fence("async_shared")
    rows = tl.load(from_ptr + tl.arange(0, BX))
    tlx.barrier_expect_bytes(full[0], BX * BY * 2, pred=wanted > 0)
    tlx.async_descriptor_gather(x_desc, tile[0], rows, column, full[0], pred=wanted > 0)
    tlx.barrier_wait(full[0], 0, pred=wanted > 0)
    tl.store(y_ptr + at, tlx.local_load(tile[0]))


@pytest.mark.parametrize("wanted", [0, 1])
@pytest.mark.parametrize("width", [16, 64])
def test_a_predicate(machine, wanted, width):
    x, _, source, _ = case(np.float16, 16, width)
    y = np.zeros((16, width), np.float16)
    machine.launch(some, (1, ), describe(x, [1, width]), y, source, 8, wanted, 16, width)
    assert (y == (picked(x, source, 8, width) if wanted else 7)).all()


@mimw.jit
def multiplied(x_desc, w_ptr, y_ptr, from_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Gathered rows as the operand of an asynchronous dot: they lie as wgmma reads them."""
    a, b = tlx.local_alloc((M, K), tl.float16, 1), tlx.local_alloc((K, N), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    down, across = tl.arange(0, K)[:, None], tl.arange(0, N)[None, :]
    tlx.local_store(b[0], tl.load(w_ptr + down * N + across))
    tlx.fence("async_shared")
    tlx.barrier_expect_bytes(full[0], M * K * 2)
    tlx.async_descriptor_gather(x_desc, a[0], tl.load(from_ptr + tl.arange(0, M)), 0, full[0])
    tlx.barrier_wait(full[0], 0)
    acc = tlx.async_dot_wait(0, tlx.async_dot(a[0], b[0], tl.zeros((M, N), tl.float32)))
    tl.store(y_ptr + tl.arange(0, M)[:, None] * N + across, acc)


@pytest.mark.parametrize("K", [16, 32, 64, 128])
def test_an_operand_of_a_product(machine, K):
    rng = np.random.default_rng(2)
    x, w = numbers(rng, (100, K), np.float16), numbers(rng, (K, 64), np.float16)
    source, y = rng.integers(-10, 110, 64).astype(np.int32), np.zeros((64, 64), np.float32)
    machine.launch(multiplied, (1, ), describe(x, [1, K]), w, y, source, 64, 64, K)
    assert (y == picked(x, source, 0, K).astype(np.float32) @ w.astype(np.float32)).all()


@mimw.jit
def scattered_twice(y_desc, to_ptr, BX: tl.constexpr, BY: tl.constexpr, ROUNDS: tl.constexpr):
    """Scatters of one buffer after another: each is a store of its own in every thread."""
    tiles = tlx.local_alloc((BX, BY), tl.float16, 2)
    for step in tl.static_range(ROUNDS):
        tlx.async_descriptor_store_wait(1)
        tlx.local_store(tiles[step % 2], tl.full((BX, BY), step + 1, tl.float16))
        tlx.fence("async_shared")
        tlx.async_descriptor_scatter(y_desc, tiles[step % 2], tl.load(to_ptr + step * BX + tl.arange(0, BX)), 0)
    tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("width", [16, 32, 64, 256])
def test_scatters_in_flight(machine, width):
    target = np.random.default_rng(3).permutation(6 * 32).astype(np.int32)
    y = np.zeros((6 * 32, width), np.float16)
    machine.launch(scattered_twice, (1, ), describe(y, [1, width]), target, 32, width, 6)
    expected = np.zeros_like(y)
    expected[target] = np.repeat(np.arange(1, 7), 32)[:, None]
    assert (y == expected).all()
