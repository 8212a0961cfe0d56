"""Matrix products over a cluster: every way in which the operands may be spread, against numpy."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.language.tle.dot import plan
from tests.compiling import to_ttgir
from tests.kernels.resharding import pieces
from tests.kernels.sharded_product import CASES
from tests.tle.compiling import refused

SQUARE = tle.device_mesh({"cluster": [("x", 2), ("y", 2)]})
PAIR = tle.device_mesh({"cluster": [("x", 2)]})
M, N, K = 64, 64, 64


def spec(split=None, partial=None, mesh=SQUARE):
    return tle.sharding(mesh, split, partial)


@mimw.jit
def multiply(a, b, c, out, spec_a: tl.constexpr, spec_b: tl.constexpr, spec_c: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
             K: tl.constexpr, FACTORS: tl.constexpr, HAS_C: tl.constexpr):
    me = tl.program_id(0)
    MA: tl.constexpr = M // FACTORS[0]
    KA: tl.constexpr = K // FACTORS[1]
    KB: tl.constexpr = K // FACTORS[2]
    NB: tl.constexpr = N // FACTORS[3]
    MC: tl.constexpr = M // FACTORS[4]
    NC: tl.constexpr = N // FACTORS[5]
    tile_a = tl.load(a + me * MA * KA + tl.arange(0, MA)[:, None] * KA + tl.arange(0, KA)[None, :])
    tile_b = tl.load(b + me * KB * NB + tl.arange(0, KB)[:, None] * NB + tl.arange(0, NB)[None, :])
    sharded_a = tle.make_sharded_tensor(tile_a, spec_a, [M, K])
    sharded_b = tle.make_sharded_tensor(tile_b, spec_b, [K, N])
    at = me * MC * NC + tl.arange(0, MC)[:, None] * NC + tl.arange(0, NC)[None, :]
    if HAS_C:
        result = tle.distributed_dot(sharded_a, sharded_b, tle.make_sharded_tensor(tl.load(c + at), spec_c, [M, N]))
    else:
        result = tle.distributed_dot(sharded_a, sharded_b)
    tl.static_assert(result.sharding == spec_c)
    tl.store(out + at, result.handle)


def launch(machine, spec_a, spec_b, spec_c, dtype, with_c=False):
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (M, K)).astype(dtype), random.integers(-3, 4, (K, N)).astype(dtype)
    kind = np.int32 if dtype == np.int8 else np.float32
    c = random.integers(-3, 4, (M, N)).astype(kind)
    shards = pieces(a, spec_a, 1), pieces(b, spec_b, 2)
    c_shards = pieces(c, spec_c, 3)
    out = np.zeros_like(c_shards)
    factors = tuple(one.factor(axis) for one in (spec_a, spec_b, spec_c) for axis in (0, 1))
    machine.launch(multiply, (1, ), *shards, c_shards, out, spec_a, spec_b, spec_c, M, N, K, factors, with_c)
    expected = a.astype(kind) @ b.astype(kind) + (c if with_c else 0)
    if spec_c.partial:
        mesh = spec_c.mesh
        axis = mesh.dim_names.index(spec_c.partial[0])
        out = out.reshape(*mesh.shape, *out.shape[1:]).sum(axis, keepdims=True)
        out = np.broadcast_to(out, (*mesh.shape, *out.shape[2:])).reshape(mesh.size, *out.shape[2:])
        spec_c = tle.sharding(mesh, list(spec_c.split))
    assert (out == pieces(expected, spec_c, 0)).all()


@pytest.mark.parametrize("case", CASES)
def test_every_case(machine, case):
    split_a, split_b, split, partial = CASES[case]
    launch(machine, spec(split_a), spec(split_b), spec(list(split), list(partial)), np.float16)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, np.int8], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("case", ["M over x, N over y", "x splits M and N", "K over y in both"])
def test_types_and_an_accumulator(machine, dtype, case):
    split_a, split_b, split, partial = CASES[case]
    launch(machine, spec(split_a), spec(split_b), spec(list(split), list(partial)), dtype, with_c=True)


def test_partial_operands_give_partial_results():
    whole, part = spec([None, None]), spec([None, None], ["x"])
    assert plan(part, whole) == (tle.sharding(SQUARE, [None, None], ["x"]), tle.sharding(SQUARE, [None, None]))


@mimw.jit
def global_handles(a, b, out, mesh: tl.constexpr, spec_a: tl.constexpr, spec_b: tl.constexpr):
    """The design page's use: tensors in global memory, the product in one line, the sum of the slices in another."""
    product = tle.distributed_dot(tle.make_sharded_tensor(a, spec_a, [64, 128]), tle.make_sharded_tensor(b, spec_b, [128, 32]))
    whole = tle.reshard(product, tle.sharding(mesh))
    at = tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(out + tl.program_id(0) * 2048 + at, whole.handle)


def test_tensors_in_global_memory(machine):
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (64, 128)).astype(np.float16), random.integers(-3, 4, (128, 32)).astype(np.float16)
    out = np.zeros((2, 64, 32), np.float32)
    machine.launch(global_handles, (1, ), a, b, out, PAIR, spec([None, "x"], mesh=PAIR), spec(["x", None], mesh=PAIR))
    assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()


@mimw.jit
def wrong(x, spec_a: tl.constexpr, spec_b: tl.constexpr, spec_c: tl.constexpr, K: tl.constexpr, C: tl.constexpr):
    a, b = tl.zeros([32, 32], tl.float16), tl.zeros([32, 32], tl.float16)
    if spec_a is None:
        tle.distributed_dot(a, b)
    else:
        first = tle.make_sharded_tensor(a, spec_a, None)
        if C is None:
            tle.distributed_dot(first, tle.make_sharded_tensor(b, spec_b, [K, 32 * spec_b.factor(1)]))
        else:
            second, third = tle.make_sharded_tensor(b, spec_b, [K, 32]), tle.make_sharded_tensor(tl.zeros([32, 32], C), spec_c)
            tle.distributed_dot(first, second, third)


@pytest.mark.parametrize("error, match, a, b, c, k, kind", [
    (TypeError, "`a` must be a ShardedTensor", None, None, None, 32, None),
    (ValueError, "another mesh", spec(), spec(mesh=PAIR), None, 32, None),
    (ValueError, "K is 32", spec(), spec(), None, 64, None),
    (ValueError, "partial along 'x'", spec([None, None], ["x"]), spec([None, "x"]), None, 32, None),
    (ValueError, "partial along 'x'", spec(None, ["x"]), spec(None, ["x"]), None, 32, None),
    (ValueError, "takes matrices", spec(["x", None, None]), spec(), None, 32, None),
    (ValueError, "must be distributed as the result", spec(), spec(), spec(["x", None]), 32, tl.float32),
    (ValueError, "must accumulate in", spec(), spec(), spec(), 32, tl.float16),
])
def test_refusals(error, match, a, b, c, k, kind):
    refused(error, match, wrong, {"x": "*fp32"}, spec_a=a, spec_b=b, spec_c=c, K=k, C=kind)


def test_who_moves():
    """Only what has to move does."""
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "out": "*fp32"}

    def gathered(case):
        split_a, split_b, split, partial = CASES[case]
        specs = spec(split_a), spec(split_b), spec(list(split), list(partial))
        factors = tuple(one.factor(axis) for one in specs for axis in (0, 1))
        constants = dict(zip(("spec_a", "spec_b", "spec_c"), specs), M=M, N=N, K=K, FACTORS=factors, HAS_C=False)
        return "ld.shared::cluster" in to_ttgir(multiply, signature, constants).stages["ttgir"]

    assert [case for case in CASES if gathered(case)] == [
        "K over x in a, over y in b", "x splits M and N", "x splits M and K of b", "x splits K of a and N",
        "a over both axes, b too", "two axes cut M"]
