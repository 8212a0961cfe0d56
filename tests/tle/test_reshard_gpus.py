"""The transition table over GPUs: every shard of every result against numpy; meshes of devices, and of clusters or blocks, too."""

import re
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.compiler.passes import run_passes
from mimw.runtime.simulate import prepare
from mimw.target import target
from mimw.tools.check import Search
from tests.compiling import to_assembly, to_ttgir
from tests.kernels.heaps import Heaps
from tests.kernels.resharding import M, N, change, changing, constants, grid_of, pieces, shards, shards_of_others
from tests.tle.compiling import refused

GPUS = tle.device_mesh({"node": 2, "device": 2})
CLUSTERS = tle.device_mesh({"device": 2, "cluster_x": 2})
BLOCKS = tle.device_mesh({"device": 2, "block": 2})


def rows(mesh):
    x, y = mesh.dim_names

    def spec(split=None, partial=None):
        return tle.sharding(mesh, split, partial)

    return {
        "scatter": (spec(), spec([x, y])),
        "gather": (spec([x, y]), spec()),
        "gather of one axis": (spec([[x, y], None]), spec()),
        "reduce": (spec([], [x, y]), spec()),
        "own slice": (spec([x, None]), spec([x, y])),
        "all-gather": (spec([x, y]), spec([x, None])),
        "all-gather of the outer axis": (spec([[x, y], None]), spec([y, None])),
        "all-reduce": (spec([y, None], [x]), spec([y, None])),
        "all-to-all": (spec([x, None]), spec([None, x])),
        "all-to-all of both": (spec([x, y]), spec([y, x])),
        "other order": (spec([[x, y], None]), spec([[y, x], None])),
        "reduce-scatter": (spec([], [x]), spec([None, x])),
        "reduce-scatter of both": (spec([], [x, y]), spec([y, x])),
        "one of two sums": (spec([], [x, y]), spec([], [y])),
        "same": (spec([x, y]), spec([x, y])),
    }


CASES = [(mesh, row) for mesh in (GPUS, CLUSTERS) for row in rows(mesh)]
CASES += [(BLOCKS, row) for row in ("gather", "reduce", "all-reduce", "all-to-all of both", "own slice")]


@pytest.mark.parametrize("mesh, row", CASES, ids=lambda case: "-".join(getattr(case, "dim_names", (case, ))))
def test_the_table(mesh, row):
    have, want = rows(mesh)[row]
    (kernel, grid, args, _), expected = changing(have, want)
    mimw.simulate(kernel, grid, *args, seed=len(row), races=True)
    if want.partial:
        both = np.stack(list(args[1]), 1).reshape(2, 2, 2, M, N)
        whole = np.stack(list(expected), 1).reshape(2, 2, 2, M, N)
        assert (both.sum(2) == whole.sum(2)).all()
        return
    assert all((one == other).all() for one, other in zip(args[1], expected))


@pytest.mark.parametrize("row", ["reduce", "all-to-all of both", "other order"])
def test_clusters_of_one_gpu_do_not_get_in_each_others_way(row):
    """Three clusters a GPU, each with a tensor of its own."""
    have, want = rows(CLUSTERS)[row]
    x, expected = (np.concatenate([one * (number + 1) for number in range(3)], 2) for one in shards(have, want))
    world = mimw.World(2)
    y = world.each(lambda rank: np.zeros_like(expected[rank]), "y")
    mimw.simulate(change, (3, ), world.each(x, "x"), y, world, *constants(have, want), seed=5, races=True)
    assert all((one == other).all() for one, other in zip(y, expected))


def test_sums_are_in_the_order_of_the_ranks_and_wide():
    """In bf16 a sum of three that is rounded once is another one than one that is rounded twice."""
    mesh = tle.device_mesh({"device": 3})
    have, want = tle.sharding(mesh, [], ["device"]), tle.sharding(mesh)
    (kernel, grid, args, _), _ = changing(have, want, np.float16, 1)
    random = np.random.default_rng(0)
    for one in args[0]:
        one[...] = random.standard_normal(one.shape)
    mimw.simulate(kernel, grid, *args)
    a, b, c = (one.astype(np.float32) for one in args[0])
    assert all((one == ((a + b) + c).astype(np.float16)).all() for one in args[1])
    assert (args[1][0] != ((args[0][0] + args[0][1]) + args[0][2])).any()


@pytest.mark.parametrize("mesh", [GPUS, CLUSTERS], ids=["gpus", "clusters"])
def test_no_barrier_is_one_too_many(mesh):
    """Without any one of those among GPUs that the word brings along, a race is found."""
    (kernel, grid, args, _), _ = changing(*rows(mesh)["reduce"])
    launch = prepare(kernel, grid, args, {}, "sm_90a")
    barriers = [op for op in launch.recorded.walk() if op.name == "world_barrier"]
    assert len(barriers) == 2

    def without(block, op):
        return block.with_ops([one.with_blocks(lambda inner: without(inner, op)) for one in block.ops if one is not op])

    for op in barriers:
        program = run_passes(replace(launch.recorded, body=without(launch.recorded.body, op)), target("sm_90a"))
        assert not Search(replace(launch, program=program)).all(2, "random", 4, shrink=False).ok, op


def test_no_order_is_wrong():
    (kernel, grid, args, _), _ = changing(*rows(CLUSTERS)["all-to-all of both"])
    assert mimw.check(kernel, grid, *args, seeds=3).ok


@mimw.jit
def handles(x, y, world, MESH: tl.constexpr, KIND: tl.constexpr):
    """The shard is in a buffer, behind pointers, or a part of what the GPU has in global memory; or all there is, one number."""
    mesh = tle.bind_mesh(MESH, world)
    spec, whole = tle.sharding(mesh, ["cluster_x", "device"]), tle.sharding(mesh)
    r, c = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    mine = x + 8 * 16 * tle.shard_id(mesh, "cluster_x") + r * 16 + c
    if KIND == "global":
        result = tle.reshard(tle.make_sharded_tensor(x, spec, [16, 32]), whole)
    if KIND == "pointers":
        result = tle.reshard(tle.make_sharded_tensor(mine, spec, [16, 32]), whole)
    if KIND == "buffer":
        tile = tle.gpu.alloc([8, 16], x.dtype.element_ty, init_value=tl.load(mine))
        result = tle.reshard(tle.make_sharded_tensor(tile, spec, [16, 32]), whole)
    if KIND == "number":
        part = tle.make_sharded_tensor(tl.load(x), tle.sharding(mesh, None, ["device", "cluster_x"]), [])
        tl.store(y + tl.program_id(0), tle.reshard(part, whole).handle)
    else:
        at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
        tl.store(y + tl.program_id(0) * 512 + at, result.handle)


@pytest.mark.parametrize("kind", ["global", "pointers", "buffer", "number"])
def test_handles(kind):
    """What a GPU has of a tensor are the pieces of its CTAs."""
    whole = np.arange(512, dtype=np.float32).reshape(16, 32)
    world = mimw.World(2)
    x = world.each(lambda rank: np.ascontiguousarray(whole[:, 16 * rank:16 * rank + 16]), "x")
    y = world.each(lambda rank: np.zeros((2, 16, 32), np.float32), "y")
    mimw.simulate(handles, (1, ), x, y, world, CLUSTERS, kind, races=True)
    if kind == "number":
        assert all((one.reshape(-1)[:2] == 2 * (whole[0, 0] + whole[0, 16])).all() for one in y)
    else:
        assert all((one == whole).all() for one in y)


@mimw.jit
def in_a_part(x, y, world, MESH: tl.constexpr, N: tl.constexpr):
    """The GPUs of the second node gather for themselves."""
    part = tle.bind_mesh(MESH, world)[1]
    at = tl.arange(0, N)
    if tle.shard_id(part, "node") == 1:
        whole = tle.reshard(tle.make_sharded_tensor(tl.load(x + at), tle.sharding(part, ["device"])), tle.sharding(part))
        tl.store(y + tl.arange(0, 2 * N), whole.handle)


def test_a_part_of_the_world():
    world = mimw.World(4)
    x = world.each(lambda rank: np.full(16, rank, np.int8), "x")
    y = world.each(lambda rank: np.zeros(32, np.int8), "y")
    mimw.simulate(in_a_part, (1, ), x, y, world, GPUS, 16, races=True)
    assert [set(map(int, one)) for one in y] == [{0}, {0}, {2, 3}, {2, 3}]


@pytest.mark.parametrize("kind", ["coordinates", "number", "box"])
def test_remote_shards(kind):
    whole = np.arange(512, dtype=np.float32).reshape(16, 32)
    world = mimw.World(2)
    x, y = world.symmetric((16, 16), "float32", "x"), world.each(lambda rank: np.zeros((2, 8, 16), np.float32), "y")
    for rank in range(2):
        x[rank][...] = whole[:, 16 * rank:16 * rank + 16]
    mimw.simulate(shards_of_others, (1, ), x, y, world, CLUSTERS, kind, races=True)
    assert all((y[rank][cta] == x[1 - rank][8 * (1 - cta):][:8]).all() for rank in range(2) for cta in range(2))


def test_a_world_without_room_for_the_scratch():
    have, want = rows(GPUS)["gather"]
    (kernel, grid, args, _), _ = changing(have, want)
    small = mimw.World(4, scratch=256)
    with pytest.raises(mimw.errors.SimulatorMisuse, match="of 512 bytes of workspace are 512 bytes, and the world has 256"):
        mimw.simulate(kernel, grid, *args[:2], small, *args[3:])


@mimw.jit
def wrong(x, world, MESH: tl.constexpr, HOW: tl.constexpr):
    mesh = tle.bind_mesh(MESH, world)
    tile = tl.zeros([16, 32], tl.float32)
    spec, whole = tle.sharding(mesh, ["device"]), tle.sharding(mesh)
    if HOW == "partial":
        tle.reshard(tle.make_sharded_tensor(tile, whole), tle.sharding(mesh, [], ["device"]))
    if HOW == "unbound":
        tle.reshard(tle.make_sharded_tensor(tile, tle.sharding(MESH)), spec)
    if HOW == "mesh":
        tle.reshard(tle.make_sharded_tensor(tile, spec), tle.sharding(mesh.flatten()))
    if HOW == "clusters":
        tle.reshard(tle.make_sharded_tensor(tile, tle.sharding(mesh, ["block"])), whole)
    if HOW == "buffer":
        tle.remote(tle.make_sharded_tensor(tle.gpu.alloc([16, 32], tl.float32), spec), 1)
    if HOW == "registers":
        tle.remote(tle.make_sharded_tensor(tile, spec), 1)
    if HOW == "scope":
        tle.remote(tle.make_sharded_tensor(tile, tle.sharding(MESH)), 1, scope=mesh)
    if HOW == "number":
        tle.remote(tle.make_sharded_tensor(x, spec, [16, 32]), mesh.size)
    if HOW == "dot":
        tle.distributed_dot(tle.make_sharded_tensor(tile, spec), tle.make_sharded_tensor(tile, tle.sharding(MESH)))
    if HOW == "flat":
        flat = mesh.flatten()
        tle.reshard(tle.make_sharded_tensor(x, tle.sharding(flat, ["flat"]), [16, 32]), tle.sharding(flat))


@pytest.mark.parametrize("error, match, mesh, how", [
    (ValueError, "B -> P along 'device'", GPUS, "partial"),
    (ValueError, "is bound to GPUs, and the tensor's is not", CLUSTERS, "unbound"),
    (ValueError, "another mesh", GPUS, "mesh"),
    (NotImplementedError, "axis 'block' of", tle.device_mesh({"device": 2, "block": 2, "cluster": 2}), "clusters"),
    (TypeError, "which other GPUs do not reach", GPUS, "buffer"),
    (TypeError, "in the registers of its CTA", GPUS, "registers"),
    (ValueError, "and the tensor's mesh is not", CLUSTERS, "scope"),
    (ValueError, "shard 4 of", GPUS, "number"),
    (ValueError, "bound to GPUs, and that of the other is not", CLUSTERS, "dot"),
    (ValueError, "counts GPUs and CTAs in one", CLUSTERS, "flat"),
])
def test_refusals(error, match, mesh, how):
    refused(error, match, wrong, {"x": "*fp32", "world": "*i64"}, MESH=mesh, HOW=how)


def compiled(have, want, target="sm_90a"):
    names = ("have", "want", "M", "N", "M1", "N1", "M2", "N2", "TIMES")
    extents = (64, 64, *(64 // spec.factor(axis) for spec in (have, want) for axis in (0, 1)), 1)
    types = {"x": "*fp32", "y": "*fp32", "world": "*i64"}
    attrs = {(index, ): [["tt.divisibility", 16]] for index in range(3)}
    return to_assembly(change, types, dict(zip(names, (have, want, *extents))), attrs=attrs, target=target).stages["ptx"]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_what_goes_over_nvlink_is_wide(target):
    """Stores of the shard, loads as wide, between two barriers of ranks; a launch of too many programs ends in a trap."""
    ptx = compiled(*rows(GPUS)["gather"], target)
    assert not re.search(r"(ld|st)\.global\.(b32|v2\.b32)", ptx)
    put = [place.start() for place in re.finditer(r"atom\.cas\.release\.sys", ptx)]
    takes = [place.start() for place in re.finditer(r"atom\.cas\.acquire\.sys", ptx)]
    own, *_, read = (place.start() for place in re.finditer(r"ld\.global\.v4\.b32", ptx))
    assert own < ptx.index("st.global.v4.b32") < put[0] < takes[0] < read < put[1] < takes[1]
    assert len(re.findall(r"ld\.global\.v4\.b32", ptx[takes[0]:put[1]])) == 64 * 64 // 128 // 4
    assert re.search(r"setp\.gt\.s64 on, .*\n\s*@on trap", ptx)


def test_what_stays_in_the_cluster_is_in_shared_memory():
    """Only the sums of clusters go through the scratch, and a slice goes nowhere."""
    have, want = rows(CLUSTERS)["reduce"]
    ptx = compiled(have, want)
    assert ptx.count("ld.shared::cluster.v4.b32") == 2 * 64 * 64 // 128 // 4 and ptx.count("atom.cas.acquire.sys") == 2
    own = compiled(*rows(CLUSTERS)["own slice"])
    assert "atom.cas" not in own and "shared::cluster" not in own


def test_clusters_of_two_words():
    """A mesh beside the clusters counts them: its coordinate is that of this program's cluster."""
    mesh = tle.device_mesh({"block": 2, "cluster": 2})
    spec = tle.sharding(mesh, ["block", "cluster"])
    whole = np.arange(256, dtype=np.float32).reshape(16, 16)
    y = np.zeros((4, 8, 16), np.float32)
    mimw.simulate(columns, (2, ), pieces(whole, spec, 0), y, spec, tle.sharding(mesh, ["block"]))
    assert (y == pieces(whole, tle.sharding(mesh, ["block"]), 0)).all()


@mimw.jit
def columns(x, y, have: tl.constexpr, want: tl.constexpr):
    at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    shard = tle.make_sharded_tensor(tl.load(x + tl.program_id(0) * 64 + at), have, [16, 16])
    place = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(y + tl.program_id(0) * 128 + place, tle.reshard(shard, want).handle)


def test_gpus_that_have_no_cluster_are_not_asked_for_one():
    assert "nvvm.cluster_dim" not in to_ttgir(change, {"x": "*fp32", "y": "*fp32", "world": "*i64"}, dict(
        zip(("have", "want", "M", "N", "M1", "N1", "M2", "N2", "TIMES"), constants(*rows(GPUS)["gather"], 1)))).stages["ttgir"]


PAIR = tle.device_mesh({"device": 2})
ON_TWO = {
    "all-to-all": (tle.sharding(PAIR, ["device"]), tle.sharding(PAIR, [None, "device"])),
    "all-reduce": (tle.sharding(PAIR, [], ["device"]), tle.sharding(PAIR)),
    "reduce-scatter": (tle.sharding(PAIR, [], ["device"]), tle.sharding(PAIR, ["device"])),
    **{f"{row} with clusters": rows(CLUSTERS)[row] for row in ("gather", "reduce", "all-to-all of both")},
}


@pytest.mark.gpu
@pytest.mark.parametrize("case", ON_TWO)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8], ids=lambda dtype: np.dtype(dtype).name)
def test_two_ranks_on_one_gpu(case, dtype):
    """Twenty times in a row, with no barrier of the user's."""
    torch = pytest.importorskip("torch")
    have, want = ON_TWO[case]
    x, expected = (torch.from_numpy(one).cuda() for one in shards(have, want, dtype, 20))
    heaps, y = Heaps(2), torch.zeros_like(expected)
    for _ in range(2):      # the first launch loads the binary
        y.zero_()
        heaps.launch(change, grid_of(have.mesh), lambda rank, world: (x[rank], y[rank], world, *constants(have, want, 20)))
        assert torch.equal(y, expected)
        assert heaps.pads_are_zero()
