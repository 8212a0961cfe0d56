"""Meshes: shapes, slices, identity; and that two sub-meshes are two kernels although they print alike."""

import copy

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.runtime.jit import MockTensor

SEED = {"node": [("node_x", 2), ("node_y", 2)], "device": 4, "block_cluster": [("cluster_x", 2), ("cluster_y", 2)], "block": 4}


def test_the_six_axes_of_the_design_page():
    mesh = tle.device_mesh(SEED)
    assert (mesh.shape, mesh.size, mesh.ndim) == ((2, 2, 4, 2, 2, 4), 256, 6)
    assert mesh.dim_names == ("node_x", "node_y", "device", "cluster_x", "cluster_y", "block")
    assert mesh.physical_ids == tuple(range(256))
    assert (mesh.launch_shape, mesh.launch_dim_names) == (mesh.shape, mesh.dim_names)
    assert repr(mesh) == ("DeviceMesh(shape=(2, 2, 4, 2, 2, 4), names=('node_x', 'node_y', 'device', 'cluster_x', "
                          "'cluster_y', 'block'))")
    assert mesh.ranks() == (0, 1, 2, 3), "the cluster axes decide"
    assert mesh == tle.device_mesh(topology=SEED)


@pytest.mark.parametrize("key", [0, -1, slice(None), (0, slice(1, 3)), (Ellipsis, 1), (slice(None, None, 2), Ellipsis, slice(0, 1)),
                                 (1, Ellipsis, 2), Ellipsis, (1, 2, 0), slice(None, None, -1)])
def test_indices_select_what_numpy_selects(key):
    mesh = tle.device_mesh({"a": 2, "b": [("c", 4), ("d", 3)]})
    expected = np.arange(24).reshape(2, 4, 3)[key]
    part = mesh[key]
    assert part.shape == expected.shape and part.physical_ids == tuple(np.ravel(expected).tolist())
    assert (part.launch_shape, part.launch_dim_names) == ((2, 4, 3), ("a", "c", "d"))


def test_names_follow_the_axes():
    mesh = tle.device_mesh({"a": 2, "b": 4, "c": 3})
    assert mesh[0].dim_names == ("b", "c") and mesh[..., 0].dim_names == ("a", "b") and mesh[0, 0, 0].dim_names == ()
    assert mesh.flatten().dim_names == ("flat", ) and mesh.flatten().shape == (24, )
    assert mesh.reshape(2, 2, 6).dim_names == ("a", "b", "c")
    assert mesh.reshape((4, 6)).dim_names == ("dim0", "dim1") and mesh.reshape(24).dim_names == ("flat", )
    row = mesh[1, 2]
    assert row.reshape(3, 1).physical_ids == row.physical_ids == (18, 19, 20)
    assert row.reshape(3, 1).launch_dim_names == ("a", "b", "c")


@pytest.mark.parametrize("error, key", [(IndexError, 2), (IndexError, -3), (IndexError, (0, 0, 0)), (IndexError, (..., ...)),
                                        (ValueError, slice(2, 2)), (TypeError, "a"), (TypeError, 1.0), (TypeError, True),
                                        (TypeError, None)])
def test_wrong_indices(error, key):
    with pytest.raises(error, match="device_mesh"):
        tle.device_mesh({"a": 2, "b": 3})[key]


@pytest.mark.parametrize("error, topology", [
    (TypeError, [("a", 2)]), (TypeError, {"a": "2"}), (TypeError, {"a": 2.0}), (TypeError, {"a": [("x", 2.0)]}),
    (TypeError, {"a": True}), (TypeError, {"a": None}), (ValueError, {}), (ValueError, {"a": []}), (ValueError, {"a": ()}),
    (ValueError, {"a": [("x", )]}), (ValueError, {"a": [("x", 1, 2)]}), (ValueError, {"a": ["xy", 3]}), (ValueError, {"a": 0}),
    (ValueError, {"a": -1}), (ValueError, {"a": [("x", 0)]}), (ValueError, {"": 2}), (ValueError, {3: 2}),
    (ValueError, {"a": [("", 2)]}), (ValueError, {"a": [(4, 2)]}), (ValueError, {"a": 2, "b": [("a", 2)]}),
])
def test_wrong_topologies(error, topology):
    with pytest.raises(error, match="device_mesh"):
        tle.device_mesh(topology)


@pytest.mark.parametrize("sizes", [(), (5, ), (2, 2), (-1, 6), (0, )])
def test_wrong_reshapes(sizes):
    with pytest.raises(ValueError, match="reshape"):
        tle.device_mesh({"a": 6}).reshape(*sizes)


def test_identity_is_the_content():
    mesh = tle.device_mesh({"a": 2, "b": 2})
    assert mesh == tle.device_mesh({"a": 2, "b": 2}) and hash(mesh) == hash(tle.device_mesh({"a": 2, "b": 2}))
    assert mesh == copy.deepcopy(mesh)
    assert mesh[0] != mesh[1] and repr(mesh[0]) == repr(mesh[1]) and mesh[0].cache_key != mesh[1].cache_key
    assert mesh != tle.device_mesh({"a": 2, "c": 2}) and mesh != mesh.flatten() and mesh != "mesh"
    assert mesh[0] != tle.device_mesh({"b": 2}), "another launch"
    with pytest.raises(AttributeError, match="device_mesh.shape cannot be changed"):
        mesh.shape = (3, 3)


ROWS = tle.device_mesh({"row": 2, "column": 2})


@mimw.jit
def number_of(out, mesh: tl.constexpr):
    tl.store(out, mesh.physical_ids[0])


@mimw.jit
def number_of_a_global(out):
    part = ROWS[1, :]
    tl.store(out, part.flatten().physical_ids[0] + part.shape[0])
    for at in tl.static_range(ROWS.size):       # what a mesh has is known at compile time
        tl.static_assert(ROWS.physical_ids[at] == at)
    for axis in tl.static_range(part.shape[0] - 1):
        tl.static_assert(part.dim_names[axis] == "column")


def test_kernels_take_slice_and_flatten_meshes(machine):
    out = np.zeros(1, np.int32)
    machine.launch(number_of_a_global, (1, ), out)
    assert out[0] == 2 + 2


@triton.constexpr_function
def a_mesh(rows):
    return tle.device_mesh({"row": rows, "column": 2})


@mimw.jit
def mesh_made_here(out, ROWS: tl.constexpr):
    mesh: tl.constexpr = a_mesh(ROWS)
    tl.static_assert(mesh == tle.device_mesh({"grid": [("row", ROWS), ("column", 2)]}))
    for _ in tl.static_range(mesh.size):
        tl.store(out, mesh[-1, 1:].physical_ids[0])


def test_kernels_make_meshes(machine):
    """By a function of compile-time values, and as on the host."""
    out = np.zeros(1, np.int32)
    machine.launch(mesh_made_here, (1, ), out, 3)
    assert out[0] == 5


def test_a_mesh_that_a_kernel_makes_leaves_a_kernel_of_tritons():
    """The launch on a GPU compiles what no word of ours is left in by Triton's own generator, which knows no dictionaries."""
    assert "tt.store" in mimw.compile(mesh_made_here, (1, ), np.zeros(1, np.int32), 3, target="sm_90a").ttgir


def test_two_sub_meshes_are_two_kernels(machine):
    """`repr` of both is the same, and Triton's in-memory key goes by `repr`."""
    for row in (0, 1, 0):
        out = np.full(1, -1, np.int32)
        machine.launch(number_of, (1, ), out, ROWS[row])
        assert out[0] == 2 * row


def test_two_sub_meshes_have_two_cached_binaries(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    first, second = (number_of.warmup(MockTensor(tl.int32), ROWS[row], grid=(1, )) for row in (0, 1))
    assert first is not second and first.hash != second.hash


def test_a_global_mesh_is_part_of_the_hash():
    from mimw.compiler.pipeline import MimwSource
    scope = number_of_a_global.fn.__globals__
    kept, hashes = scope["ROWS"], []
    try:
        for mesh in (kept, tle.device_mesh({"row": 2, "column": 4})):
            scope["ROWS"] = mesh
            hashes.append(MimwSource(mimw.jit(number_of_a_global.fn), {"out": "*i32"}).hash())
    finally:
        scope["ROWS"] = kept
    assert hashes[0] != hashes[1]
