"""Global memory: bounds, masks, atomics, and arrays of the host."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.errors import Deadlock, OutOfBounds, SimulatorMisuse
from mimw.ir import Pointer, Tensor

from .programs import BF16, FP32, I1, I32, I64, Sketch, line_of


def copy_kernel(size: int, limit: int | None, element=FP32):
    """y[i] = x[i] for i < size, with a mask i < limit unless that is None."""
    k = Sketch()
    x, y = k.pointer(element, "x"), k.pointer(element, "y")
    mask = None if limit is None else k.op("icmpSLT", k.arange(size), k.op("constant", limit, Tensor(I32, (size, ))))
    if mask is None:
        k.store(y, k.op("load", k.grid(x, (size, )), None, False))
    else:
        k.op("masked_store", k.grid(y, (size, )), k.load(x, (size, ), mask), mask, None)
    return k


def test_masked_elements_may_lie_outside():
    data, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    copy_kernel(8, 5).run(data, out)
    assert out.tolist() == data.tolist()


@pytest.mark.parametrize("limit", [None, 6])
def test_elements_outside_name_the_array_and_the_line(limit):
    data, out = np.arange(5, dtype=np.float32), np.zeros(8, np.float32)
    with pytest.raises(OutOfBounds, match="element 5 of 'x', which has 5 elements") as caught:
        copy_kernel(8, limit).run(data, out)
    assert "load" in line_of(caught.value)


def test_writes_are_checked_too():
    data, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    with pytest.raises(OutOfBounds, match="writes .* element 4 of 'y', which has 4"):
        copy_kernel(8, None).run(data, out[:4])
    assert out.tolist() == [0] * 8


def test_addresses_before_an_array_and_between_elements():
    k = Sketch()
    x = k.pointer(FP32, "x")
    k.op("load", k.op("addptr", x, k.const(-1)), None, False)
    with pytest.raises(OutOfBounds, match="element -1 of 'x'"):
        k.run(np.zeros(4, np.float32))
    k = Sketch()
    x = k.pointer(FP32, "x")
    address = k.op("add", k.op("ptr_to_int", x, I64), k.const(2, I64))
    k.op("load", k.op("int_to_ptr", address, Pointer(FP32)), None, False)
    with pytest.raises(OutOfBounds, match="not a multiple of the element's 4 bytes"):
        k.run(np.zeros(4, np.float32))


@mimw.jit
def of_two_arrays(x, y, out, off):
    """Elements of both arrays in one load; number 5 lies `off` bytes behind an element of y."""
    at = tl.arange(0, 8)
    place = tl.where(at < 4, x + at, y + at - 4).to(tl.int64) + tl.where(at == 5, off, 0)
    tl.store(out + at, tl.load(place.to(tl.pointer_type(tl.float32))))


def test_addresses_between_elements_of_one_of_two_arrays():
    x, y, out = np.arange(4, dtype=np.float32), np.arange(4, 12, dtype=np.float32), np.zeros(8, np.float32)
    mimw.simulate(of_two_arrays, (1, ), x, y, out, 4)
    assert out.tolist() == [0, 1, 2, 3, 4, 6, 6, 7]
    with pytest.raises(OutOfBounds, match="not a multiple of the element's 4 bytes"):
        mimw.simulate(of_two_arrays, (1, ), x, y, out, 2)


def test_other_fills_masked_elements():
    k = Sketch()
    x, y = k.pointer(BF16, "x"), k.pointer(BF16, "y")
    mask = k.op("icmpSLT", k.arange(4), k.op("constant", 2, Tensor(I32, (4, ))))
    k.store(y, k.load(x, (4, ), mask, k.op("constant", 7.0, Tensor(BF16, (4, )))))
    out = np.zeros(4, ml_dtypes.bfloat16)
    k.run(np.ones(4, ml_dtypes.bfloat16), out)
    assert out.astype(float).tolist() == [1, 1, 7, 7]


def test_strided_arrays_are_written_in_place():
    base = np.zeros((4, 6), np.float32)
    k = Sketch()
    y = k.pointer(FP32, "y")
    k.op("store", k.op("addptr", y, k.const(6)), k.const(5.0, FP32), None)
    k.run(base[1:, 2:])
    assert base[2, 2] == 5.0 and base.sum() == 5.0


def test_pointers_that_are_loaded_from_memory():
    data, table = np.array([4.0, 5.0], np.float32), np.zeros(1, np.uint64)
    table[0] = data.ctypes.data

    def kernel():
        k = Sketch()
        t, y = k.pointer(Pointer(FP32), "t"), k.pointer(FP32, "y")
        inner = k.op("load", t, None, False)
        k.store(y, k.op("load", k.op("addptr", inner, k.const(1)), None, False))
        return k

    out = np.zeros(1, np.float32)
    with pytest.raises(OutOfBounds):
        kernel().run(table, out)
    kernel().run(table, out, memory=[data])
    assert out.tolist() == [5.0]


@pytest.mark.parametrize("kind, start, value, expected", [
    ("ADD", 3, 4, 3 + 2 * 4), ("MAX", 3, -1, 3), ("UMAX", 3, -1, -1), ("UMIN", -1, 3, 3), ("MIN", -1, 3, -1),
    ("AND", 6, 3, 2), ("OR", 6, 3, 7), ("XOR", 6, 3, 6), ("XCHG", 6, 3, 3)])
def test_atomics_on_one_address_take_turns(kind, start, value, expected):
    k = Sketch()
    x = k.pointer(I32, "x")
    two = Tensor(I32, (2, ))
    pointers = k.at(x, k.op("constant", 0, two))
    k.op("atomic_rmw", kind, pointers, k.op("constant", value, two), k.op("constant", 1, Tensor(I1, (2, ))), None, None)
    data = np.array([start], np.int32)
    k.run(data)
    assert data.tolist() == [expected]


def test_atomic_add_gives_each_program_its_own_ticket():
    k = Sketch()
    counter, out = k.pointer(I32, "counter"), k.pointer(I32, "out")
    ticket = k.op("atomic_rmw", "ADD", counter, k.const(1), k.const(1, I1), None, None)
    k.op("store", k.op("addptr", out, ticket), k.op("get_program_id", 0), None)
    orders = []
    for seed in (1, 1, 2):
        count, order = np.zeros(1, np.int32), np.full(200, -1, np.int32)
        k.run(count, order, grid=(200, ), seed=seed)
        assert count.tolist() == [200] and sorted(order.tolist()) == list(range(200))
        orders.append(order.tolist())
    assert orders[0] == orders[1] != orders[2]


def spin_kernel(release: bool):
    """Program 0 waits for a flag; program 1 raises it, or does not."""
    k = Sketch()
    flag = k.pointer(I32, "flag")
    first = k.op("icmpEQ", k.op("get_program_id", 0), k.const(0))

    def wait():
        op = k.regions("while", ())
        with k.inside(op):
            old = k.op("atomic_cas", flag, k.const(1), k.const(1), None, None)
            k.op("condition", k.op("icmpNE", old, k.const(1)), ())
        k.block(op, lambda: ())

    def raise_it():
        if release:
            k.op("atomic_rmw", "XCHG", flag, k.const(1), k.const(1, I1), None, None)

    k.when(first, wait, raise_it)
    return k


def test_programs_may_wait_for_each_other():
    flag = np.zeros(1, np.int32)
    spin_kernel(True).run(flag, grid=(2, ))
    assert flag.tolist() == [1]


def test_a_spin_that_nobody_ends_is_a_deadlock():
    with pytest.raises(Deadlock, match="spin on global memory"):
        spin_kernel(False).run(np.zeros(1, np.int32), grid=(2, ))


class Tensor4:
    """What the simulator uses of a torch CPU tensor: here a view of every other element of 8."""

    def __init__(self, device="cpu"):
        self.array, self.shape, self.dtype = np.zeros(8, np.float32), (4, ), np.dtype(np.float32)
        self.device = type("Device", (), {"type": device})()

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return (2, )


def test_tensors_are_taken_by_address():
    k = Sketch()
    y = k.pointer(FP32, "y")
    offsets = k.op("mul", k.arange(4), k.op("constant", 2, Tensor(I32, (4, ))))
    k.op("store", k.at(y, offsets), k.op("constant", 1.0, Tensor(FP32, (4, ))), None)
    tensor = Tensor4()
    k.run(tensor)
    assert tensor.array.tolist() == [1, 0] * 4
    with pytest.raises(SimulatorMisuse, match="works on CPU tensors"):
        k.run(Tensor4("cuda"))
    k.op("store", k.op("addptr", y, k.const(7)), k.const(1.0, FP32), None)
    with pytest.raises(OutOfBounds, match="element 7 of 'y', which has 7"):
        k.run(Tensor4())


def test_arguments_that_cannot_be_bound():
    k = Sketch()
    k.pointer(FP32, "x")
    with pytest.raises(SimulatorMisuse, match="'x' should be a numpy array"):
        k.run([1.0])
    k = Sketch()
    k.param(I32, "n")
    with pytest.raises(SimulatorMisuse, match="'n' should be a number"):
        k.run("three")
    with pytest.raises(SimulatorMisuse, match="grid"):
        k.run(3, grid=(1, 1, 1, 1))


def test_unsigned_arguments_keep_their_bits():
    k = Sketch()
    n, y = k.param(I32, "n"), k.pointer(I32, "y")
    k.store(y, n)
    out = np.zeros(1, np.uint32)
    k.run(2**32 - 2, out)
    assert out.tolist() == [2**32 - 2]
