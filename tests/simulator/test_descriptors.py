"""Descriptors made by the kernel, and the synchronous accesses of `tl`."""

import numpy as np
import pytest

from mimw.errors import OutOfBounds, SimulatorMisuse

from .programs import FP32, I32, I64, HostTensor, Sketch, Tensor


def made(k: Sketch, base, shape, strides, block, padding="zero"):
    extents, steps = tuple(k.const(s) for s in shape), tuple(k.const(s, I64) for s in strides)
    return k.op("make_tensor_descriptor", base, extents, steps, block, True, padding)


def copy_block(shape, strides, block, read_at, write_at):
    k = Sketch()
    x, y = k.pointer(FP32, "x"), k.descriptor(FP32, block, "y")
    value = k.op("descriptor_load", made(k, x, shape, strides, block), tuple(map(k.const, read_at)), None)
    k.op("descriptor_store", y, value, tuple(map(k.const, write_at)))
    return k


def test_load_pads_and_store_clips():
    x, y = np.arange(48, dtype=np.float32).reshape(6, 8), np.full((3, 8), -1, np.float32)
    copy_block((6, 7), (8, 1), (4, 4), (4, 4), (1, 4)).run(x, HostTensor(y[:, :6]))
    expected = np.full((3, 8), -1, np.float32)
    block = np.zeros((4, 4), np.float32)
    block[:2, :3] = x[4:, 4:7]
    expected[1:, 4:6] = block[:2, :2]
    assert y.tolist() == expected.tolist()


def test_rows_of_a_wider_array():
    """A stride larger than the row: columns beyond the descriptor's shape are not seen."""
    x, y = np.arange(64, dtype=np.float32).reshape(4, 16), np.zeros((4, 4), np.float32)
    copy_block((4, 6), (16, 1), (4, 4), (0, 4), (0, 0)).run(x, HostTensor(y))
    assert y.tolist() == np.pad(x[:, 4:6], ((0, 0), (0, 2))).tolist()


def test_a_shape_beyond_the_array():
    x, y = np.zeros((2, 8), np.float32), np.zeros((4, 4), np.float32)
    with pytest.raises(OutOfBounds, match="descriptor_load reads .* of 'x', which has 16 elements"):
        copy_block((6, 8), (8, 1), (4, 4), (0, 0), (0, 0)).run(x, HostTensor(y))


@pytest.mark.parametrize("strides, complaint", [
    ((8, 2), "last dimension has stride 2"), ((7, 1), "7 elements x 4 bytes = 28 bytes")])
def test_strides_that_tma_cannot_take(strides, complaint):
    x, y = np.zeros((4, 8), np.float32), np.zeros((4, 4), np.float32)
    with pytest.raises(SimulatorMisuse, match=complaint):
        copy_block((2, 4), strides, (4, 4), (0, 0), (0, 0)).run(x, HostTensor(y))


def test_rows_gathered_and_scattered():
    k = Sketch()
    x, y = k.descriptor(FP32, (1, 8), "x"), k.descriptor(FP32, (1, 8), "y")
    rows = k.op("mul", k.arange(4), k.op("constant", 2, Tensor(I32, (4, ))))
    tile = k.op("descriptor_gather", x, rows, k.const(8), Tensor(FP32, (4, 8)))
    k.op("descriptor_scatter", y, tile, k.arange(4), k.const(0))
    x, y = np.arange(96, dtype=np.float32).reshape(6, 16), np.full((3, 8), -1, np.float32)
    k.run(HostTensor(x), HostTensor(y))
    assert y.tolist() == x[[0, 2, 4], 8:].tolist()


def test_the_shape_and_strides_of_a_host_descriptor_are_parameters():
    k = Sketch()
    k.descriptor(FP32, (4, 4), "x")
    y = k.pointer(I64, "y")
    extents = [param.value for param in k.params if param.name.startswith("x_")]
    total = k.const(0, I64)
    for weight, handle in zip((1, 10, 100, 1000), extents):
        value = k.op("int_cast", handle, I64, True) if handle.type == I32 else handle
        total = k.op("add", total, k.op("mul", value, k.const(weight, I64)))
    k.store(y, total)
    out = np.zeros(1, np.int64)
    k.run(HostTensor(np.zeros((3, 8), np.float32)), out)
    assert out.tolist() == [3 + 80 + 800 + 1000]


def test_an_argument_that_is_no_descriptor():
    k = Sketch()
    k.descriptor(FP32, (4, 4), "x")
    with pytest.raises(SimulatorMisuse, match="'x' should be a TensorDescriptor, not int: it has no base, shape"):
        k.run(3)
    with pytest.raises(SimulatorMisuse, match="rank 1"):
        k.run(HostTensor(np.zeros(4, np.float32)))
