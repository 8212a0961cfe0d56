"""Arrays of the host that cannot be what a launch takes them for: read-only ones as outputs, bytes in the other order."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw import tlx
from mimw.errors import SimulatorMisuse


@mimw.jit
def copy_tile(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))


@mimw.jit
def copy_one(x, y):
    tl.store(y, tl.load(x))


@mimw.jit
def add_all(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_add(y + at, tl.load(x + at))


@mimw.jit
def copy_by_tma(x, y, N: tl.constexpr):
    tile = tlx.local_alloc((N, N), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 4 * N * N)
    tlx.async_descriptor_load(x, tile[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_store(y, tile[0], [0, 0])
    tlx.async_descriptor_store_wait(0)


def mapped(tmp_path, mode: str) -> np.memmap:
    np.zeros(16, np.float32).tofile(tmp_path / "mapped")
    return np.memmap(tmp_path / "mapped", np.float32, mode)


def of_bytes(tmp_path) -> np.ndarray:
    return np.frombuffer(bytes(64), np.float32)


def flagged(tmp_path) -> np.ndarray:
    array = np.zeros(16, np.float32)
    array.flags.writeable = False
    return array


READ_ONLY = {"memory-mapped": lambda path: mapped(path, "r"), "bytes": of_bytes, "flag": flagged,
             "broadcast": lambda path: np.broadcast_to(np.float32(0), 16)[:16]}


@pytest.mark.parametrize("make", READ_ONLY.values(), ids=READ_ONLY)
@pytest.mark.parametrize("kernel", [copy_tile, add_all])
def test_a_read_only_output_is_refused_with_the_line_and_keeps_its_values(make, kernel, tmp_path):
    out = make(tmp_path)
    with pytest.raises(SimulatorMisuse, match="writes argument 'y', which is a read-only array") as caught:
        mimw.simulate(kernel, (1, ), np.ones(16, np.float32), out, N=16 if out.strides[0] else 1)
    assert "array.copy()" in str(caught.value) and "tl." in str(caught.value)
    assert not out.any()


def test_a_read_only_scalar_and_a_read_only_descriptor_are_refused():
    with pytest.raises(SimulatorMisuse, match="'y', which is a read-only array"):
        mimw.simulate(copy_one, (1, ), np.ones(1, np.float32), np.frombuffer(bytes(4), np.float32))
    source, target = np.ones((16, 16), np.float32), np.frombuffer(bytes(1024), np.float32).reshape(16, 16)
    source, target = (mimw.TensorDescriptor.from_tensor(array, [16, 16]) for array in (source, target))
    with pytest.raises(SimulatorMisuse, match="'y', which is a read-only array"):
        mimw.simulate(copy_by_tma, (1, ), source, target, N=16)


def test_read_only_inputs_and_writable_mapped_outputs_work(tmp_path):
    source, target = np.frombuffer(np.arange(16, dtype=np.float32).tobytes(), np.float32), mapped(tmp_path, "r+")
    mimw.simulate(copy_tile, (1, ), source, target, N=16)
    target.flush()
    assert np.fromfile(tmp_path / "mapped", np.float32).tolist() == list(range(16))
    report = mimw.check(copy_tile, (1, ), source, target, N=16, seeds=2)      # puts back what was written, and only that
    assert report.ok, report


def test_an_array_that_is_given_twice_may_be_written_through_either():
    target = np.zeros(16, np.float32)
    frozen = target.view()
    frozen.flags.writeable = False
    mimw.simulate(copy_tile, (1, ), frozen, target, N=16)
    with pytest.raises(SimulatorMisuse, match="read-only"):
        mimw.simulate(copy_tile, (1, ), frozen, frozen, N=16)


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">u8", ">f8"])
def test_bytes_in_the_other_order_are_refused(dtype):
    array = np.ones(16, dtype)
    with pytest.raises(SimulatorMisuse, match=f"arrays of {dtype} hold their bytes in the other order") as caught:
        mimw.simulate(copy_tile, (1, ), array, array.copy(), N=16)
    assert "newbyteorder('=')" in str(caught.value)
    with pytest.raises(SimulatorMisuse, match="in the other order"):
        mimw.check(copy_tile, (1, ), mimw.TensorDescriptor.from_tensor(np.ones((16, 16), dtype), [16, 16]), array, N=16)
    native = array.astype(array.dtype.newbyteorder("="))
    out = np.zeros_like(native)
    mimw.simulate(copy_tile, (1, ), native, out, N=16)
    assert (out == 1).all()
