"""Where a program is in the mesh, and the launch that a mesh makes."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.runtime.compile_kernel import compile_kernel
from tests.tle.compiling import launched, refused

PAIR = tle.device_mesh({"block_cluster": 2})
SQUARE = tle.device_mesh({"block_cluster": [("cluster_x", 2), ("cluster_y", 4)]})
PLAIN = tle.device_mesh({"node": 2, "device": 4})
BESIDE = tle.device_mesh({"block": 3, "cluster": 2})


@mimw.jit
def ids(out, mesh: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr):
    at = out + 4 * tl.program_id(0)
    tl.store(at, tle.shard_id(mesh, FIRST))
    tl.store(at + 1, tle.shard_id(mesh, SECOND))
    tl.store(at + 2, tl.program_id(0))
    tl.store(at + 3, tl.num_programs(0))


@pytest.mark.parametrize("mesh, first, second, shape", [(SQUARE, "cluster_x", "cluster_y", (2, 4)), (PLAIN, 0, -1, (2, 4)),
                                                        (PAIR, 0, "block_cluster", (2, ))])
def test_the_grid_counts_clusters(machine, mesh, first, second, shape):
    size, clusters = mesh.size, 3
    out = np.full((clusters * size, 4), -1, np.int32)
    machine.launch(ids, (clusters, ), out, mesh, first, second)
    number = np.arange(clusters * size)
    place = np.unravel_index(number % size, shape)
    assert (out.T == [place[0], place[-1], number, np.full_like(number, clusters * size)]).all()


def test_sub_meshes_name_the_axes_of_the_root(machine):
    out = np.full((8, 4), -1, np.int32)
    machine.launch(ids, (1, ), out, SQUARE[1, :], "cluster_x", 1)
    assert (out[:, 0] == np.arange(8) // 4).all() and (out[:, 1] == np.arange(8) % 4).all()


def test_other_axes_count_clusters(machine):
    out = np.full((12, 4), -1, np.int32)
    machine.launch(ids, (6, ), out, BESIDE, "block", "cluster")
    assert (out[:, 0] == np.arange(12) // 2 % 3).all() and (out[:, 1] == np.arange(12) % 2).all()


def test_a_mesh_of_blocks_makes_no_clusters(machine):
    out = np.full((6, 4), -1, np.int32)
    machine.launch(ids, (6, ), out, tle.device_mesh({"block": [("block_x", 3), ("block_y", 2)]}), "block_x", "block_y")
    assert (out[:, 0] == np.arange(6) // 2).all() and (out[:, 1] == np.arange(6) % 2).all()


@pytest.mark.parametrize("error, mesh, axis", [(TypeError, "mesh", 0), (TypeError, PAIR, 1.0), (TypeError, PAIR, None),
                                               (ValueError, PAIR, "x"), (IndexError, PAIR, 1), (IndexError, PAIR, -2),
                                               (NotImplementedError, tle.device_mesh({"device": 2, "cluster": 2}), "device"),
                                               (ValueError, tle.device_mesh({"cluster": 32}), 0),
                                               (ValueError, tle.device_mesh({"cluster": [("cx", 3), ("cy", 6)]}), 0)])
def test_wrong_uses(error, mesh, axis):
    refused(error, "tle.shard_id", ids, {"out": "*i32"}, mesh=mesh, FIRST=axis, SECOND=axis)


@mimw.jit
def two_meshes(out, one: tl.constexpr, other: tl.constexpr):
    tl.store(out, tle.shard_id(one, 0) + tle.shard_id(other, 0))


def test_all_meshes_of_a_kernel_agree():
    refused(ValueError, "all meshes of a kernel agree", two_meshes, {"out": "*i32"}, one=PAIR, other=SQUARE)


def test_launch_options():
    refused(ValueError, "num_ctas=1", ids, {"out": "*i32"}, options={"num_ctas": 2}, mesh=PAIR, FIRST=0, SECOND=0)
    refused(ValueError, "ctas_per_cga", ids, {"out": "*i32"}, options={"ctas_per_cga": (4, 1, 1)}, mesh=PAIR, FIRST=0, SECOND=0)


def test_what_the_compiled_kernel_says(monkeypatch, tmp_path):
    """Also when it comes from the cache on disk, where nothing is recorded."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    constants = {"mesh": SQUARE, "FIRST": 0, "SECOND": 1}
    for _ in range(2):
        kernel = compile_kernel(ids, {"out": "*i32"}, constants)
        assert kernel.metadata.cluster_dims == (8, 1, 1) and kernel.metadata.num_ctas == 1
        assert ".reqnctapercluster 8" in kernel.stages["ptx"]
    assert launched(ids, {"out": "*i32"}, constants) == (4, 8, 0)
    blocks = tle.device_mesh({"block": [("block_x", 2), ("block_y", 4)]})
    alone = compile_kernel(ids, {"out": "*i32"}, {**constants, "mesh": blocks})
    assert alone.metadata.cluster_dims == (1, 1, 1)


def test_sixteen_ctas(machine):
    out = np.full((16, 4), -1, np.int32)
    machine.launch(ids, (1, ), out, tle.device_mesh({"cluster": [("cx", 4), ("cy", 4)]}), "cx", "cy")
    assert (out[:, 0] * 4 + out[:, 1] == np.arange(16)).all()


def test_sixteen_ctas_compile():
    kernel = compile_kernel(ids, {"out": "*i32"}, {"mesh": tle.device_mesh({"cluster": 16}), "FIRST": 0, "SECOND": 0})
    assert kernel.metadata.cluster_dims == (16, 1, 1)


def test_where_the_launch_asks_for_the_same_clusters_its_grid_counts_ctas(machine):
    out = np.full((4, 4), -1, np.int32)
    machine.launch(ids, (4, ), out, PAIR, 0, 0, ctas_per_cga=(2, 1, 1))
    assert (out[:, 0] == [0, 1, 0, 1]).all() and (out[:, 3] == 4).all()
