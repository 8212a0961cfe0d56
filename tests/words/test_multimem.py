"""The memory of all GPUs at once: simulated against numpy, refused, and as PTX that ptxas takes. Never run on a GPU here."""

import re

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import SimulatorMisuse, TargetError
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_ttgir
from tests.tle.compiling import refused

N = 256


@mimw.jit
def all_reduce(x, flag, world, N: tl.constexpr, OP: tl.constexpr):
    """Each rank reduces its part over all ranks and writes it at all; one instruction tells everybody."""
    tlx.world_barrier(world)
    part = tlx.multicast_pointer(x, world) + tlx.world_rank(world) * N + tl.arange(0, N)
    tlx.multimem_store(part, tlx.multimem_load_reduce(part, op=OP))
    tlx.multimem_reduce(tlx.multicast_pointer(flag, world), 1, sem="release")
    tlx.wait_signal(flag, tlx.world_size(world))


CASES = [(np.float32, "add"), (np.float16, "add"), (ml_dtypes.bfloat16, "max"), (np.float16, "min"), (np.int32, "min"),
         (np.uint32, "max"), (np.int64, "xor"), (np.uint32, "add"), (np.float64, "add")]
NUMPY = {"add": np.add, "min": np.minimum, "max": np.maximum, "xor": np.bitwise_xor}


@pytest.mark.parametrize("dtype, op", CASES, ids=lambda case: case if isinstance(case, str) else np.dtype(case).name)
def test_all_reduce(dtype, op):
    world = mimw.World(3, multicast=True)
    x, flag = world.symmetric(3 * N, dtype, "x"), world.symmetric(1, "int32", "flag")
    random, low = np.random.default_rng(0), 0 if np.dtype(dtype).kind == "u" else -100
    for one in x:
        one[...] = random.integers(low, 100, one.shape).astype(dtype)
    a, b, c = (one.copy() for one in x)
    mimw.simulate(all_reduce, (1, ), x, flag, world, N, op, races=True)
    assert all((one == NUMPY[op](NUMPY[op](a, b), c)).all() for one in x)


def test_sums_of_narrow_floats_are_rounded_once():
    world = mimw.World(3, multicast=True)
    x, flag = world.symmetric(3 * N, np.float16, "x"), world.symmetric(1, "int32", "flag")
    for rank, one in enumerate(x):
        one[...] = np.random.default_rng(rank).standard_normal(3 * N)
    a, b, c = (one.copy() for one in x)
    mimw.simulate(all_reduce, (1, ), x, flag, world, N, "add")
    assert all((one == ((a.astype(np.float32) + b) + c).astype(np.float16)).all() for one in x)
    assert (x[0] != (a + b) + c).any()


@mimw.jit
def some(x, y, world, N: tl.constexpr, LIMIT: tl.constexpr, VECTOR: tl.constexpr, SHIFT: tl.constexpr, HOW: tl.constexpr):
    rows = tl.arange(0, 4)[:, None] * (N // 4) + tl.arange(0, N // 4)[None, :]
    base = x if HOW == "plain" else tlx.multicast_pointer(x, world)
    if HOW == "ordinary":
        tl.store(base + rows, 1.0)
    if HOW == "private":
        tl.store(tlx.multicast_pointer(y, world), 1.0)
    tlx.world_barrier(world)
    pointers, mask = base + rows + SHIFT, rows < LIMIT
    total = tlx.multimem_load_reduce(pointers, mask=mask, vector=VECTOR)
    tl.store(y + rows, total)
    tlx.world_barrier(world)
    if tlx.world_rank(world) == 1:
        tlx.multimem_store(pointers, total * 2, mask=mask, vector=VECTOR)
    tlx.world_barrier(world)
    if tlx.world_rank(world) == 0:
        tlx.multimem_reduce(pointers, rows * 1.0, mask=mask, vector=VECTOR)


def test_masks_and_tiles_of_two_dimensions():
    """A sum of what both have, twice that stored by one, and more added by the other: up to the mask's limit."""
    world = mimw.World(2, multicast=True)
    x, y = world.symmetric(N, np.float32, "x"), world.each(lambda rank: np.full(N, -1, np.float32), "y")
    x[0][...], x[1][...] = np.arange(N), 1
    mimw.simulate(some, (1, ), x, y, world, N, 100, 4, 0, "right", races=True)
    expected = np.where(np.arange(N) < 100, np.arange(N) + 1, 0)
    assert all((one == expected).all() for one in y)
    assert all((one[:100] == 2 * expected[:100] + np.arange(100)).all() for one in x)
    assert (x[0][100:] == np.arange(100, N)).all() and (x[1][100:] == 1).all()


@pytest.mark.parametrize("match, limit, vector, shift, how, multicast", [
    ("the world has no multicast", 100, 4, 0, "right", False),
    ("the mask takes some of them only", 98, 4, 0, "right", True),
    ("do not lie one after the other from a multiple of 16 bytes", 100, 4, 1, "right", True),
    ("not one of all ranks", 100, 4, 0, "plain", True),
    ("one of all ranks at once: on a GPU that is undefined", 100, 4, 0, "ordinary", True),
    ("argument 'y' of rank . is not symmetric", 100, 4, 0, "private", True),
])
def test_what_the_simulator_refuses(match, limit, vector, shift, how, multicast):
    world = mimw.World(2, multicast=multicast)
    x, y = world.symmetric(2 * N, np.float32, "x"), world.each(lambda rank: np.zeros(N, np.float32), "y")
    with pytest.raises((SimulatorMisuse, mimw.errors.PeerUnreachable), match=match):
        mimw.simulate(some, (1, ), x, y, world, N, limit, vector, shift, how)


@mimw.jit
def wrong(x, h, b, world, HOW: tl.constexpr):
    at = tl.arange(0, 64)
    if HOW == "op":
        tlx.multimem_load_reduce(x + at, op="max")
    if HOW == "bytes":
        tlx.multimem_load_reduce(b + at)
    if HOW == "one":
        tlx.multimem_load_reduce(x)
    if HOW == "vector":
        tlx.multimem_store(h + at, 0.0, vector=1)
    if HOW == "half":
        tlx.multimem_reduce(h, 1.0)
    if HOW == "rows":
        tlx.multimem_store(x + at, 0.0, vector=128)
    if HOW == "sem":
        tlx.multimem_store(x + at, 0.0, sem="acquire")
    if HOW == "mask":
        tlx.multimem_store(x + at, 0.0, mask=at)
    if HOW == "world":
        tlx.multicast_pointer(x, h)


@pytest.mark.parametrize("error, match, how", [
    (ValueError, "op is 'max'; of fp32 it may be 'add'", "op"), (TypeError, "int8, of which the switch has no sums", "bytes"),
    (TypeError, "a tile of pointers to numbers", "one"), (ValueError, "a power of two from 2 to 8", "vector"),
    (ValueError, "1 neighbours of fp16", "half"), (ValueError, "a power of two from 1 to 4", "rows"),
    (ValueError, "'relaxed' or 'release'", "sem"), (TypeError, "a tile of booleans", "mask"), (TypeError, "`world`", "world"),
])
def test_refusals(error, match, how):
    refused(error, match, wrong, {"x": "*fp32", "h": "*fp16", "b": "*i8", "world": "*i64"}, HOW=how)


@mimw.jit
def everything(x, h, i, w, flag, world, N: tl.constexpr):
    at, short = tl.arange(0, N), tl.arange(0, 64)
    xs, hs, ii, ws = (tlx.multicast_pointer(x, world), tlx.multicast_pointer(h, world), tlx.multicast_pointer(i, world),
                      tlx.multicast_pointer(w, world))
    tlx.multimem_store(xs + at, tlx.multimem_load_reduce(xs + at, sem="acquire"), mask=at < 1000)
    tlx.multimem_reduce(hs + at, tlx.multimem_load_reduce(hs + at))
    tlx.multimem_store(hs + at, tlx.multimem_load_reduce(hs + at, op="max", vector=2))
    low = tlx.multimem_load_reduce(ii + short, op="min", mask=short < 7)
    tlx.multimem_store(ii + short, low, sem="release")
    tlx.multimem_reduce(ws + short, tlx.multimem_load_reduce(ws + short, op="xor"), op="and")
    tlx.multimem_reduce(tlx.multicast_pointer(flag, world), 1, sem="release")


SIGNATURE = {"x": "*fp32", "h": "*bf16", "i": "*u32", "w": "*i64", "flag": "*i32", "world": "*i64"}


@pytest.mark.parametrize("chip", ["sm_90a", "sm_100a"])
def test_instructions(chip):
    """ptxas takes them all."""
    compiled = compile_kernel(everything, SIGNATURE, {"N": 1024}, target=chip)
    ptx = compiled.stages["ptx"]
    assert set(re.findall(r"multimem\.(\w+\.(?:relaxed|acquire|release)\S+)", ptx)) == {
        "ld_reduce.acquire.sys.global.add.v4.f32", "st.relaxed.sys.global.v4.f32",
        "ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2", "red.relaxed.sys.global.add.v4.bf16x2",
        "ld_reduce.relaxed.sys.global.max.bf16x2", "st.relaxed.sys.global.v4.f32", "ld_reduce.relaxed.sys.global.min.u32",
        "st.release.sys.global.v4.f32", "ld_reduce.relaxed.sys.global.xor.b64", "red.relaxed.sys.global.and.b64",
        "red.release.sys.global.add.u32"}
    assert "cubin" in compiled.stages and "@none trap" in ptx
    assert re.search(r"ld_reduce\.acquire.*?bar\.sync", ptx, re.DOTALL)
    assert re.search(r"bar\.sync(?:(?!ld_reduce).)*st\.release", ptx, re.DOTALL)


def test_no_such_instructions_elsewhere():
    for chip in ("sm_80", "gfx942"):
        with pytest.raises(TargetError, match="it has no instructions on the memory of all GPUs at once"):
            to_ttgir(all_reduce, {"x": "*fp32", "flag": "*i32", "world": "*i64"}, {"N": 64, "OP": "add"}, target=chip)
