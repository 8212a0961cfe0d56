"""Values that are made of others travel as their parts do: five kinds, one way to flatten them and to make them again."""

import pytest
import triton.language.core as tl

import mimw.tlx as tlx
from mimw.ir import Barrier, Buffer, Scalar
from mimw.language.composite import CompositeType
from mimw.language.parts import Parts, PartsType
from mimw.language.tle.remote_buffer import remote_buffer, remote_buffer_type
from mimw.language.tle.sharding import ShardedTensorType

BF16 = Scalar("bf16")


def buffer(handle, num=2) -> tlx.buffered_tensor:
    return tlx.buffered_tensor(handle, tl.bfloat16, [64], num, tlx.storage_kind.smem)


def context(handles, num=2) -> tlx.CLCPipelineContext:
    empty, full, response = handles
    return tlx.CLCPipelineContext(tlx.mbarrier(empty, num), tlx.mbarrier(full, num), buffer(response))


def group(handles, size=1) -> tlx.reuse_group:
    a, b, c = handles
    inner = tlx.reuse_group(buffer(b), buffer(c), group_type=tlx.reuse_group_type.distinct, group_size=size)
    return tlx.reuse_group(buffer(a), inner)


def remote(handles, num=2) -> remote_buffer:
    return remote_buffer(buffer(handles[0], num), tl.tensor(handles[1], tl.int32))


@pytest.mark.parametrize("make, size", [(context, 3), (group, 3), (remote, 2)])
def test_to_handles_and_back(make, size):
    handles = [object() for _ in range(size)]
    value = make(handles)
    flat = []
    value._flatten_ir(flat)
    assert flat == handles and isinstance(value.type, CompositeType)
    others = [object() for _ in range(size)]
    again, cursor = value.type._unflatten_ir(["before", *others, "behind"], 1)
    flat = []
    again._flatten_ir(flat)
    assert flat == others and cursor == size + 1
    assert type(again) is type(value) and again.type == value.type and hash(again.type) == hash(value.type)
    assert make(handles, 3).type != value.type != tl.int32


class _Builder:
    """As much of a builder as types of Triton's ask."""

    def get_bf16_ty(self):
        return BF16


def test_types_are_those_of_the_parts():
    out = []
    context([1, 2, 3]).type._flatten_ir_types(_Builder(), out)
    assert out == [Barrier(2), Barrier(2), Buffer(BF16, (64, ), 2)]
    out = []
    group([1, 2, 3]).type._flatten_ir_types(_Builder(), out)
    assert out == [Buffer(BF16, (64, ), 2)] * 3


def test_all_of_them_share_the_base():
    own = {"_flatten_ir_types", "_unflatten_ir"}
    kinds = (type(context([1, 2, 3]).type), type(group([1, 2, 3]).type), remote_buffer_type, ShardedTensorType, PartsType)
    assert all(issubclass(kind, CompositeType) and own.isdisjoint(vars(kind)) for kind in kinds)
    value, cursor = Parts("owner", {"a": buffer(1), "b": buffer(2)}).type._unflatten_ir([3, 4], 0)
    assert value._parts["b"].handle == 4 and cursor == 2


def test_a_type_has_to_say_what_it_makes():
    with pytest.raises(NotImplementedError, match="half"):
        type("half", (CompositeType, ), {"parts": ()})()._unflatten_ir([], 0)
