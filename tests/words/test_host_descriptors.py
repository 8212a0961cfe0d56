"""Host descriptors of every rank, element type and padding, and block shapes written by a pre_hook."""

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def blocks(source, target, offsets: tl.constexpr, shape: tl.constexpr):
    """One block from `offsets` of the source to the start of the target, through shared memory, by TMA both ways."""
    dtype: tl.constexpr = tlx.dtype_of(source)
    tile = tlx.local_alloc(shape, dtype, 1)
    full = tlx.alloc_barriers(1)
    zeros: tl.constexpr = [0] * len(shape)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            tlx.async_descriptor_store(target, tile[0], zeros)
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1):
            size: tl.constexpr = tlx.size_of(dtype)
            elements: tl.constexpr = source.block_type.numel
            tlx.barrier_expect_bytes(full[0], elements * size)
            tlx.async_descriptor_load(source, tile[0], offsets, full[0])


def through(machine, x, block, offsets, padding="zero"):
    """What the kernel makes of `x`: the block at `offsets`, padded."""
    y = np.zeros(block, x.dtype)
    machine.launch(blocks, (1, ), mimw.TensorDescriptor.from_tensor(x, list(block), padding),
                   mimw.TensorDescriptor.from_tensor(y, list(block)), tuple(offsets), tuple(block))
    return y


BLOCKS = {1: (64, ), 2: (16, 64), 3: (4, 8, 64), 4: (2, 4, 8, 32), 5: (2, 2, 4, 8, 32)}


@pytest.mark.parametrize("rank", BLOCKS)
def test_ranks(machine, rank):
    block = BLOCKS[rank]
    x = np.random.default_rng(rank).integers(-100, 100, tuple(2 * extent for extent in block)).astype(np.float16)
    y = through(machine, x, block, block)
    assert (y == x[tuple(slice(extent, None) for extent in block)]).all()


DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, np.int8, np.uint8, np.int16,
          np.int32, np.int64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(machine, dtype):
    x = np.arange(32 * 64).reshape(32, 64).astype(np.int8).astype(dtype)
    y = through(machine, x, (16, 64), (16, 0))
    assert y.tobytes() == np.ascontiguousarray(x[16:]).tobytes()


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_padding(machine, dtype, padding):
    x = np.ones((24, 96), dtype)
    y = through(machine, x, (16, 64), (16, 64), padding).astype(np.float32)
    wanted = np.full((16, 64), np.nan if padding == "nan" else 0, np.float32)
    wanted[:8, :32] = 1
    np.testing.assert_array_equal(y, wanted)


def set_blocks(arguments):
    """As published kernels do: the configuration decides the blocks, the launch made descriptors with dummy ones."""
    arguments["source"].block_shape = [arguments["ROWS"], arguments["COLS"]]
    arguments["target"].block_shape = [arguments["ROWS"], arguments["COLS"]]


@triton.autotune(configs=[triton.Config({"ROWS": 16, "COLS": 64}, num_warps=4, pre_hook=set_blocks)], key=[])
@mimw.jit
def tuned(source, target, ROWS: tl.constexpr, COLS: tl.constexpr):
    tile = tlx.local_alloc((ROWS, COLS), tlx.dtype_of(source), 1)
    full = tlx.alloc_barriers(1)
    at = tl.program_id(0) * ROWS
    tlx.barrier_expect_bytes(full[0], ROWS * COLS * 2)
    tlx.async_descriptor_load(source, tile[0], [at, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    target.store([at, 0], tlx.local_load(tile[0]) * 2)


def test_blocks_from_a_pre_hook(machine):
    x = np.arange(64 * 64, dtype=np.float16).reshape(64, 64) % 100
    y = np.zeros_like(x)
    machine.launch(tuned, (4, ), mimw.TensorDescriptor.from_tensor(x, [1, 1]), mimw.TensorDescriptor.from_tensor(y, [1, 1]))
    assert (y == 2 * x).all()


def test_rounding_to_tf32(machine):
    """A descriptor can round fp32 to tf32 (10 bits of mantissa) as it loads."""
    x = (1 + np.arange(16 * 32, dtype=np.float32).reshape(16, 32) / 4096).astype(np.float32)
    y = np.zeros_like(x)
    machine.launch(blocks, (1, ), mimw.TensorDescriptor.from_tensor(x, [16, 32], round_f32_to_tf32=True),
                   mimw.TensorDescriptor.from_tensor(y, [16, 32]), (0, 0), (16, 32))
    assert np.unique(y.view(np.uint32) & 0x1FFF).tolist() == [0]
    assert np.abs(x - y).max() <= 2.0**-11
