"""Matrix products over GPUs, and over GPUs and their clusters: every way in which the operands may be spread, against numpy."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from tests.kernels.heaps import Heaps
from tests.kernels.resharding import gpus_of, pieces
from tests.tle.test_distributed_dot import CASES

GPUS = tle.device_mesh({"node": 2, "device": 2})
CLUSTERS = tle.device_mesh({"device": 2, "cluster_x": 2})
M = N = K = 32


@mimw.jit
def multiply(a, b, out, world, spec_a: tl.constexpr, spec_b: tl.constexpr, spec_c: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
             K: tl.constexpr, FACTORS: tl.constexpr):
    mesh = tle.bind_mesh(spec_a.mesh, world)
    me = tl.program_id(0)
    MA: tl.constexpr = M // FACTORS[0]
    KA: tl.constexpr = K // FACTORS[1]
    KB: tl.constexpr = K // FACTORS[2]
    NB: tl.constexpr = N // FACTORS[3]
    MC: tl.constexpr = M // FACTORS[4]
    NC: tl.constexpr = N // FACTORS[5]
    tile_a = tl.load(a + me * MA * KA + tl.arange(0, MA)[:, None] * KA + tl.arange(0, KA)[None, :])
    tile_b = tl.load(b + me * KB * NB + tl.arange(0, KB)[:, None] * NB + tl.arange(0, NB)[None, :])
    result = tle.distributed_dot(
        tle.make_sharded_tensor(tile_a, tle.sharding(mesh, spec_a.split, spec_a.partial), [M, K]),
        tle.make_sharded_tensor(tile_b, tle.sharding(mesh, spec_b.split, spec_b.partial), [K, N]))
    tl.static_assert(result.sharding == spec_c)
    if len(spec_c.partial) > 0:
        result = tle.reshard(result, tle.sharding(mesh, spec_c.split))
    tl.store(out + me * MC * NC + tl.arange(0, MC)[:, None] * NC + tl.arange(0, NC)[None, :], result.handle)


def launch(mesh, case):
    """The shards of a and b, what each rank should have of the product, and the constants."""
    names = dict(zip("xy", mesh.dim_names))

    def renamed(entry):
        return names[entry] if isinstance(entry, str) else entry if entry is None else [names[one] for one in entry]

    split_a, split_b, split, partial = CASES[case]
    spec_a, spec_b, spec_c, whole = (
        tle.sharding(mesh, None if cuts is None else [renamed(one) for one in cuts], [names[one] for one in sums])
        for cuts, sums in ((split_a, ()), (split_b, ()), (split, partial), (split, ())))
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (M, K)).astype(np.float16), random.integers(-3, 4, (K, N)).astype(np.float16)
    arrays = pieces(a, spec_a, 1), pieces(b, spec_b, 2), pieces(a.astype(np.float32) @ b.astype(np.float32), whole, 0)
    arrays = [one.reshape(gpus_of(mesh), -1, *one.shape[1:]) for one in arrays]
    factors = tuple(one.factor(axis) for one in (spec_a, spec_b, spec_c) for axis in (0, 1))
    return *arrays, (spec_a, spec_b, spec_c, M, N, K, factors)


@pytest.mark.parametrize("mesh", [GPUS, CLUSTERS], ids=["gpus", "clusters"])
@pytest.mark.parametrize("case", CASES)
def test_every_case(mesh, case):
    a, b, expected, constants = launch(mesh, case)
    world = mimw.World(len(a))
    out = world.each(lambda rank: np.zeros_like(expected[rank]), "out")
    mimw.simulate(multiply, (1, ), world.each(a, "a"), world.each(b, "b"), out, world, *constants, races=True)
    assert all((one == other).all() for one, other in zip(out, expected))


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_two_ranks_on_one_gpu(case):
    torch = pytest.importorskip("torch")
    *arrays, constants = launch(CLUSTERS, case)
    a, b, expected = (torch.from_numpy(np.ascontiguousarray(one)).cuda() for one in arrays)
    heaps, out = Heaps(2), torch.zeros_like(expected)
    for _ in range(2):      # the first launch loads the binary
        out.zero_()
        heaps.launch(multiply, (1, ), lambda rank, world: (a[rank], b[rank], out[rank], world, *constants))
        assert torch.equal(out, expected) and heaps.pads_are_zero()
