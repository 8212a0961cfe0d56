"""Descriptors made in device memory: what is recorded, what is refused."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, TargetError

from .harness import Kernel


@pytest.fixture
def base(kernel):
    return kernel.tensor("p", tl.pointer_type(tl.float16))


def made(kernel, pointer, **change):
    arguments = dict(desc_ptr=None, base=pointer, shape=[100, 64], strides=[64, 1], block_shape=[16, 64])
    return kernel(tlx.make_tensor_descriptor, **(arguments | change))


def test_slots(kernel, base):
    slots = kernel(tlx.allocate_tensor_descriptor, 3)
    assert (slots.num, slots.descriptor_size, str(slots)) == (3, 128, "tensor_descriptor_ptr<x 3, 128 bytes each>")
    one = slots.__getitem__(kernel.tensor("i", tl.int32), _semantic=kernel.semantic)
    desc = made(kernel, base, desc_ptr=one)
    assert (list(desc.block_shape), desc.dtype, len(desc.shape), len(desc.strides)) == ([16, 64], tl.float16, 2, 2)
    view = kernel(tlx.reinterpret_tensor_descriptor, one, [16, 64], tl.float16)
    assert (list(view.block_shape), view.dtype) == ([16, 64], tl.float16)
    assert [line.split(" = ")[1] for line in kernel.text()] == [
        "descriptor_slots count=3 : slots<x 3>", "descriptor_slot %2, %1 : slot",
        "fill_descriptor_slot %3, %0, [%4, %5], [%6, %7], padding=PAD_ZERO : desc<fp16[16, 64]>",
        "view_descriptor_slot %3 : desc<fp16[16, 64]>"]


def test_without_a_slot(kernel, base):
    desc = made(kernel, base, padding_option="nan")
    assert list(desc.block_shape) == [16, 64]
    assert kernel.text() == ["%5 = fill_descriptor_slot base=%0, [%1, %2], [%3, %4], padding=PAD_NAN : desc<fp16[16, 64]>"]


def test_an_array_of_one_is_a_slot(kernel, base):
    slots = kernel(tlx.allocate_tensor_descriptor, 1)
    made(kernel, base, desc_ptr=slots)
    assert "descriptor_slot " in kernel.text()[1]
    with pytest.raises(KernelError, match="must be one slot, but it is an array of 2"):
        made(kernel, base, desc_ptr=kernel(tlx.allocate_tensor_descriptor, 2))


def test_indices(kernel):
    slots = kernel(tlx.allocate_tensor_descriptor, 2)
    with pytest.raises(KernelError, match="index 2 is out of range: .* has the indices 0 to 1"):
        slots.__getitem__(2, _semantic=kernel.semantic)
    one = slots.__getitem__(0, _semantic=kernel.semantic)
    with pytest.raises(KernelError, match="cannot be indexed"):
        one.__getitem__(0, _semantic=kernel.semantic)


@pytest.mark.parametrize("num", [0, -1, 2.0, True])
def test_count(kernel, num):
    with pytest.raises(ValueError, match="num must be a positive constexpr int"):
        kernel(tlx.allocate_tensor_descriptor, num)


def test_count_is_known(kernel):
    with pytest.raises(ValueError, match="`num` must be a constexpr"):
        kernel(tlx.allocate_tensor_descriptor, kernel.tensor("n", tl.int32))


REFUSED = [
    (dict(desc_ptr=3), TypeError, "desc_ptr must be a tensor_descriptor_ptr or None, got int"),
    (dict(base=3), TypeError, "base must be a scalar pointer"),
    (dict(shape=[], strides=[], block_shape=[]), ValueError, "rank must be 1 to 5, got 0"),
    (dict(shape=[2] * 6, strides=[1] * 6, block_shape=[2] * 6), ValueError, "rank must be 1 to 5, got 6"),
    (dict(strides=[1]), ValueError, "must have one length, got 2, 1 and 2"),
    (dict(block_shape=[64, 4]), ValueError, "at least 16 bytes, got 8"),
    (dict(strides=[64, 2]), ValueError, "last stride must be constexpr 1, got 2"),
    (dict(padding_option="one"), ValueError, "'zero' or 'nan', got 'one'"),
]


@pytest.mark.parametrize("change, error, text", REFUSED)
def test_refused(kernel, base, change, error, text):
    with pytest.raises(error, match=text):
        made(kernel, base, **change)


def test_nan_is_for_floats(kernel):
    with pytest.raises(ValueError, match="'nan' needs a floating-point type, got int32"):
        made(kernel, kernel.tensor("q", tl.pointer_type(tl.int32)), padding_option="nan")


def test_a_run_time_last_stride(kernel, base):
    with pytest.raises(ValueError, match="last stride must be constexpr 1"):
        made(kernel, base, strides=[64, kernel.tensor("s", tl.int32)])


def test_views_of_slots_only(kernel, base):
    with pytest.raises(TypeError, match="desc_ptr must be a tensor_descriptor_ptr, got tensor"):
        kernel(tlx.reinterpret_tensor_descriptor, base, [16, 64], tl.float16)


def test_types():
    types = [tlx.tensor_descriptor_ptr_type(2), tlx.tensor_descriptor_ptr_type(2, 128), tlx.tensor_descriptor_ptr_type(3),
             tlx.tensor_descriptor_ptr_type(2, 64)]
    assert [type_ == types[0] for type_ in types] == [True, True, False, False]
    assert len({type_.mangle() for type_ in types}) == 3


def test_needs_tma():
    with pytest.raises(TargetError, match="needs sm_90 or newer"):
        Kernel("sm80")(tlx.allocate_tensor_descriptor, 1)
    with pytest.raises(NotImplementedError, match="not available on gfx942"):
        Kernel("gfx942")(tlx.allocate_tensor_descriptor, 1)
