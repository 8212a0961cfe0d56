"""The transition table, row by row: every shard of every result against numpy."""

import itertools

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels.resharding import pieces
from tests.tle.compiling import refused

SQUARE = tle.device_mesh({"cluster": [("x", 2), ("y", 2)]})
LINE = tle.device_mesh({"cluster": [("x", 4)]})
THREE = tle.device_mesh({"cluster": [("x", 3)]})
M, N = 16, 32


@mimw.jit
def change(x, y, have: tl.constexpr, want: tl.constexpr, M: tl.constexpr, N: tl.constexpr, M1: tl.constexpr, N1: tl.constexpr,
           M2: tl.constexpr, N2: tl.constexpr, TIMES: tl.constexpr):
    base = tl.program_id(0)
    old = tl.arange(0, M1)[:, None] * N1 + tl.arange(0, N1)[None, :]
    new = tl.arange(0, M2)[:, None] * N2 + tl.arange(0, N2)[None, :]
    for time in range(TIMES):
        shard = tl.load(x + (time * tl.num_programs(0) + base) * M1 * N1 + old)
        result = tle.reshard(tle.make_sharded_tensor(shard, have, [M, N]), want)
        tl.store(y + (time * tl.num_programs(0) + base) * M2 * N2 + new, result.handle)


def spec(mesh, split=None, partial=None):
    return tle.sharding(mesh, split, partial)


ROWS = {
    "scatter": (spec(SQUARE), spec(SQUARE, ["x", "y"])),
    "gather": (spec(SQUARE, ["x", "y"]), spec(SQUARE)),
    "reduce": (spec(SQUARE, [], ["x", "y"]), spec(SQUARE)),
    "own slice": (spec(SQUARE, ["x", None]), spec(SQUARE, ["x", "y"])),
    "own finer slice": (spec(SQUARE, ["x", None]), spec(SQUARE, [["x", "y"], None])),
    "all-gather": (spec(SQUARE, ["x", "y"]), spec(SQUARE, ["x", None])),
    "all-gather of the outer axis": (spec(SQUARE, [["x", "y"], None]), spec(SQUARE, ["y", None])),
    "all-reduce": (spec(SQUARE, ["x", None], ["y"]), spec(SQUARE, ["x", None])),
    "all-to-all": (spec(LINE, ["x", None]), spec(LINE, [None, "x"])),
    "all-to-all of both": (spec(SQUARE, ["x", "y"]), spec(SQUARE, ["y", "x"])),
    "other order": (spec(SQUARE, [["x", "y"], None]), spec(SQUARE, [["y", "x"], None])),
    "reduce-scatter": (spec(LINE, [], ["x"]), spec(LINE, [None, "x"])),
    "reduce-scatter of one": (spec(SQUARE, ["x", None], ["y"]), spec(SQUARE, ["x", "y"])),
    "one of two sums": (spec(SQUARE, [], ["x", "y"]), spec(SQUARE, [], ["y"])),
    "gather of a short split": (spec(LINE, ["x"]), spec(LINE)),
    "slice by a short split": (spec(LINE), spec(LINE, ["x"])),
    "all-to-all from a short split": (spec(LINE, ["x"]), spec(LINE, [None, "x"])),
    "same": (spec(SQUARE, ["x", "y"]), spec(SQUARE, ["x", "y"])),
    "same partial": (spec(SQUARE, ["x", None], ["y"]), spec(SQUARE, [["x"], []], ["y"])),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8], ids=str)
def test_the_table(machine, row, dtype):
    have, want = ROWS[row]
    times = 2
    wholes = [np.random.default_rng(seed).integers(-8, 8, (M, N)).astype(dtype) for seed in range(times)]
    x = np.stack([pieces(whole, have, 1) for whole in wholes])
    y = np.zeros((times, have.mesh.size, M // want.factor(0), N // want.factor(1)), dtype)
    machine.launch(change, (1, ), x, y, have, want, M, N, *x.shape[2:], *y.shape[2:], times)
    if want.partial:
        if want.partial == have.partial:
            assert (y == x).all()
            return
        y = y.reshape(times, 2, 2, M, N).sum(2 if want.partial == ("y", ) else 1)
        assert (y == np.stack(wholes)[:, None]).all()
        return
    assert (y == np.stack([pieces(whole, want, 1) for whole in wholes])).all()


@pytest.mark.parametrize("first, second", list(itertools.product(["x", "y", None], repeat=2)))
def test_every_split_into_every_split(machine, first, second):
    """Of a vector: S, of another axis, and B."""
    have, want = spec(SQUARE, [first]), spec(SQUARE, [second])
    whole = np.arange(64, dtype=np.int32)
    x, expected = pieces(whole, have, 0), pieces(whole, want, 0)
    y = np.zeros_like(expected)
    machine.launch(vector, (1, ), x, y, have, want, x.shape[1], y.shape[1])
    assert (y == expected).all()


@mimw.jit
def vector(x, y, have: tl.constexpr, want: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr):
    shard = tl.load(x + tl.program_id(0) * N1 + tl.arange(0, N1))
    result = tle.reshard(tle.make_sharded_tensor(shard, have), want)
    tl.store(y + tl.program_id(0) * N2 + tl.arange(0, N2), result.handle)


@mimw.jit
def handles(x, y, spec: tl.constexpr, whole: tl.constexpr, KIND: tl.constexpr):
    """The shard is in a buffer, behind pointers, or a part of a tensor in global memory."""
    r, c = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    row, column = tle.shard_id(spec.mesh, 0), tle.shard_id(spec.mesh, 1)
    if KIND == "global":
        result = tle.reshard(tle.make_sharded_tensor(x, spec, [16, 32]), whole)
    else:
        shard = tl.load(x + (8 * row + r) * 32 + 16 * column + c)
        tile = tle.gpu.alloc([8, 16], x.dtype.element_ty, init_value=shard)
        if KIND == "buffer":
            result = tle.reshard(tle.make_sharded_tensor(tile, spec, [16, 32]), whole)
        else:
            result = tle.reshard(tle.make_sharded_tensor(tle.gpu.local_ptr(tile), spec, [16, 32]), whole)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(y + tl.program_id(0) * 512 + at, result.handle)


@pytest.mark.parametrize("kind", ["global", "buffer", "pointers"])
def test_handles(machine, kind):
    x, y = np.arange(512, dtype=np.float32).reshape(16, 32), np.zeros((4, 16, 32), np.float32)
    machine.launch(handles, (1, ), x, y, spec(SQUARE, ["x", "y"]), spec(SQUARE), kind)
    assert (y == x).all()


@mimw.jit
def in_a_part(x, y, part: tl.constexpr, N: tl.constexpr):
    """Rows of the square gather for themselves."""
    me, at = tl.program_id(0), tl.arange(0, N)
    shard = tl.load(x + me * N + at)
    if tle.shard_id(part, 0) == 1:
        whole = tle.reshard(tle.make_sharded_tensor(shard, tle.sharding(part, ["y"])), tle.sharding(part))
        tl.store(y + me * 2 * N + tl.arange(0, 2 * N), whole.handle)


def test_a_part_of_the_cluster(machine):
    x, y = np.arange(64, dtype=np.int32).reshape(4, 16), np.zeros((4, 32), np.int32)
    machine.launch(in_a_part, (1, ), x, y, SQUARE[1, :], 16)
    assert (y[2:] == x[2:].reshape(-1)).all() and not y[:2].any()


def test_sums_have_the_same_bits_everywhere(machine):
    have, want = spec(LINE, [], ["x"]), spec(LINE)
    x = np.random.default_rng(0).standard_normal((1, 4, M, N)).astype(np.float32)
    y = np.zeros_like(x)
    machine.launch(change, (1, ), x, y, have, want, M, N, M, N, M, N, 1)
    assert (y[0] == ((x[0, 0] + x[0, 1]) + x[0, 2]) + x[0, 3]).all()


def test_no_order_is_wrong(check_kernel):
    have, want = ROWS["all-to-all"]
    x, y = np.zeros((2, 4, 4, 32), np.float32), np.zeros((2, 4, 16, 8), np.float32)
    check_kernel(change, (1, ), x, y, have, want, M, N, 4, 32, 16, 8, 2)


@mimw.jit
def wrong(x, have: tl.constexpr, want: tl.constexpr, SHAPE: tl.constexpr, PLAIN: tl.constexpr):
    tile = tl.zeros([16, 32], tl.float32)
    if PLAIN:
        tle.reshard(tile, want)
    else:
        tle.reshard(tle.make_sharded_tensor(tile, have, SHAPE), want)


@pytest.mark.parametrize("error, match, have, want, shape, plain", [
    (TypeError, "ShardedTensor", spec(LINE), spec(LINE), (16, 32), True),
    (TypeError, "ShardingSpec", spec(LINE), 3, (16, 32), False),
    (ValueError, "another mesh", spec(LINE), spec(SQUARE), (16, 32), False),
    (ValueError, "B -> P", spec(LINE), spec(LINE, [], ["x"]), (16, 32), False),
    (ValueError, "S -> P", spec(LINE, ["x", None]), spec(LINE, [], ["x"]), (64, 32), False),
    (ValueError, "16 % 3 = 1", spec(THREE), spec(THREE, [["x"], None]), (16, 32), False),
    (ValueError, "a shard of", spec(LINE, ["x", None]), spec(LINE), (16, 32), False),
    (ValueError, "entries", spec(LINE), spec(LINE, ["x", None, None]), (16, 32), False),
    (ValueError, "whole grid", spec(tle.device_mesh({"block": 4})), spec(tle.device_mesh({"block": 4})), (16, 32), False),
])
def test_refusals(error, match, have, want, shape, plain):
    refused(error, match, wrong, {"x": "*fp32"}, have=have, want=want, SHAPE=shape, PLAIN=plain)


def test_instructions():
    """A gather is one wide load an element group, a slice asks nobody."""
    constants = dict(M=M, N=N, M1=8, N1=16, M2=16, N2=32, TIMES=1)
    signature, (have, want) = {"x": "*fp32", "y": "*fp32"}, ROWS["gather"]
    gather = compile_kernel(change, signature, {"have": have, "want": want, **constants})
    assert gather.stages["ptx"].count("ld.shared::cluster.v4.b32") == 1 and gather.stages["ptx"].count("ld.shared::cluster") == 1
    constants |= dict(M1=16, N1=32, M2=8, N2=16)
    own = compile_kernel(change, signature, {"have": spec(SQUARE), "want": spec(SQUARE, ["x", "y"]), **constants})
    assert "shared::cluster" not in own.stages["ptx"] and "barrier.cluster" not in own.stages["ptx"]
