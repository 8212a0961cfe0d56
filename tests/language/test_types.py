"""Values and types: made in plain Python, compared, mangled, flattened and rebuilt."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.ir import Barrier, Buffer, Scalar, Token

SMEM, TMEM = tlx.storage_kind.smem, tlx.storage_kind.tmem


def buffer_type(element=tl.float16, shape=(64, 32), num=2, storage=SMEM, layout=None, **more):
    return tlx.buffered_tensor_type(element, shape, num, storage, layout, **more)


def test_storage_kinds():
    assert [(kind.name, kind.value) for kind in tlx.storage_kind] == [("smem", "smem"), ("tmem", "tmem"),
                                                                      ("smemCluster", "smemCluster")]


def test_a_buffer_on_the_host():
    buffer = tlx.buffered_tensor("handle", tl.float16, [64, 32], 2, SMEM)
    assert (buffer.dtype, buffer.shape, buffer.num, buffer.handle) == (tl.float16, (64, 32), 2, "handle")
    assert (buffer.type.storage, buffer.type.layout, buffer.type.element_ty) == (SMEM, None, tl.float16)
    assert buffer.type == buffer_type()
    assert str(buffer) == "buffered_tensor<fp16[64, 32] x 2 in smem>"


DIFFERENT = [
    dict(element=tl.bfloat16), dict(shape=(32, 64)), dict(shape=(2048, )), dict(num=0), dict(num=3), dict(storage=TMEM),
    dict(layout=tlx.swizzled_shared_layout_encoding.make_default(2)), dict(layout=tlx.swizzled_layout(3, 3, 3)), dict(order=(0, 1)),
]


@pytest.mark.parametrize("change", DIFFERENT)
def test_buffer_types_differ_in_every_field(change):
    assert buffer_type(**change) != buffer_type()
    assert buffer_type(**change).mangle() != buffer_type().mangle()
    assert buffer_type(**change) == buffer_type(**change)
    assert hash(buffer_type(**change)) == hash(buffer_type(**change))


def test_barrier_types():
    make = tlx.mbarrier_type
    assert make(2, None, SMEM) == make(2, None, SMEM, is_warp_barrier=False)
    mangled = {make(2, None, SMEM).mangle(), make(3, None, SMEM).mangle(), make(2, None, SMEM, True).mangle(),
               tlx.clc_response_type(2).mangle()}
    assert len(mangled) == 4
    assert make(2, None, SMEM) != make(2, None, SMEM, True)
    assert make(2, None, SMEM) != tlx.clc_response_type(2, None, SMEM)


def test_values_survive_flattening(kernel):
    order = (0, 1)
    values = [tlx.buffered_tensor("b", tl.float16, (64, 32), 2, SMEM, order=order), tlx.mbarrier("m", 3, is_warp_barrier=True),
              tlx.async_token("t")]
    handles, types = [], []
    for value in values:
        value._flatten_ir(handles)
        value.type._flatten_ir_types(kernel.builder, types)
    assert handles == ["b", "m", "t"]
    assert types == [Buffer(Scalar("fp16"), (64, 32), 2), Barrier(3, per_thread=True), Token()]
    cursor, rebuilt = 0, []
    for value in values:
        again, cursor = value.type._unflatten_ir(handles, cursor)
        rebuilt.append(again)
    assert [value.type for value in rebuilt] == [value.type for value in values]
    assert rebuilt[0].type.order == order and rebuilt[1].is_warp_barrier
    assert cursor == 3


def test_the_name_of_a_variable_reaches_the_ir(kernel):
    kernel(tlx.alloc_barriers, 2)._set_name(kernel.builder, "full")
    assert kernel.text() == ["%full = alloc_barriers count=2, arrive_count=1 : barrier<x 2>"]


def test_a_clc_context_is_its_parts():
    context = tlx.CLCPipelineContext(tlx.mbarrier("e", 2), tlx.mbarrier("f", 2), tlx.clc_response("r", 2))
    handles = []
    context._flatten_ir(handles)
    again, cursor = context.type._unflatten_ir(handles, 0)
    assert (handles, cursor, again.type == context.type) == (["e", "f", "r"], 3, True)
    assert context.type != tlx.CLCPipelineContext(tlx.mbarrier("e", 1), tlx.mbarrier("f", 1), tlx.clc_response("r", 1)).type


def test_descriptor_slots():
    slots = tlx.tensor_descriptor_ptr("p", 4, 128)
    assert (slots.num, slots.descriptor_size) == (4, 128)
    assert slots.type == tlx.tensor_descriptor_ptr_type(4) and slots.type != tlx.tensor_descriptor_ptr_type(5)
