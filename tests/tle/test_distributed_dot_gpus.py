"""Matrix products over GPUs, and over GPUs and their clusters: every way in which the operands may be spread, against numpy."""

import numpy as np
import pytest

import mimw
import mimw.tle as tle
from tests.kernels.heaps import Heaps
from tests.kernels.sharded_product import CASES, launch, multiply

GPUS = tle.device_mesh({"node": 2, "device": 2})
CLUSTERS = tle.device_mesh({"device": 2, "cluster_x": 2})


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
