"""Buffers: what allocation, views, loads and stores record, and what they refuse."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, NotYet
from mimw.ir.layouts import NvmmaShared, SwizzledShared, ThreadValue

from .harness import Kernel

SMEM, TMEM, CLUSTER = tlx.storage_kind


@pytest.fixture
def ring(kernel):
    """A ring of four fp16[64, 32] buffers."""
    return kernel(tlx.local_alloc, (64, 32), tl.float16, 4)


def test_alloc(kernel):
    buffer = kernel(tlx.local_alloc, tl.tuple([tl.constexpr(64), tl.constexpr(32)]), tl.constexpr(tl.float16), tl.constexpr(4))
    assert (buffer.shape, buffer.dtype, buffer.num, buffer.type.storage) == ((64, 32), tl.float16, 4, SMEM)
    assert kernel.text() == ["%0 = local_alloc buffer<fp16[64, 32] x 4> : buffer<fp16[64, 32] x 4>"]


@pytest.mark.parametrize("layout, pinned", [
    (tlx.swizzled_shared_layout_encoding.make_default(2), SwizzledShared(1, 1, 1, (1, 0))),
    (tlx.nv_mma_shared_layout_encoding.make_default([64, 32], tl.float16), NvmmaShared(64, 16, 2)),
    (tlx.swizzled_layout(3, 3, 3), SwizzledShared(8, 2, 8, (1, 0))),
])
def test_a_given_layout_is_pinned(kernel, layout, pinned):
    buffer = kernel(tlx.local_alloc, (64, 32), tl.float16, 1, layout=tl.constexpr(layout))
    (op, ) = kernel.program().body.ops
    assert op.attrs["layout"] == pinned
    assert buffer.type.layout == layout


@pytest.mark.parametrize("kwargs, error, text", [
    (dict(num=0), ValueError, "num must be a positive constexpr int"),
    (dict(num=1.5), ValueError, "num must be a positive constexpr int"),
    (dict(shape=(64, 0)), ValueError, "extent of shape must be a positive"),
    (dict(shape=()), ValueError, "at least one dimension"),
    (dict(dtype=16), ValueError, "dtype must be an element type"),
    (dict(storage="smem"), ValueError, "storage must be a tlx.storage_kind"),
    (dict(storage=CLUSTER), ValueError, "only remote_view gives it"),
    (dict(reuse=3), ValueError, "reuse must be a buffered_tensor or storage_alias_spec"),
    (dict(reuse=tlx.buffered_tensor(None, tl.float16, (64, 32), 1, TMEM)), ValueError, "reuse tensor has different storage"),
    (dict(reuse=tlx.storage_alias_spec_type_class(None, TMEM)), ValueError,
     r"storage_alias_spec storage \(tmem\) doesn't match local_alloc storage \(smem\)"),
    (dict(layout=3), TypeError, "`layout` must be a tlx.shared_layout_encoding"),
    (dict(layout=tlx.layout(((32, ), (2, )), ((1, ), (32, )))), TypeError, "`layout` must be a tlx.shared_layout_encoding"),
    (dict(layout=tlx.swizzled_layout(3, 3, 3), storage=TMEM), NotImplementedError, "not supported for tmem"),
    (dict(layout=tlx.shared_linear_layout_encoding(((0, 1), ))), ValueError, "does not cover a buffer of shape"),
    (dict(layout=tlx.padded_shared_layout_encoding.with_identity_for([(16, 4)], [4, 8])), ValueError, r"for the shape \(4, 8\)"),
    (dict(storage=TMEM), AssertionError, "tmem is only available on Blackwell"),
])
def test_alloc_refusals(kernel, kwargs, error, text):
    arguments = dict(shape=(64, 32), dtype=tl.float16, num=2) | kwargs
    with pytest.raises(error, match=text):
        kernel(tlx.local_alloc, **arguments)


@pytest.mark.parametrize("arch", ["sm120", "sm120a"])
def test_not_every_blackwell_chip_has_tensor_memory(arch):
    with pytest.raises(AssertionError, match=r"tmem is only available on .* with tensor memory \(sm_100a, sm_103a\)"):
        Kernel(arch)(tlx.local_alloc, (64, 32), tl.float16, 1, storage=TMEM)


@pytest.mark.parametrize("arch", ["sm100", "sm103"])
def test_tensor_memory(arch):
    buffers = Kernel(arch)(tlx.local_alloc, (64, 32), tl.float16, 1, storage=TMEM)
    assert (buffers.type.storage, buffers.shape, buffers.num) == (TMEM, (64, 32), 1)


def test_subscript_of_an_array(kernel, ring):
    view = kernel(ring.__getitem__, tl.constexpr(1))
    assert (view.num, view.shape) == (0, (64, 32))
    kernel(ring.__getitem__, kernel.tensor("i", tl.int64))
    assert kernel.text()[1:] == ["%3 = buffer_index %1, %2 : buffer<fp16[64, 32]>", "%4 = int_cast %0, i32, signed=True : i32",
                                 "%5 = buffer_index %1, %4 : buffer<fp16[64, 32]>"]


def test_a_single_buffer_loses_its_leading_dimension(kernel, ring):
    row = kernel(tlx.local_view, kernel(tlx.local_view, ring, 0), 3)
    element = kernel(tlx.local_view, row, 5)
    assert (row.shape, element.shape, element.num) == ((32, ), (1, ), 0)
    assert kernel.text()[2:] == ["%4 = buffer_index %2, %3 : buffer<fp16[32]>", "%6 = buffer_index %4, %5 : buffer<fp16[1]>"]


def test_subscript_of_a_transposed_buffer_keeps_where_elements_lie(kernel):
    cube = kernel(tlx.local_view, kernel(tlx.local_alloc, (2, 64, 32), tl.float16, 1), 0)
    turned = kernel(tlx.local_trans, cube, (0, 2, 1))
    assert turned.type.order == (1, 2, 0)
    assert kernel(tlx.local_view, turned, 0).type.order == (0, 1)


@pytest.mark.parametrize("index", [-1, 4])
def test_a_known_index_out_of_range(kernel, ring, index):
    with pytest.raises(KernelError, match=r"index -?\d is out of range: .* has the indices 0 to 3") as caught:
        kernel(ring.__getitem__, index)
    assert str(caught.value.sites[0]) == "kernel.py:7"


def test_an_index_must_be_an_integer(kernel, ring):
    for index in (1.5, kernel.tensor("f", tl.float32), kernel.tensor("v", tl.int32, 16)):
        with pytest.raises(KernelError, match="index must be an int or an integer scalar"):
            kernel(ring.__getitem__, index)


def test_slice(kernel, ring):
    view = kernel(tlx.local_slice, kernel(ring.__getitem__, 0), [0, kernel.tensor("n", tl.int32)], [64, 16])
    assert (view.shape, view.dtype, view.num) == ((64, 16), tl.float16, 0)
    assert kernel.text()[2:] == ["%4 = buffer_slice %3, [0, %0], [64, 16] : buffer<fp16[64, 16]>"]


@pytest.mark.parametrize("offset, shape, error", [([0], [64], ValueError), ([0, 0], [64], ValueError),
                                                  ([0, 24], [64, 16], KernelError), ([-1, 0], [8, 8], KernelError),
                                                  ([0, 0], [128, 32], KernelError)])
def test_slice_refusals(kernel, ring, offset, shape, error):
    with pytest.raises(error, match="local_slice"):
        kernel(tlx.local_slice, kernel(ring.__getitem__, 0), offset, shape)


def test_slice_wants_one_buffer(kernel, ring):
    with pytest.raises(KernelError, match="array of 4"):
        kernel(tlx.local_slice, ring, [0, 0], [64, 16])


def test_trans(kernel, ring):
    view = kernel(tlx.local_trans, kernel(ring.__getitem__, 0))
    assert (view.shape, view.type.order) == ((32, 64), (0, 1))
    assert kernel(tlx.local_trans, view).type.order == (1, 0)
    assert kernel.text()[2] == "%3 = buffer_trans %2, [1, 0] : buffer<fp16[32, 64]>"


@pytest.mark.parametrize("dims, text", [((0, 1, 2), "3 entries, but the buffer has rank 2"), ((0, 0), "not a permutation"),
                                        ((1, 2), "not a permutation")])
def test_trans_refusals(kernel, ring, dims, text):
    with pytest.raises(ValueError, match=text):
        kernel(tlx.local_trans, kernel(ring.__getitem__, 0), dims)


def test_load_and_store(kernel, ring):
    buffer = kernel(ring.__getitem__, 0)
    tile = kernel(tlx.local_load, buffer)
    assert tile.type == tl.block_type(tl.float16, [64, 32])
    kernel(tlx.local_store, buffer, tile)
    assert kernel.text()[2:] == ["%3 = local_load %2 : fp16[64, 32]", "local_store %2, %3"]


def test_load_after_a_wait(kernel, ring):
    token = kernel(tlx.async_load_wait_group, 0)
    kernel(tlx.local_load, kernel(ring.__getitem__, 0), token, relaxed=True)
    assert kernel.text()[1:] == ["%1 = async_wait pending=0, [] : token", "%3 = buffer_index %0, %2 : buffer<fp16[64, 32]>",
                                 "%4 = local_load %3, %1 : fp16[64, 32]"]


def test_signedness_is_kept(kernel):
    buffer = kernel(tlx.local_view, kernel(tlx.local_alloc, (16, ), tl.uint8, 1), 0)
    assert kernel(tlx.local_load, buffer).dtype == tl.uint8


def test_an_array_of_one_is_not_indexed_for_you(kernel):
    with pytest.raises(KernelError, match=r"`src\[0\]`"):
        kernel(tlx.local_load, kernel(tlx.local_alloc, (64, ), tl.float16, 1))


def test_load_in_a_layout(kernel, ring):
    layout = tlx.layout(((32, ), (2, )), ((1, ), (32, )))
    kernel(tlx.local_load, kernel(ring.__getitem__, 0), layout=layout)
    assert kernel.program().body.ops[-1].attrs["layout"] == ThreadValue(((32, 1), ), ((2, 32), ))
    with pytest.raises(TypeError, match="`layout` must be a register layout"):
        kernel(tlx.local_load, kernel(ring.__getitem__, 0), layout=tlx.layout)
    placeholder = tlx.DummyRegisterLayoutEncoding([64, 32], tl.float16)
    with pytest.raises(NotYet, match=r"local_load\(layout=DummyRegisterLayoutEncoding\)"):
        kernel(tlx.local_load, kernel(ring.__getitem__, 0), layout=placeholder)


def test_store_refusals(kernel, ring):
    buffer = kernel(ring.__getitem__, 0)
    with pytest.raises(KernelError, match=r"shape \[64, 64\], the buffer \[64, 32\]"):
        kernel(tlx.local_store, buffer, kernel.tensor("x", tl.float16, 64, 64))
    with pytest.raises(KernelError, match=r"holds fp32, the buffer fp16\nMend: convert first: `src.to\(tl.float16\)`"):
        kernel(tlx.local_store, buffer, kernel.tensor("y", tl.float32, 64, 32))
    with pytest.raises(KernelError, match="must be a block tensor"):
        kernel(tlx.local_store, buffer, kernel.tensor("z", tl.float16))
