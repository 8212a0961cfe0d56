"""Storage alias specs and reuse groups on the host, and what they record in a kernel."""

import pytest
import triton.language as tl

import mimw.tlx as tlx

SMEM, TMEM, CLUSTER = tlx.storage_kind
Group, Kind = tlx.reuse_group, tlx.reuse_group_type


def leaf(name="a"):
    return tlx.buffered_tensor(name, tl.float16, (64, 64), 2, SMEM)


def test_spec_properties_are_read_only():
    spec = tlx.storage_alias_spec_type_class("h", SMEM, 4096)
    assert (spec.handle, spec.storage, spec.buffer_size_bytes, spec.type) == (
        "h", SMEM, 4096, tlx.storage_alias_spec_type(SMEM, 4096))
    for name in ("handle", "storage", "buffer_size_bytes", "type"):
        with pytest.raises(AttributeError):
            setattr(spec, name, None)


def test_spec_repr():
    assert repr(tlx.storage_alias_spec_type_class("h", TMEM)) == "storage_alias_spec(storage=tmem)"
    assert repr(tlx.storage_alias_spec_type_class("h", SMEM, 64)) == "storage_alias_spec(storage=smem, buffer_size_bytes=64)"
    assert repr(tlx.storage_alias_spec_type(SMEM, 64)) == "storage_alias_spec<smem, size=64>"
    assert repr(tlx.storage_alias_spec_type(TMEM)) == "storage_alias_spec<tmem>"


def test_spec_types_differ_by_storage_and_size():
    types = [tlx.storage_alias_spec_type(SMEM), tlx.storage_alias_spec_type(TMEM), tlx.storage_alias_spec_type(SMEM, 64)]
    assert len({type_.mangle() for type_ in types}) == 3
    assert types[0] != types[1] and types[0] != types[2] and types[2] == tlx.storage_alias_spec_type(SMEM, 64)


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_spec_size_must_be_positive(size, kernel):
    with pytest.raises(ValueError, match="buffer_size_bytes"):
        tlx.storage_alias_spec_type_class("h", SMEM, size)
    with pytest.raises(ValueError, match="buffer_size_bytes"):
        kernel(tlx.storage_alias_spec, buffer_size_bytes=size)


def test_spec_refuses_remote_storage(kernel):
    with pytest.raises(ValueError, match="smemCluster storage is not supported"):
        kernel(tlx.storage_alias_spec, storage=CLUSTER)


def test_spec_in_tensor_memory_needs_blackwell(kernel):
    with pytest.raises(AssertionError, match="tmem is only available on Blackwell"):
        kernel(tlx.storage_alias_spec, TMEM)


def test_a_spec_its_arrays_and_their_overlap_are_recorded(kernel):
    spec = kernel(tlx.storage_alias_spec, buffer_size_bytes=65536)
    a = kernel(tlx.local_alloc, (64, 64), tl.float32, 2, reuse=spec)
    b, c = (kernel(tlx.local_alloc, (64, ), tl.float16, 4, SMEM, spec) for _ in range(2))
    kernel(spec.set_buffer_overlap, Group(a, Group(b, c, group_type=Kind.distinct), group_size=2))
    op = kernel.program().body.ops[-1]
    assert op.attrs["tree"] == ("shared", 2, (0, ("distinct", 1, (1, 2))))
    assert kernel.text()[:2] == ["%0 = alias_storage space='smem', limit=65536 : storage<at most 65536 bytes>",
                                 "%1 = local_alloc buffer<fp32[64, 64] x 2>, %0 : buffer<fp32[64, 64] x 2>"]
    assert kernel.text()[-1].startswith("alias_overlap %0, [%1, %2, %3] tree=")


def test_reuse_of_a_buffer_is_recorded(kernel):
    a = kernel(tlx.local_alloc, (64, ), tl.float32, 2)
    kernel(tlx.local_alloc, (64, ), tl.int32, 1, reuse=a)
    assert kernel.text()[-1] == "%1 = local_alloc buffer<i32[64] x 1>, %0 : buffer<i32[64] x 1>"


def test_group_kinds():
    assert [(kind.name, kind.value) for kind in Kind] == [("shared", "shared"), ("distinct", "distinct")]


def test_a_group_is_a_tree():
    a, b, c = leaf("a"), leaf("b"), leaf("c")
    inner = Group(b, c, group_type=Kind.distinct)
    outer = Group(a, inner, group_size=2)
    assert (outer.args, outer.group_type, outer.group_size) == ((a, inner), Kind.shared, 2)
    assert (inner.args, inner.group_type, inner.group_size) == ((b, c), Kind.distinct, 1)


def test_a_group_in_a_kernel_takes_compile_time_arguments():
    group = Group(leaf(), group_type=tl.constexpr(Kind.distinct), group_size=tl.constexpr(2))
    assert (group.group_type, group.group_size) == (Kind.distinct, 2)


def test_a_group_survives_flattening():
    group = Group(leaf("a"), Group(leaf("b"), group_type=Kind.distinct), group_size=2)
    handles = []
    group._flatten_ir(handles)
    again, cursor = group.type._unflatten_ir(handles, 0)
    assert (handles, cursor, again.type) == (["a", "b"], 2, group.type)
    assert group.type != Group(leaf("a"), group_size=2).type


def test_group_refusals():
    with pytest.raises(ValueError, match="at least one element"):
        Group()
    with pytest.raises(TypeError, match="must be buffered_tensor or reuse_group"):
        Group(3)
    for size in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="group_size"):
            Group(leaf(), group_size=size)


def test_overlap_takes_a_group(kernel):
    spec = tlx.storage_alias_spec_type_class("h", SMEM)
    with pytest.raises(TypeError, match="takes a reuse_group"):
        kernel(spec.set_buffer_overlap, leaf())
