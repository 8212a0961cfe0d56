"""Each cluster word against a reference of a few lines, on the simulator and on the GPU."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from tests.kernels import clusters as kernels

DTYPES = {"fp32": (tl.float32, np.float32), "fp16": (tl.float16, np.float16), "i8": (tl.int8, np.int8),
          "i64": (tl.int64, np.int64)}


def numbers(*shape, dtype=np.float32):
    return (np.arange(np.prod(shape)) % 61).reshape(shape).astype(dtype)


@pytest.mark.parametrize("shape, rank", [((2, 1, 1), lambda x, y: x % 2), ((1, 2, 1), lambda x, y: y % 2),
                                         ((2, 2, 1), lambda x, y: x % 2 + 2 * (y % 2))], ids=["x", "y", "xy"])
def test_ranks(machine, shape, rank):
    y = np.zeros((4, 4, 2), np.int32)
    machine.launch(kernels.ranks, (4, 4), y, ctas_per_cga=shape)
    assert (y[..., 0] == [[rank(x, row) for x in range(4)] for row in range(4)]).all()
    assert (y[..., 1] == np.prod(shape)).all()


def test_ranks_without_a_cluster(machine):
    y = np.full((4, 1, 2), 7, np.int32)
    machine.launch(kernels.ranks, (4, 1), y)
    assert (y == [0, 1]).all()


@pytest.mark.parametrize("size", [2, 4])
def test_remote_arrive(machine, size):
    x, scratch = numbers(8, 3, 64), np.zeros((8, 64), np.float32)
    y = np.zeros_like(x)
    machine.launch(kernels.handshake, (8, ), x, y, scratch, 64, 3, ctas_per_cga=(size, 1, 1))
    groups = x.reshape(8 // size, size, 3, 64)
    assert (y == np.roll(groups, 1, axis=1).reshape(x.shape)).all()


@pytest.mark.parametrize("rows, columns", [(1, 1), (8, 4), (64, 64)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_remote_store(machine, dtype, rows, columns):
    type_, numpy_type = DTYPES[dtype]
    x = numbers(4, rows, columns, dtype=numpy_type) + np.arange(4, dtype=numpy_type)[:, None, None]
    y = np.zeros_like(x)
    machine.launch(kernels.swap, (4, ), x, y, type_, rows, columns, ctas_per_cga=(2, 1, 1))
    assert (y == x[[1, 0, 3, 2]]).all()


@pytest.mark.long(everywhere=["fp16-32-64-2", "fp16-4-1-2", "fp32-1-1-2", "i64-8-8-2", "i8-16-32-4"])
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("dtype, rows, columns", [("fp32", 1, 1), ("fp32", 32, 1), ("fp32", 32, 64), ("fp16", 4, 1),
                                                  ("fp16", 32, 64), ("i8", 16, 32), ("i64", 8, 8)])
def test_async_remote_store(machine, size, dtype, rows, columns):
    type_, numpy_type = DTYPES[dtype]
    x = (numbers(4, 5, rows, columns) % 13 + np.arange(4)[:, None, None, None]).astype(numpy_type)
    y = np.zeros_like(x)
    machine.launch(kernels.all_reduce, (4, ), x, y, type_, rows, columns, size, 5, ctas_per_cga=(size, 1, 1))
    sums = x.reshape(4 // size, size, 5, rows, columns).sum(1, keepdims=True)
    assert (y.reshape(4 // size, size, 5, rows, columns) == sums).all()


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "i8"])
def test_async_remote_copy(machine, dtype):
    type_, numpy_type = DTYPES[dtype]
    x = numbers(4, 32, 64, dtype=numpy_type) + np.arange(4, dtype=numpy_type)[:, None, None]
    y = np.zeros_like(x)
    machine.launch(kernels.copy_swap, (4, ), x, y, type_, 32, 64, ctas_per_cga=(2, 1, 1))
    assert (y == x[[1, 0, 3, 2]]).all()


@pytest.mark.parametrize("rows, columns, by_columns", [(32, 64, False), (64, 32, False), (32, 128, True),
                                                       (64, 256, True)])
def test_multicast(machine, rows, columns, by_columns):
    x = numbers(rows, columns, dtype=np.float16)
    y = np.zeros((4, rows, columns), np.float16)
    block = [rows, columns // 2] if by_columns else [rows // 2, columns]
    machine.launch(kernels.multicast, (4, ), mimw.TensorDescriptor.from_tensor(x, block), y, rows, columns, by_columns,
                   ctas_per_cga=(2, 1, 1))
    assert (y == x).all()


@pytest.mark.parametrize("slot", [False, True])
@pytest.mark.parametrize("columns", [32, 128])
def test_multicast_with_a_descriptor_made_in_the_kernel(machine, columns, slot):
    x = numbers(32, columns, dtype=np.float16)
    y = np.zeros((4, 32, columns), np.float16)
    machine.launch(kernels.multicast_own, (4, ), x, y, 32, columns, slot, ctas_per_cga=(2, 1, 1))
    assert (y == x).all()


@pytest.mark.parametrize("kernel, factor", [("around_tasks", 11), ("in_tasks", 1)])
def test_cluster_barrier(machine, kernel, factor):
    x = numbers(8, 64, dtype=np.int32) + np.arange(8, dtype=np.int32)[:, None]
    y = np.zeros_like(x)
    machine.launch(getattr(kernels, kernel), (8, ), x, y, 64, ctas_per_cga=(2, 1, 1))
    assert (y.reshape(4, 2, 64) == factor * x.reshape(4, 2, 64)[:, ::-1]).all()


@pytest.mark.parametrize("size", [2, 4])
def test_reduction_in_tasks(machine, size):
    x = numbers(4, 5, 16, 32)
    y = np.zeros((4, 5, 16), np.float32)
    machine.launch(kernels.reduce_in_tasks, (4, ), x, y, 16, 32, size, 5, ctas_per_cga=(size, 1, 1))
    sums = x.sum(-1).reshape(4 // size, size, 5, 16).sum(1, keepdims=True)
    assert (y.reshape(4 // size, size, 5, 16) == sums).all()
