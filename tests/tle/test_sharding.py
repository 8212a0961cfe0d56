"""Where the pieces of a tensor are: the annotations, in and outside of kernels, and what is refused."""

import copy

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.tle import B, P, S

MESH = tle.device_mesh({"x": 2, "y": 4, "z": 2})
ROWS, TURNED = S("x"), tle.sharding(MESH, [None, "x"])


def test_marks():
    assert S("x").axis == "x" and P(["x", "y"]).axis == ("x", "y")
    assert S("x") == S("x") and hash(S("x")) == hash(S("x")) and S("x") != S("y") and S("x") != P("x")
    assert repr(B) == "B" and copy.deepcopy(B) is B
    for wrong in (3, None, ["x", 3]):
        with pytest.raises(TypeError):
            S(wrong)


def test_every_way_to_say_it():
    spec = tle.sharding(MESH, ["x", None])
    assert (spec.split, spec.partial, spec.broadcast) == ((("x", ), ()), (), ("y", "z"))
    assert tle.sharding(MESH, [S("x"), B]) == tle.sharding(MESH, (("x", ), [])) == spec
    assert tle.sharding(MESH, [S(("x", "y")), None]).split == tle.sharding(MESH, [["x", "y"], B]).split == (("x", "y"), ())
    for partial in ("z", ["z"], P("z"), [P("z")], [P(["z"])]):
        assert tle.sharding(MESH, ["x"], partial).partial == ("z", )
    assert tle.sharding(MESH, partial=["z", "x"]).partial == ("x", "z"), "in the order of the mesh"
    assert tle.sharding(MESH) == tle.sharding(MESH, []) and tle.sharding(MESH).broadcast == ("x", "y", "z")
    assert spec != tle.sharding(MESH[0:1], ["x", None]) and hash(spec) == hash(tle.sharding(MESH, ["x", []]))


def test_states():
    spec = tle.sharding(MESH, ["x"], ["z"])
    assert [spec.axis_state(name) for name in ("x", "y", "z", "none of it")] == ["S", "B", "P", "B"]


@pytest.mark.parametrize("error, arguments", [
    (TypeError, (None, )), (TypeError, ("x", ["x"])), (TypeError, (MESH, "x")), (TypeError, (MESH, {"x"})),
    (TypeError, (MESH, [3])), (TypeError, (MESH, [["x", 3]])), (TypeError, (MESH, [P("x")])), (TypeError, (MESH, [], 3)),
    (TypeError, (MESH, [], [None])), (TypeError, (MESH, [], [S("x")])), (ValueError, (MESH, ["w"])), (ValueError, (MESH, [""])),
    (ValueError, (MESH, ["x", "x"])), (ValueError, (MESH, [["x", "x"]])), (ValueError, (MESH, [], ["w"])),
    (ValueError, (MESH, [], ["x", "x"])), (ValueError, (MESH, ["x"], ["x"])), (ValueError, (MESH, [], "")),
])
def test_wrong_shardings(error, arguments):
    with pytest.raises(error, match="sharding"):
        tle.sharding(*arguments)


def test_sharded_tensors():
    spec = tle.sharding(MESH, [["x", "y"], None])
    tensor = tle.make_sharded_tensor("handle", spec, [16, 6])
    assert (tensor.handle, tensor.sharding, tensor.shape, tensor.shard_shape) == ("handle", spec, (16, 6), (2, 6))
    assert tle.make_sharded_tensor("handle", spec).shape is None


def test_axes_behind_the_end_of_a_split_are_whole():
    spec = tle.sharding(tle.device_mesh({"device": 4}), split=["device"])
    tensor = tle.make_sharded_tensor("handle", spec, [16, 32])
    assert (tensor.shape, tensor.shard_shape, spec.split) == ((16, 32), (4, 32), (("device", ), ))
    assert tle.make_sharded_tensor("handle", spec, [16, 3, 5]).shard_shape == (4, 3, 5)


@pytest.mark.parametrize("error, spec, shape", [
    (TypeError, "spec", (8, )), (TypeError, tle.sharding(MESH), 8), (TypeError, tle.sharding(MESH), "8"),
    (ValueError, tle.sharding(MESH, ["x", None]), (8, )), (ValueError, tle.sharding(MESH, ["x"]), ()),
    (ValueError, tle.sharding(MESH, [["x", "y"]]), (12, )),
])
def test_wrong_sharded_tensors(error, spec, shape):
    with pytest.raises(error, match="make_sharded_tensor"):
        tle.make_sharded_tensor("handle", spec, shape)


def test_specs_as_constants_are_told_apart():
    one, other = (tle.sharding(MESH[row], ["y"]) for row in (0, 1))
    assert repr(one) == repr(other) and one != other and one.cache_key != other.cache_key


@mimw.jit
def twice(sharded):
    return sharded.handle + sharded.handle


@mimw.jit
def annotate(x_ptr, y_ptr, mesh: tl.constexpr, N: tl.constexpr):
    spec = tle.sharding(mesh, [S("x")], partial=[P("z")])
    at = tl.arange(0, N)
    sharded = tle.make_sharded_tensor(tl.load(x_ptr + at), spec, shape=[2 * N])
    if spec.axis_state("z") == "P":
        sharded = tle.make_sharded_tensor(sharded.handle + 1, sharded.sharding, sharded.shape)
    total = tle.make_sharded_tensor(tl.full([N], 0, tl.int32), spec, [2 * N])
    for _ in range(3):
        total = tle.make_sharded_tensor(total.handle + sharded.handle, spec, [2 * N])
    marks = tle.sharding(mesh, [ROWS, tle.B, None], [P("z")])      # marks stand in lists of a kernel, under any name
    tl.static_assert(marks.split == ((ROWS.axis, ), (), ()))
    rows = S("x")
    tl.static_assert(tle.sharding(mesh, [tle.B, rows]) == TURNED)
    tl.store(y_ptr + at, twice(total))


def test_kernels_annotate_carry_and_pass_them_on(machine):
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    machine.launch(annotate, (1, ), x, y, MESH, 32)
    assert (y == 6 * (x + 1)).all()


@mimw.jit
def doubled(x, y, world, mesh: tl.constexpr, N: tl.constexpr):
    bound = tle.bind_mesh(mesh, world)
    spec = tle.sharding(bound, ["device"])
    part = tle.make_sharded_tensor(tl.load(x + tl.arange(0, N)), spec, [2 * N])
    for _ in range(2):
        part = tle.make_sharded_tensor(part.handle * 2, part.sharding, part.shape)
    tl.static_assert(part.sharding == spec)
    tl.store(y + tl.arange(0, 2 * N), tle.reshard(part, tle.sharding(part.sharding.mesh)).handle)


def test_the_sharding_of_a_tensor_on_gpus_keeps_the_gpus():
    world = mimw.World(2)
    x, y = (world.each(lambda rank: np.arange(rank, n + rank, dtype=np.int32), name) for n, name in ((8, "x"), (16, "y")))
    mimw.simulate(doubled, (1, ), x, y, world, tle.device_mesh({"device": 2}), 8, races=True)
    assert (y[0] == 4 * np.concatenate(x.values)).all() and (y[0] == y[1]).all()
