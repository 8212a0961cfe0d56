"""A matrix product whose operands are spread over GPUs, and maybe over their clusters; and the ways to spread operands.

Input: a mesh with two axes and a case of `CASES`. Output: the shards of a and b and what each rank should have of the product,
arrays [ranks, programs, rows, columns], and the kernel's constants. An example:

    a, b, expected, constants = launch(tle.device_mesh({"device": 2, "cluster_x": 2}), "K over y in both")
    mimw.simulate(multiply, (1, ), world.each(a), world.each(b), out, world, *constants)

Shapes: 32 x 32 times 32 x 32 by default, in fp16. It plants no mistakes.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle

from .resharding import gpus_of, pieces

# name: (a, b, split of the result, partial of the result)
CASES = {
    "M over x, N over y": (["x", None], [None, "y"], ("x", "y"), ()),
    "a whole": (None, [None, "y"], (None, "y"), ()),
    "b whole": (["x", None], None, ("x", None), ()),
    "both whole": (None, None, (None, None), ()),
    "K over y in both": ([None, "y"], ["y", None], (None, None), ("y", )),
    "K over y, M over x": (["x", "y"], ["y", None], ("x", None), ("y", )),
    "K over y in a": ([None, "y"], None, (None, None), ("y", )),
    "K over y in b": (["x", None], ["y", None], ("x", None), ("y", )),
    "K over x in a, over y in b": ([None, "x"], ["y", None], (None, None), ("x", )),
    "x splits M and N": (["x", None], [None, "x"], ("x", None), ()),
    "x splits M and K of b": (["x", None], ["x", None], ("x", None), ()),
    "x splits K of a and N": ([None, "x"], [None, "x"], (None, "x"), ()),
    "a over both axes, b too": (["x", "y"], ["x", "y"], ("x", "y"), ()),
    "short splits": (["x"], ["y"], ("x", None), ("y", )),
    "two axes cut M": ([["x", "y"], None], [None, "y"], (("x", "y"), None), ()),
}

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


def launch(mesh, case, extent=32):
    """The shards of a and b, what each rank should have of the product, and the constants; of matrices extent x extent."""
    names = dict(zip("xy", mesh.dim_names))

    def renamed(entry):
        return names[entry] if isinstance(entry, str) else entry if entry is None else [names[one] for one in entry]

    split_a, split_b, split, partial = CASES[case]
    spec_a, spec_b, spec_c, whole = (
        tle.sharding(mesh, None if cuts is None else [renamed(one) for one in cuts], [names[one] for one in sums])
        for cuts, sums in ((split_a, ()), (split_b, ()), (split, partial), (split, ())))
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (2, extent, extent)).astype(np.float16)
    arrays = pieces(a, spec_a, 1), pieces(b, spec_b, 2), pieces(a.astype(np.float32) @ b.astype(np.float32), whole, 0)
    arrays = [one.reshape(gpus_of(mesh), -1, *one.shape[1:]) for one in arrays]
    factors = tuple(one.factor(axis) for one in (spec_a, spec_b, spec_c) for axis in (0, 1))
    return *arrays, (spec_a, spec_b, spec_c, extent, extent, extent, factors)
